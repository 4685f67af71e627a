/**
 * Says where a replay begins: with the first record or, when that was pruned, with a checkpoint of the rows. Every
 * checkpoint is read to its end and compared with its event, whether it is needed or not; a replay takes the first that
 * is whole.
 */
import { keyTextAt } from '../../protocol/public-key.ts';
import type { Pair } from '../../lib/pair-block.ts';
import { DEDUP_RUN_BYTES, PREFIX, firstNumberOf, prefixRange } from '../store/keys.ts';
import { DamagedRecord } from '../store/record.ts';
import {
  CanonicalPairs,
  type ListedCheckpoints,
  type RowCheckpoint,
  RowsDigest,
  isSameDigest,
} from '../store/row-checkpoints.ts';
import { rowOf } from '../store/row-codec.ts';
import type { ScratchPairs } from '../store/scratch.ts';
import type { Progress } from './finding.ts';
import type { OfflineStore } from './offline.ts';
import { type ReplayedRows, knownUntilMs, ownerOf, rowBytes } from './replay.ts';

const KEY = 32;

interface ReplayStart {
  /** The rows after this record are in the scratch; 0 when there are none. */
  throughLsn: number;
  /** Dedup rows among them whose sender is not known. */
  unowned: number;
}

/**
 * Reads checkpoints to their ends and compares each with its event: all of them, or the newest first until one is
 * whole.
 */
export async function* findCheckpoints(
  { store }: OfflineStore,
  { isNewestEnough = false } = {},
): AsyncGenerator<Progress, ListedCheckpoints> {
  const found: ListedCheckpoints = { whole: [], damaged: [] };
  const marks: Pair[] = [];
  for await (const mark of store.checkpoints.marks()) marks.push(mark);
  let rows = 0;
  for (const mark of isNewestEnough ? marks.toReversed() : marks) {
    try {
      const checkpoint = await store.checkpoints.marked(mark);
      for await (const pairs of store.checkpoints.pairs(checkpoint))
        yield { stage: 'checkpoints', done: (rows += pairs.length), of: undefined };
      found.whole.push(checkpoint);
      if (isNewestEnough) break;
    } catch (error) {
      if (!(error instanceof DamagedRecord)) throw error;
      found.damaged.push(error);
    }
  }
  return found;
}

/**
 * The checkpoint with which a replay of this log begins: the oldest after which every record is there, where records
 * were pruned; or the newest through `throughLsn`, so that as little as possible is replayed.
 */
export function baseOf(
  { whole }: ListedCheckpoints,
  { store }: OfflineStore,
  which: 'oldest' | 'newest',
  throughLsn = Number.POSITIVE_INFINITY,
): RowCheckpoint | undefined {
  const { throughLsn: pruned } = store.pruned;
  const isUsable = (one: RowCheckpoint): boolean => one.throughLsn >= pruned && one.throughLsn <= throughLsn;
  if (which === 'newest') return whole.findLast(isUsable);
  return pruned === 0 ? undefined : whole.find(isUsable);
}

/**
 * Brings the rows that a replay of this log begins with into the scratch, where nothing is yet: those of `base`, or
 * none where the log has its beginning. `undefined` when records are gone that nothing stands for. Throws
 * `DamagedRecord`.
 */
export async function* beginReplay(
  { store }: OfflineStore,
  base: RowCheckpoint | undefined,
  { scratch, heldPrefixes: held }: ReplayedRows,
): AsyncGenerator<Progress, ReplayStart | undefined> {
  if (!base) return store.pruned.throughLsn === 0 ? { throughLsn: 0, unowned: 0 } : undefined;
  const { throughLsn, rows } = base;
  let unowned = 0;
  let loaded = 0;
  for await (const pairs of store.checkpoints.pairs(base)) {
    for (const [key, value] of pairs) {
      if (!held.has(key[0] as number)) continue;
      loaded++;
      scratch.put(key, value, key[0] === PREFIX.dedup ? ownerOf() : undefined);
      if (scratch.isFull) await scratch.spill();
    }
    yield { stage: 'rows', done: loaded, of: rows };
  }
  // The sender of a dedup row is named only by the due entry of the time until which the row is kept.
  if (!held.has(PREFIX.dedup)) return { throughLsn, unowned: 0 };
  for await (const pairs of store.checkpoints.pairs(base)) {
    for (const pair of pairs) if (pair[0][0] === PREFIX.dedupUntil) await addOwners(pair, scratch);
  }
  for await (const run of scratch.runs(prefixRange(PREFIX.dedup)))
    for (const [, value] of run) if (knownUntilMs(value) === 0) unowned++;
  return { throughLsn, unowned };
}

/** Says whether a replay that came to the record of a checkpoint has the very rows that were kept. */
export async function hasRowsOf(
  { store }: OfflineStore,
  checkpoint: RowCheckpoint,
  replayed: ReplayedRows,
): Promise<boolean> {
  await replayed.flush();
  const { scratch, heldPrefixes: held } = replayed;
  const [given, kept] = [new RowsDigest(), new RowsDigest()];
  const canonical = new CanonicalPairs();
  for (const prefix of held)
    for await (const run of scratch.runs(prefixRange(prefix))) given.add(canonical.of(run, rowBytes));
  for await (const run of store.checkpoints.pairs(checkpoint))
    kept.add(run.filter(([key]) => held.has(key[0] as number)));
  return isSameDigest(given.taken(), kept.taken());
}

/** The senders that a due entry names, of the rows that are known until its time. */
async function addOwners([due, runs]: Pair, scratch: ScratchPairs): Promise<void> {
  const dueMs = firstNumberOf(due);
  for (let at = 0; at + DEDUP_RUN_BYTES <= runs.length; at += DEDUP_RUN_BYTES) {
    const key = Buffer.concat([Buffer.of(PREFIX.dedup), runs.subarray(at + KEY, at + DEDUP_RUN_BYTES)]);
    const value = scratch.get(key);
    const row = value && Buffer.from(rowBytes(key, value));
    if (!row || rowOf('dedup', key, row).dedupUntilMs !== dueMs) continue;
    scratch.put(key, row, ownerOf(dueMs, keyTextAt(runs, at)));
  }
  if (scratch.isFull) await scratch.spill();
}
