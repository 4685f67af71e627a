/**
 * Where a replay begins: with the first record, or, when that was pruned, with a checkpoint of the rows.
 *
 * Every checkpoint is read to its end and held against its event, whether it is needed or not: one that is not whole is
 * no beginning, and the next one is taken in its place.
 */
import type { BulkDatabase } from '../store/bulk.ts';
import { RowsDigest, canonicalRows } from '../store/canonical-rows.ts';
import { DEDUP_OWNERS, DEDUP_RUN_BYTES, PREFIX, REPLAYED_TABLES, dueTimeOf, prefixRange } from '../store/keys.ts';
import type { OfflineStore } from '../store/offline.ts';
import type { Pair } from '../../system/pair-block.ts';
import { runsOf } from '../store/pairs.ts';
import { DamagedRecord } from '../store/record.ts';
import { type ReplayedRows, dedupOwnerPair } from '../store/replay.ts';
import type { RowCheckpoint } from '../store/row-checkpoints.ts';
import { decodeRow } from '../store/row-codec.ts';
import type { Progress } from './finding.ts';

const KEY = 32;

export interface ReplayStart {
  /** The rows after this record are in the scratch; 0 when there are none. */
  throughLsn: number;
  /** Dedup rows among them of which nothing says whose they are. */
  unowned: number;
}

export interface FoundCheckpoints {
  /** In order. */
  whole: RowCheckpoint[];
  /** What is wrong with the others. */
  damaged: DamagedRecord[];
}

/** Reads every checkpoint to its end. */
export async function* findCheckpoints({ store }: OfflineStore): AsyncGenerator<Progress, FoundCheckpoints> {
  const found: FoundCheckpoints = { whole: [], damaged: [] };
  let rows = 0;
  for await (const mark of store.checkpoints.marks()) {
    try {
      const checkpoint = await store.checkpoints.marked(mark);
      for await (const pairs of store.checkpoints.pairs(checkpoint)) {
        rows += pairs.length;
        yield { stage: 'checkpoints', done: rows, of: undefined };
      }
      found.whole.push(checkpoint);
    } catch (error) {
      if (!(error instanceof DamagedRecord)) throw error;
      found.damaged.push(error);
    }
  }
  return found;
}

/**
 * Brings the rows that a replay of this log begins with into the scratch, where nothing is yet: none, or those of the
 * oldest checkpoint. `undefined` when records are gone that no checkpoint stands for.
 */
export async function* beginReplay(
  offline: OfflineStore,
  { whole }: FoundCheckpoints,
  scratch: BulkDatabase,
): AsyncGenerator<Progress, ReplayStart | undefined> {
  const { store } = offline;
  const { throughLsn: pruned } = store.pruned;
  if (pruned === 0) return { throughLsn: 0, unowned: 0 };
  const base = whole.find(({ throughLsn }) => throughLsn >= pruned);
  return base && (yield* loadCheckpoint(offline, base, scratch));
}

/** Brings the rows of a checkpoint into the scratch, where nothing is yet. Throws `DamagedRecord`. */
export async function* loadCheckpoint(
  { store }: OfflineStore,
  checkpoint: RowCheckpoint,
  scratch: BulkDatabase,
): AsyncGenerator<Progress, ReplayStart> {
  const { throughLsn, rows } = checkpoint;
  let dedupRows = 0;
  let loaded = 0;
  for await (const pairs of store.checkpoints.pairs(checkpoint)) {
    for (const [key, value] of pairs) {
      if (key[0] === PREFIX.dedupUntil) continue;
      if (key[0] === PREFIX.dedup) dedupRows++;
      loaded++;
      scratch.put(key, value);
      if (scratch.isFull) await scratch.flush();
    }
    yield { stage: 'rows', done: loaded, of: rows };
  }
  await scratch.flush();
  // Whose a dedup row is stands in the entry of the time that it is known until.
  for await (const pairs of store.checkpoints.pairs(checkpoint)) {
    for (const pair of pairs) if (pair[0][0] === PREFIX.dedupUntil) await addOwners(pair, scratch);
  }
  await scratch.flush();
  let owned = 0;
  for await (const run of runsOf(scratch.level, prefixRange(DEDUP_OWNERS))) owned += run.length;
  return { throughLsn, unowned: dedupRows - owned };
}

/** Whether a replay that came to the record of a checkpoint has the very rows that were kept. */
export async function isThere(
  { rows, rowsHash }: RowCheckpoint,
  replayed: ReplayedRows,
  scratch: BulkDatabase,
): Promise<boolean> {
  await replayed.flush();
  const digest = new RowsDigest();
  for await (const run of canonicalRows(scratch.level, REPLAYED_TABLES)) for (const pair of run) digest.add(pair);
  const found = digest.taken();
  return found.rows === rows && found.rowsHash === rowsHash;
}

/** The senders that a due entry names, of the rows that are known until its time. */
async function addOwners([due, runs]: Pair, scratch: BulkDatabase): Promise<void> {
  const dueMs = dueTimeOf(due);
  const named: { key: Buffer; sender: Buffer }[] = [];
  for (let at = 0; at + DEDUP_RUN_BYTES <= runs.length; at += DEDUP_RUN_BYTES) {
    const key = Buffer.concat([Buffer.of(PREFIX.dedup), runs.subarray(at + KEY, at + DEDUP_RUN_BYTES)]);
    named.push({ key, sender: runs.subarray(at, at + KEY) });
  }
  const rows = await scratch.level.getMany(named.map(({ key }) => key));
  for (const [at, { key, sender }] of named.entries()) {
    const row = rows[at];
    if (row && decodeRow('dedup', '', row).dedupUntilMs === dueMs) scratch.put(...dedupOwnerPair(key, dueMs, sender));
  }
  if (scratch.isFull) await scratch.flush();
}
