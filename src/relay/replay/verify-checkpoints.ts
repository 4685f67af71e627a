/**
 * Verifies what stands for pruned records: the mark that says how far the log was pruned, the checkpoints of the rows,
 * each against its event, and the hashes that the trees begin with. Loads the rows with which the replay begins into
 * the scratch.
 */
import { onlyOf } from '../../lib/caught.ts';
import { countText } from '../core/count-text.ts';
import { CHECKPOINT_PREFIXES, PREFIX, prefixRange } from '../store/keys.ts';
import { readPruned } from '../store/marks.ts';
import { DamagedRecord } from '../store/record.ts';
import type { ListedCheckpoints } from '../store/row-checkpoints.ts';
import { runsOf } from '../store/scan.ts';
import type { Findings, Progress } from './finding.ts';
import { baseOf, beginReplay, findCheckpoints } from './replay-start.ts';
import { type Verification, isOfStore } from './verification.ts';

/** Verifies every checkpoint of a store at rest, and begins with the oldest, so that the replay comes by the others. */
export async function* verifyCheckpoints(verification: Verification): AsyncGenerator<Progress, void> {
  const { offline, walk, rows, findings } = verification;
  if (rows.half !== 'known') {
    await verifyMark(verification);
    // Parts without a mark are of a checkpoint that was cut short.
    for (const prefix of CHECKPOINT_PREFIXES)
      for await (const run of walk(prefixRange(prefix))) for (const [key] of run) isOfStore(key, findings);
  }
  const found = yield* findCheckpoints(offline);
  addDamaged(found, 'the one before or after it stands in for it', findings);
  const start = yield* beginReplay(offline, baseOf(found, offline, 'oldest'), rows);
  if (start && start.unowned > 0) {
    const message =
      `nothing says when ${countText(start.unowned, 'dedup row')} of checkpoint ${start.throughLsn} may be ` +
      'forgotten, so that would never be';
    findings.add('DUE_MISSING', message);
  }
  verification.startLsn = start?.throughLsn;
  verification.checkpoints = new Map(found.whole.map((checkpoint) => [checkpoint.throughLsn, checkpoint]));
}

/** Verifies the newest checkpoint of a store that is served which is whole, so that little is replayed. */
export async function* verifyNewestCheckpoint(verification: Verification): AsyncGenerator<Progress, void> {
  const { offline, rows, findings } = verification;
  const found = yield* findCheckpoints(offline, { isNewestEnough: true });
  addDamaged(found, 'the one before it stands in for it', findings);
  verification.startLsn = (yield* beginReplay(offline, baseOf(found, offline, 'newest'), rows))?.throughLsn;
}

function addDamaged({ damaged }: ListedCheckpoints, standIn: string, findings: Findings): void {
  for (const { message } of damaged)
    findings.add('CHECKPOINT_DAMAGED', `${message}: ${standIn}; the relay takes another in its time`);
}

async function verifyMark({ offline: { level }, findings }: Verification): Promise<void> {
  for await (const run of runsOf(level, prefixRange(PREFIX.pruned))) for (const [key] of run) isOfStore(key, findings);
  const differs = ({ message }: DamagedRecord): void =>
    findings.add('MARK_DIFFERS', `${message}: restore the newest backup that verifies`);
  await readPruned(level).catch(onlyOf(DamagedRecord, differs));
}

/** Notes whether the hashes of pruned records are where the trees begin. */
export async function* verifyPrunedHashes(verification: Verification): AsyncGenerator<Progress, void> {
  const { offline, tree, findings } = verification;
  yield { stage: 'tree', done: 0, of: undefined };
  try {
    await tree.takePrunedHashes(offline.level, offline.store.pruned.throughLsn);
    verification.isTreeKnown = true;
  } catch (error) {
    if (!(error instanceof DamagedRecord)) throw error;
    findings.add(
      'TREE_MISSING',
      `${error.message}, and the records that it was made of were pruned: restore the newest backup that verifies`,
    );
  }
}
