/**
 * Makes the rows and hash trees anew from the log alone, in a new database that then takes the old one's place.
 *
 * The log's records go over byte for byte, and every seq comes from them: none is ever renumbered. One is added where a
 * sender is charged for dedup rows that time forgot and no purge counted (dedup-charges.ts). Wire bytes are not
 * in the log, so those of waiting items are copied where they are what was accepted; an item without them is reported
 * lost by the relay when it is pulled, and its sender pushes it again. The old database is kept aside.
 *
 * Where records were pruned, the rows are those of the oldest checkpoint, and what came after it. Checkpoints that are
 * whole, and that the replay comes by, go over with the log; hashes of pruned records are taken out of the tiles.
 *
 * A crash at any point leaves the old database in use, or the new one, whole (see store/cutover.ts): never a mixture.
 */
import { schemaMark, SCHEMA_VERSION } from '../store/marks.ts';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { BulkDatabase } from '../store/bulk-database.ts';
import { MEMORY_BYTES, openScratch } from '../store/scratch.ts';
import { packedAnew, waitingItems } from './rebuild-queues.ts';
import {
  CHECKPOINT_PREFIXES,
  KEY_BYTES,
  PREFIX,
  TREE_PREFIXES,
  firstNumberOf,
  logKey,
  prefixRange,
  rowKeyBytes,
} from '../store/keys.ts';
import type { Pair } from '../../lib/pair-block.ts';
import type { OfflineStore } from './offline.ts';
import type { Level } from '../store/level.ts';
import { runsOf } from '../store/scan.ts';
import { DamagedRecord, decodeRecord } from '../store/record.ts';
import { missingRecord, recordsIn } from '../store/record-run.ts';
import { StoreRefused } from '../store/refused.ts';
import { type ViewMark, logPlace, readViewMark, prunedMark } from '../store/marks.ts';
import {
  type ReplayHalf,
  ReplayedRows,
  ReplayedTree,
  ReplayFailed,
  keptUntilMs,
  knownUntilMs,
  rowBytes,
  senderAt,
} from './replay.ts';
import { baseOf, beginReplay, findCheckpoints, hasRowsOf } from './replay-start.ts';
import { DueWriter } from '../store/due.ts';
import { withChecksum } from '../store/checksum.ts';
import { dropRebuilt, REBUILDING_FOLDER, cutOverToRebuilt } from '../store/cutover.ts';
import type { Progress } from './finding.ts';
import type { HalfDone } from './audit-thread.ts';
import { Helper, type HelperOptions } from './helper.ts';
import type { QueueRow } from '../core/rows.ts';
import type { DedupPurged } from '../core/event.ts';
import { DedupCharges, addPurge } from './dedup-charges.ts';

/** Items without wire bytes that are named. */
const LOST_NAMED_MAX = 100;

export interface Rebuilt {
  events: number;
  rows: number;
  payloads: number;
  /** The waiting items without their wire bytes, the first of them named. */
  lost: number;
  lostItems: readonly QueueRow[];
  /** The folder of the former database. */
  replaced: string;
  elapsedMs: number;
}

/** Rebuilds the store that is open as `offline`, and closes it before the cutover. Throws `StoreRefused`. */
export async function* rebuild(
  offline: OfflineStore,
  folder: string,
  clock: { nowMs: () => number; monotonicMs: () => number },
  helped: HelperOptions = {},
): AsyncGenerator<Progress, Rebuilt> {
  const view = await readViewMark(offline.level);
  if (view) throw new StoreRefused('view', viewSentence(folder, view));
  const startedMs = clock.monotonicMs();
  const filled =
    (yield* filledAnew(offline, folder, clock.nowMs(), helped)) ??
    // The other thread ended without being done.
    (yield* filledAnew(offline, folder, clock.nowMs(), { helpedFrom: Number.POSITIVE_INFINITY }));
  if (!filled) throw new Error('invariant: a rebuild without another thread ends whole');
  await offline.close();
  const replaced = await cutOverToRebuilt(folder, clock.nowMs());
  return { ...filled, replaced, elapsedMs: clock.monotonicMs() - startedMs };
}

/** Makes the new database, and leaves it only when it is whole; `undefined` when the helper did not do its half. */
async function* filledAnew(
  offline: OfflineStore,
  folder: string,
  nowMs: number,
  helped: HelperOptions,
): AsyncGenerator<Progress, Omit<Rebuilt, 'replaced' | 'elapsedMs'> | undefined> {
  const fresh = join(folder, REBUILDING_FOLDER);
  await dropRebuilt(folder);
  const database = await BulkDatabase.create(fresh);
  const memoryBytes = MEMORY_BYTES / 2;
  const helper = Helper.start(offline, { fresh: database.level.location, memoryBytes }, helped);
  let isWhole = false;
  try {
    const own = rebuildHalf(database, offline, helper?.half, helper && memoryBytes);
    const filled = helper ? yield* helper.beside(own) : yield* own;
    const other = helper ? yield* helper.answer() : { rows: 0, checkpoints: filled?.checkpoints ?? [], forgotten: [] };
    if (!filled || !other) return undefined;
    const kept = filled.checkpoints.filter((lsn) => other.checkpoints.includes(lsn));
    yield* copyCheckpoints(database, offline, new Set(kept));
    await helper?.stop();
    const senders = filled.forgotten.concat(other.forgotten ?? []);
    if (senders.length > 0) await addPurge(database, offline.store, senders, nowMs);
    await database.finish();
    isWhole = true;
    const { checkpoints: _checkpoints, forgotten: _forgotten, ...counts } = filled;
    return { ...counts, rows: filled.rows + other.rows };
  } finally {
    // Also when the caller leaves in the middle.
    await helper?.stop();
    if (!isWhole) {
      await database.close();
      await rm(fresh, { recursive: true, force: true });
    }
  }
}

/** The half of another thread: the rows that say which items are known, in the database that is made anew. */
export async function* rebuildKnown(
  offline: OfflineStore,
  fresh: string,
  half: ReplayHalf,
  memoryBytes: number | undefined,
): AsyncGenerator<Progress, HalfDone> {
  const database = await BulkDatabase.join(fresh);
  try {
    const { rows, checkpoints, forgotten } = yield* rebuildHalf(database, offline, half, memoryBytes);
    await database.flush();
    return { rows, bytes: 0, checkpoints, forgotten };
  } finally {
    await database.close();
  }
}

/** Rebuilds everything but the checkpoints, or one half of it: the log and the hash trees are with the others. */
async function* rebuildHalf(
  database: BulkDatabase,
  offline: OfflineStore,
  half: ReplayHalf | undefined,
  memoryBytes: number | undefined,
): AsyncGenerator<Progress, FilledRows & RebuiltLog> {
  const scratch = await openScratch(memoryBytes);
  try {
    const rows = new ReplayedRows(scratch.pairs, half);
    const log = yield* replay(database, offline, rows);
    return { ...log, ...(yield* fill(database, offline, rows)) };
  } finally {
    await scratch.close();
  }
}

function viewSentence(folder: string, mark: ViewMark): string {
  return (
    `the store at ${folder} is a view of a log that is kept ${logPlace(mark)}: move it aside, and the ` +
    'relay makes a new one from the log'
  );
}

interface RebuiltLog {
  events: number;
  /** The records of those that are whole, and that the replay came by. */
  checkpoints: readonly number[];
}

/**
 * Copies the log as it is stored, while it is replayed. Throws `StoreRefused` at a record that is missing or damaged:
 * what follows cannot be replayed.
 */
async function* replay(
  database: BulkDatabase,
  offline: OfflineStore,
  rows: ReplayedRows,
): AsyncGenerator<Progress, RebuiltLog> {
  const { firstLsn, lastLsn, pruned } = offline.store;
  const tree = rows.half === 'known' ? undefined : new ReplayedTree(rows.scratch);
  const checkpoints: number[] = [];
  let startLsn = 0;
  try {
    await tree?.takePrunedHashes(offline.level, pruned.throughLsn);
    const found = yield* findCheckpoints(offline);
    const base = baseOf(found, offline, 'oldest');
    const start = yield* beginReplay(offline, base, rows);
    if (!start) throw new DamagedRecord('no checkpoint that is whole stands for what was pruned');
    startLsn = start.throughLsn;
    let expected = firstLsn;
    const range = { gte: logKey(firstLsn), lt: logKey(lastLsn + 1) };
    for await (const run of runsOf(offline.level, range)) {
      if (tree) await database.take(run);
      for (const [lsn, record] of run.flatMap(recordsIn)) {
        if (lsn !== expected) throw missingRecord(expected);
        expected++;
        const entry = decodeRecord(lsn, record);
        if (lsn > startLsn) rows.apply(entry);
        tree?.add(entry, record);
        if (rows.isFull) await rows.flush();
        const checkpoint = found.whole.find(({ throughLsn }) => throughLsn === lsn);
        if (checkpoint && (await hasRowsOf(offline, checkpoint, rows))) checkpoints.push(lsn);
      }
      yield { stage: 'replay', done: expected - 1, of: lastLsn };
    }
    if (expected <= lastLsn) throw missingRecord(expected);
    if (base && !checkpoints.includes(base.throughLsn)) checkpoints.unshift(base.throughLsn);
  } catch (error) {
    if (!(error instanceof DamagedRecord || error instanceof ReplayFailed)) throw error;
    throw new StoreRefused(
      'damaged',
      `nothing was rebuilt, because the log is damaged (${error.message}): run poste relay log verify for ` +
        'details; restore the newest backup that verifies',
    );
  }
  if (lastLsn === 0)
    throw new StoreRefused('damaged', 'nothing was rebuilt, because the log is empty: restore a backup');
  await rows.flush();
  return { events: lastLsn - startLsn, checkpoints };
}

interface FilledRows extends Pick<Rebuilt, 'rows' | 'payloads' | 'lost' | 'lostItems'> {
  /** `HalfDone` has the same. */
  forgotten: DedupPurged['senders'];
}

async function* fill(
  database: BulkDatabase,
  { level, store }: OfflineStore,
  replayed: ReplayedRows,
): AsyncGenerator<Progress, FilledRows> {
  const filled = { rows: 0, payloads: 0, lost: 0, lostItems: [] as QueueRow[], forgotten: [] };
  const charges = new DedupCharges();
  const put = (...pair: Pair): Promise<void> => database.take([pair]);
  if (replayed.half !== 'known') {
    if (store.pruned.throughLsn > 0) await put(...prunedMark(store.pruned));
    for (const prefix of TREE_PREFIXES) {
      for await (const run of replayed.scratch.runs(prefixRange(prefix))) {
        await database.take(run);
        yield { stage: 'tree', done: filled.rows, of: undefined };
      }
    }
    const heartbeat = await level.get(rowKeyBytes('heartbeat', ''));
    if (heartbeat) await put(rowKeyBytes('heartbeat', ''), heartbeat);
    // The form of the rows below. Where the log says an older one, the next start goes on with the migration.
    await put(...schemaMark(SCHEMA_VERSION));
  }
  const purgedMs = replayed.get('relay', '')?.dedupPurgedMs ?? 0;
  const expiry = new DueWriter(database, PREFIX.expiry, store.lastLsn);
  const dedup = new DueWriter(database, PREFIX.dedupUntil, store.lastLsn);
  for (const prefix of replayed.prefixes) {
    const runs = replayed.runs(prefixRange(prefix));
    if (prefix === PREFIX.queue) {
      yield* fillQueue(database, level, runs, { filled, expiry });
      continue;
    }
    for await (const run of runs) {
      for (const [key, value] of run) {
        if (prefix === PREFIX.dedup) {
          if (keptUntilMs(key, value) <= purgedMs) continue;
          const dueMs = knownUntilMs(value);
          if (dueMs > 0) dedup.add(dueMs, value.subarray(senderAt(value)), key.subarray(1));
        }
        charges.add(key, value);
        await put(key, withChecksum(key, rowBytes(key, value)));
        filled.rows++;
      }
      yield { stage: 'rows', done: filled.rows, of: undefined };
    }
  }
  expiry.write();
  dedup.write();
  return { ...filled, forgotten: charges.forgotten };
}

async function* copyCheckpoints(
  database: BulkDatabase,
  { level }: OfflineStore,
  kept: ReadonlySet<number>,
): AsyncGenerator<Progress, void> {
  let done = 0;
  for (const prefix of CHECKPOINT_PREFIXES) {
    for await (const run of runsOf(level, prefixRange(prefix))) {
      await database.take(run.filter(([key]) => key.length === KEY_BYTES[prefix] && kept.has(firstNumberOf(key))));
      yield { stage: 'checkpoints', done: (done += run.length), of: undefined };
    }
  }
}

/** Brings over items that wait, with their wire bytes where those are what was accepted. */
async function* fillQueue(
  database: BulkDatabase,
  level: Level,
  runs: AsyncIterable<readonly Pair[]>,
  { filled, expiry }: { filled: FilledRows & { lostItems: QueueRow[] }; expiry: DueWriter },
): AsyncGenerator<Progress, void> {
  for await (const items of waitingItems(level, runs)) {
    for (const { key, row, wire } of items) {
      expiry.add(row.expiresAtMs, key.subarray(1));
      filled.rows++;
      if (wire) filled.payloads++;
      else {
        filled.lost++;
        if (filled.lostItems.length < LOST_NAMED_MAX) filled.lostItems.push(row);
      }
    }
    await database.take(packedAnew(items));
    yield { stage: 'rows', done: filled.rows, of: undefined };
  }
}
