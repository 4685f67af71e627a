/**
 * Whether the rows of a store that is served are those that its log gives: a replay from the newest checkpoint that is whole,
 * against the rows of the same moment.
 *
 * What a scrub cannot see: a row whose checksum is right and whose contents are not, a row that is missing, and one that
 * came back. The log before the checkpoint, hash trees and wire bytes are left to the other checks (scrub.ts, verify.ts).
 */
import { openScratch, type ScratchPairs } from '../store/scratch.ts';
import type { Pair } from '../../lib/pair-block.ts';
import { DamagedRecord } from '../store/record.ts';
import { runsOf } from '../store/scan.ts';
import { type Finding, Findings, type Progress } from './finding.ts';
import type { OfflineStore } from './offline.ts';
import { ReplayedRows, loadCheckpoint } from './replay.ts';
import { verifyDue } from './verify-due.ts';
import { verifyLog } from './verify-log.ts';
import { verifyCharges, verifyRows } from './verify-rows.ts';
import type { RowCheckpoint } from '../store/row-checkpoints.ts';
import type { StoredWalk } from './walks.ts';

/** What the replay may hold in memory. */
const MEMORY_BYTES = 32 << 20;
/** Some 10 MB. */
const PART_ROWS = 100_000;

export interface ServedReport {
  /** The first of them; `found` counts all. */
  findings: readonly Finding[];
  found: number;
  /** The last record of that moment, and the first that was replayed. */
  lsn: number;
  replayedFrom: number;
  records: number;
  rows: number;
}

export async function* verifyServed(offline: OfflineStore): AsyncGenerator<Progress, ServedReport> {
  const { level, store } = offline;
  const findings = new Findings();
  const scratch = await openScratch(MEMORY_BYTES);
  try {
    const { pairs } = scratch;
    const startLsn = yield* newestRows(offline, pairs, findings);
    const rows = new ReplayedRows(pairs);
    const firstLsn = (startLsn ?? store.pruned.throughLsn) + 1;
    const replayed = { rows, tree: undefined, scratch: pairs, startLsn, checkpoints: new Map(), firstLsn };
    const log = yield* verifyLog(offline, replayed, findings);
    let walked = 0;
    if (log.firstBadLsn === undefined) {
      const walk: StoredWalk = (range) => runsOf(level, range);
      walked = (yield* verifyRows(offline, walk, rows, findings)).rows;
      yield* verifyCharges(rows, findings);
      yield* verifyDue(level, walk, rows, PART_ROWS, findings);
    }
    const { listed, total } = findings;
    return {
      findings: listed,
      found: total,
      lsn: store.lastLsn,
      replayedFrom: firstLsn,
      records: log.records,
      rows: walked,
    };
  } finally {
    await scratch.close();
  }
}

/** Brings the rows of the newest whole checkpoint into the scratch, and answers its LSN; 0 where the log has its beginning. */
async function* newestRows(
  offline: OfflineStore,
  scratch: ScratchPairs,
  findings: Findings,
): AsyncGenerator<Progress, number | undefined> {
  const { store } = offline;
  const marks: Pair[] = [];
  for await (const mark of store.checkpoints.marks()) marks.unshift(mark);
  for (const mark of marks) {
    try {
      const checkpoint = yield* wholeCheckpoint(offline, mark);
      if (checkpoint.throughLsn < store.pruned.throughLsn) break;
      return (yield* loadCheckpoint(offline, checkpoint, scratch)).throughLsn;
    } catch (error) {
      if (!(error instanceof DamagedRecord)) throw error;
      const advice = 'the one before it stands in for it; the relay takes another in its time';
      findings.add('CHECKPOINT_DAMAGED', `${error.message}: ${advice}`);
    }
  }
  return store.pruned.throughLsn === 0 ? 0 : undefined;
}

/** Reads all of it before anything of it is believed. Throws `DamagedRecord`. */
async function* wholeCheckpoint({ store }: OfflineStore, mark: Pair): AsyncGenerator<Progress, RowCheckpoint> {
  const checkpoint = await store.checkpoints.marked(mark);
  let done = 0;
  for await (const pairs of store.checkpoints.pairs(checkpoint))
    yield { stage: 'checkpoints', done: (done += pairs.length), of: undefined };
  return checkpoint;
}
