/**
 * What stands for the records that were pruned: the mark that says how far they were, and the checkpoints of the rows,
 * each held against the event that vouches for it. The rows that the replay begins with come into the scratch.
 */
import type { BulkDatabase } from '../store/bulk.ts';
import { CHECKPOINT_PREFIXES, PREFIX, prefixRange } from '../store/keys.ts';
import type { Level } from '../store/level.ts';
import type { OfflineStore } from '../store/offline.ts';
import { runsOf } from '../store/pairs.ts';
import { readPruned } from '../store/pruned.ts';
import { DamagedRecord } from '../store/record.ts';
import type { RowCheckpoint } from '../store/row-checkpoints.ts';
import type { Findings, Progress } from './finding.ts';
import { isOfStore, lookedUp } from './looked-up.ts';
import { beginReplay, findCheckpoints } from './replay-start.ts';

export interface CheckpointsAudit {
  /** The rows after this record are in the scratch; `undefined` when no checkpoint stands for what was pruned. */
  startLsn: number | undefined;
  /** By their LSN. */
  whole: ReadonlyMap<number, RowCheckpoint>;
  bytes: number;
}

export async function* verifyCheckpoints(
  offline: OfflineStore,
  scratch: BulkDatabase,
  findings: Findings,
): AsyncGenerator<Progress, CheckpointsAudit> {
  const { level } = offline;
  await verifyMark(level, findings);
  const bytes = await verifyKeys(level, findings);
  const found = yield* findCheckpoints(offline);
  for (const { message } of found.damaged) {
    const advice = 'the one before or after it stands in for it; the relay takes another in its time';
    findings.add('CHECKPOINT_DAMAGED', `${message}: ${advice}`);
  }
  const start = yield* beginReplay(offline, found, scratch);
  if (start && start.unowned > 0) {
    const message = `nothing says when ${start.unowned} dedup rows of checkpoint ${start.throughLsn} may be forgotten, so they never would be`;
    findings.add('DUE_MISSING', message);
  }
  const whole = new Map(found.whole.map((checkpoint) => [checkpoint.throughLsn, checkpoint]));
  return { startLsn: start?.throughLsn, whole, bytes };
}

async function verifyMark(level: Level, findings: Findings): Promise<void> {
  for await (const run of runsOf(level, prefixRange(PREFIX.pruned))) for (const [key] of run) isOfStore(key, findings);
  try {
    await readPruned(level);
  } catch (error) {
    if (!(error instanceof DamagedRecord)) throw error;
    findings.add('MARK_DIFFERS', `${error.message}: restore the newest backup that verifies`);
  }
}

/** Parts without a mark are of a checkpoint that was cut short. Answers how many bytes were read. */
async function verifyKeys(level: Level, findings: Findings): Promise<number> {
  let bytes = 0;
  for (const prefix of CHECKPOINT_PREFIXES) {
    for await (const run of lookedUp(level, prefixRange(prefix), findings)) {
      for (const [key, value] of run) {
        bytes += key.length + value.length;
        isOfStore(key, findings);
      }
    }
  }
  return bytes;
}
