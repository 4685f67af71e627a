/**
 * Where a replay begins: with the first record or, when that was pruned, with a checkpoint of the rows.
 *
 * Every checkpoint is read to its end and compared with its event, whether it is needed or not. A replay cannot begin
 * with a damaged checkpoint: it takes the next one.
 */
import type { Pair } from '../../lib/pair-block.ts';
import type { BulkDatabase } from '../store/bulk.ts';
import { withChecksum } from '../store/checksum.ts';
import {
  CHECKPOINT_PREFIXES,
  DEDUP_OWNERS,
  DEDUP_RUN_BYTES,
  dueTimeOf,
  PREFIX,
  prefixRange,
  REPLAYED_TABLES,
} from '../store/keys.ts';
import type { Level } from '../store/level.ts';
import { readPruned } from '../store/pruned.ts';
import { DamagedRecord } from '../store/record.ts';
import { canonicalRows, type RowCheckpoint, RowsDigest } from '../store/row-checkpoints.ts';
import { decodeRow } from '../store/row-codec.ts';
import { runsOf } from '../store/scan.ts';
import type { Findings, Progress } from './finding.ts';
import { isOfStore, lookedUp } from './walks.ts';
import type { OfflineStore } from './offline.ts';
import { dedupOwnerPair, type ReplayedRows } from './replay.ts';

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
      scratch.put(key, withChecksum(key, value));
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
    if (row && decodeRow('dedup', key, row).dedupUntilMs === dueMs) scratch.put(...dedupOwnerPair(key, dueMs, sender));
  }
  if (scratch.isFull) await scratch.flush();
}

interface CheckpointsAudit {
  /** The rows after this record are in the scratch; `undefined` when no checkpoint stands for what was pruned. */
  startLsn: number | undefined;
  /** By their LSN. */
  whole: ReadonlyMap<number, RowCheckpoint>;
  bytes: number;
}

/**
 * Verifies what stands for the pruned records: the mark that says how far the log was pruned, and the checkpoints of the
 * rows, each against its event. Loads the rows with which the replay begins into the scratch.
 */
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
