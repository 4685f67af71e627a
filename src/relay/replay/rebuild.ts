/**
 * Makes the rows and hash trees anew from the log alone, in a new database that then takes the old one's place.
 *
 * The log's records go over byte for byte, and every seq comes from them: none is ever renumbered. Wire bytes are not
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
import { hasHash } from '../../protocol/encodings.ts';
import { BulkDatabase, type ScratchPairs, openScratch } from '../store/scratch.ts';
import {
  CHECKPOINT_PREFIXES,
  DEDUP_OWNERS,
  KEY_BYTES,
  PREFIX,
  REPLAYED_TABLES,
  TREE_PREFIXES,
  checkpointLsnOf,
  logKey,
  payloadKey,
  prefixRange,
  rowKeyBytes,
} from '../store/keys.ts';
import type { Pair } from '../../lib/pair-block.ts';
import type { OfflineStore } from './offline.ts';
import type { Level } from '../store/level.ts';
import { missingRecord } from '../store/record-run.ts';
import { runsOf } from '../store/scan.ts';
import { DamagedRecord } from '../store/record.ts';
import { StoreRefused } from '../store/refused.ts';
import { type ViewMark, logPlace, readViewMark, prunedMark } from '../store/marks.ts';
import { ReplayedRows, ReplayedTree, ReplayFailed, baseOf, beginReplay, findCheckpoints, hasRowsOf } from './replay.ts';
import type { RowCheckpoint } from '../store/row-checkpoints.ts';
import { DueEntries } from '../store/due.ts';
import { decodeRow } from '../store/row-codec.ts';
import { dropRebuilt, REBUILDING_FOLDER, cutOverToRebuilt } from '../store/cutover.ts';
import type { Progress } from './finding.ts';
import { Helper, type HelperOptions } from './helper.ts';
import { entryOf, leafedRecords, readRecords, readAhead } from './walks.ts';
import type { QueueRow } from '../core/rows.ts';

/** Due entries are written when so many rows were seen: what one entry names fits in memory. */
const DUE_ROWS = 10_000;
/** Wire bytes that are read at once, about. */
const WIRES_BYTES = 4 << 20;
/** Items without wire bytes that are named. */
const LOST_NAMED_MAX = 100;

export interface Rebuilt {
  events: number;
  rows: number;
  payloads: number;
  /** Waiting items without their wire bytes, the first of them named. */
  lost: number;
  lostItems: readonly QueueRow[];
  /** The folder of the former database. */
  replaced: string;
  /** The time that the replay took, in which the log is copied too. */
  replayMs: number;
}

/** Rebuilds the store that is open as `offline`, and closes it before the cutover. Throws `StoreRefused`. */
export async function* rebuild(
  offline: OfflineStore,
  folder: string,
  clock: { nowMs: () => number; monotonicMs: () => number },
  helped: Omit<HelperOptions, 'verifiesWires'> = {},
): AsyncGenerator<Progress, Rebuilt> {
  const view = await readViewMark(offline.level);
  if (view) throw new StoreRefused('view', viewSentence(folder, view));
  const scratch = await openScratch();
  try {
    const filled = yield* filledAnew(offline, folder, scratch.pairs, clock, helped);
    await offline.close();
    const replaced = await cutOverToRebuilt(folder, clock.nowMs());
    return { ...filled, replaced };
  } finally {
    await scratch.close();
  }
}

/** Makes the new database, and leaves it only when it is whole. */
async function* filledAnew(
  offline: OfflineStore,
  folder: string,
  scratch: ScratchPairs,
  clock: { monotonicMs: () => number },
  helped: Omit<HelperOptions, 'verifiesWires'>,
): AsyncGenerator<Progress, Omit<Rebuilt, 'replaced'>> {
  const fresh = join(folder, REBUILDING_FOLDER);
  await dropRebuilt(folder);
  const database = await BulkDatabase.create(fresh);
  let isWhole = false;
  try {
    const startedMs = clock.monotonicMs();
    const replayed = new ReplayedRows(scratch);
    const { checkpoints, events } = yield* replay(database, offline, scratch, replayed, helped);
    const replayMs = clock.monotonicMs() - startedMs;
    const filled = yield* fill(database, offline, scratch, replayed, checkpoints);
    await database.finish();
    isWhole = true;
    return { events, ...filled, replayMs };
  } finally {
    // Also when the caller leaves in the middle.
    if (!isWhole) {
      await database.close();
      await rm(fresh, { recursive: true, force: true });
    }
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
  /** Those that are whole, and that the replay came by. */
  checkpoints: RowCheckpoint[];
}

/**
 * Copies the log as it is stored, while it is replayed. Throws `StoreRefused` at a record that is missing or damaged:
 * what follows cannot be replayed.
 */
async function* replay(
  database: BulkDatabase,
  offline: OfflineStore,
  scratch: ScratchPairs,
  rows: ReplayedRows,
  helped: Omit<HelperOptions, 'verifiesWires'>,
): AsyncGenerator<Progress, RebuiltLog> {
  const { firstLsn, lastLsn, pruned } = offline.store;
  const helper = Helper.start(offline.level, lastLsn - pruned.throughLsn, helped);
  const tree = new ReplayedTree(scratch);
  const checkpoints: RowCheckpoint[] = [];
  let startLsn = 0;
  try {
    await tree.takePrunedHashes(offline.level, pruned.throughLsn);
    const found = yield* findCheckpoints(offline);
    const base = baseOf(found, offline, 'oldest');
    const start = yield* beginReplay(offline, base, scratch);
    if (!start) throw new DamagedRecord('no checkpoint that is whole stands for what was pruned');
    startLsn = start.throughLsn;
    let expected = firstLsn;
    const range = { gte: logKey(firstLsn), lt: logKey(lastLsn + 1) };
    for await (const run of helper?.records(range, firstLsn) ?? readRecords(offline.level, range, false)) {
      for (const { pair } of run) {
        database.put(...pair);
        if (database.isFull) await database.handOver();
      }
      for (const stored of run.flatMap(leafedRecords)) {
        const { lsn, record, leaf } = stored;
        if (lsn !== expected) throw missingRecord(expected);
        expected++;
        const entry = entryOf(stored);
        if (lsn > startLsn) rows.apply(entry);
        tree.add(entry, record, leaf);
        if (rows.isFull) await rows.flush();
        const checkpoint = found.whole.find(({ throughLsn }) => throughLsn === lsn);
        if (checkpoint && (await hasRowsOf(checkpoint, rows, scratch))) checkpoints.push(checkpoint);
      }
      yield { stage: 'replay', done: expected - 1, of: lastLsn };
    }
    if (expected <= lastLsn) throw missingRecord(expected);
    if (base && !checkpoints.includes(base)) checkpoints.unshift(base);
  } catch (error) {
    if (!(error instanceof DamagedRecord || error instanceof ReplayFailed)) throw error;
    throw new StoreRefused(
      'damaged',
      `nothing was rebuilt, because the log is damaged (${error.message}): run poste relay log verify for ` +
        'details; restore the newest backup that verifies',
    );
  } finally {
    await helper?.close();
  }
  if (lastLsn === 0)
    throw new StoreRefused('damaged', 'nothing was rebuilt, because the log is empty: restore a backup');
  await rows.flush();
  return { events: lastLsn - startLsn, checkpoints };
}

type Filled = Pick<Rebuilt, 'rows' | 'payloads' | 'lost' | 'lostItems'>;

async function* fill(
  database: BulkDatabase,
  { level, store }: OfflineStore,
  scratch: ScratchPairs,
  replayed: ReplayedRows,
  checkpoints: readonly RowCheckpoint[],
): AsyncGenerator<Progress, Filled> {
  const filled = { rows: 0, payloads: 0, lost: 0, lostItems: [] as QueueRow[] };
  const put = async (key: Buffer, value: Buffer): Promise<void> => {
    database.put(key, value);
    if (database.isFull) await database.handOver();
  };
  if (store.pruned.throughLsn > 0) await put(...prunedMark(store.pruned));
  const kept = new Set(checkpoints.map(({ throughLsn }) => throughLsn));
  for (const prefix of CHECKPOINT_PREFIXES) {
    for await (const run of runsOf(level, prefixRange(prefix))) {
      for (const [key, value] of run)
        if (key.length === KEY_BYTES[prefix] && kept.has(checkpointLsnOf(key))) await put(key, value);
      yield { stage: 'checkpoints', done: filled.rows, of: undefined };
    }
  }
  for (const prefix of TREE_PREFIXES) {
    for await (const run of scratch.runs(prefixRange(prefix))) {
      for (const [key, value] of run) await put(key, value);
      yield { stage: 'tree', done: filled.rows, of: undefined };
    }
  }
  const heartbeat = await level.get(rowKeyBytes('heartbeat', ''));
  if (heartbeat) await put(rowKeyBytes('heartbeat', ''), heartbeat);
  // The form of the rows below. Where the log says an older one, the next start goes on with the migration.
  await put(...schemaMark(SCHEMA_VERSION));
  const purgedMs = replayed.get('relay', '')?.dedupPurgedMs ?? 0;
  const expiry = new DueWriter(database, PREFIX.expiry, store.lastLsn);
  for (const table of REPLAYED_TABLES) {
    const runs = replayed.runs(prefixRange(PREFIX[table]));
    if (table === 'queue') {
      yield* fillQueue(database, level, runs, { filled, expiry });
      continue;
    }
    for await (const run of runs) {
      for (const [key, value] of run) {
        if (table === 'dedup' && decodeRow('dedup', key, value).dedupUntilMs <= purgedMs) continue;
        await put(key, value);
        filled.rows++;
      }
      yield { stage: 'rows', done: filled.rows, of: undefined };
    }
  }
  expiry.write();
  const dedup = new DueWriter(database, PREFIX.dedupUntil, store.lastLsn);
  for await (const run of scratch.runs(prefixRange(DEDUP_OWNERS))) {
    for (const [key, owner] of run) {
      const dueMs = Number(owner.readBigUInt64BE(0));
      if (dueMs <= purgedMs) continue;
      dedup.add(dueMs, owner.subarray(8), key.subarray(1));
    }
    if (database.isFull) await database.handOver();
  }
  dedup.write();
  return filled;
}

/** Brings over items that wait, with their wire bytes where those are what was accepted. */
async function* fillQueue(
  database: BulkDatabase,
  level: Level,
  runs: AsyncIterable<readonly Pair[]>,
  { filled, expiry }: { filled: Filled & { lostItems: QueueRow[] }; expiry: DueWriter },
): AsyncGenerator<Progress, void> {
  for await (const items of readAhead(waitingItems(runs), (some) => withWires(level, some))) {
    for (const { key, value, row, wireKey, wire } of items) {
      expiry.add(row.expiresAtMs, key.subarray(1));
      if (hasHash(wire, row.wireHash)) {
        database.put(wireKey, wire);
        filled.payloads++;
      } else {
        filled.lost++;
        if (filled.lostItems.length < LOST_NAMED_MAX) filled.lostItems.push(row);
      }
      database.put(key, value);
      filled.rows++;
      if (database.isFull) await database.handOver();
    }
    yield { stage: 'rows', done: filled.rows, of: undefined };
  }
}

interface WaitingItem {
  key: Buffer;
  value: Buffer;
  row: QueueRow;
  wireKey: Buffer;
}

/** Items whose wire bytes are read together. */
async function* waitingItems(runs: AsyncIterable<readonly Pair[]>): AsyncGenerator<WaitingItem[]> {
  for await (const run of runs)
    yield* bySize(
      run.map(([key, value]) => {
        const row = decodeRow('queue', key, value);
        return { key, value, row, wireKey: payloadKey(row.payloadTarget, row.payloadSeq) };
      }),
    );
}

async function withWires(
  level: Level,
  items: readonly WaitingItem[],
): Promise<(WaitingItem & { wire: Buffer | undefined })[]> {
  const keys = items.map(({ wireKey }) => wireKey);
  const wires = await level.getMany(keys, { fillCache: false });
  return items.map((item, at) => ({ wire: wires[at], ...item }));
}

function* bySize<T extends { row: QueueRow }>(rows: readonly T[]): Generator<T[]> {
  let some: T[] = [];
  let bytes = 0;
  for (const one of rows) {
    some.push(one);
    bytes += one.row.bytes;
    if (bytes < WIRES_BYTES) continue;
    yield some;
    [some, bytes] = [[], 0];
  }
  if (some.length > 0) yield some;
}

/** Writes the due entries of one index anew. Their second number tells entries of one time apart, and is no LSN. */
class DueWriter {
  readonly #database: BulkDatabase;
  readonly #prefix: number;
  readonly #below: number;
  #entries = new DueEntries();
  #rows = 0;
  #written = 0;

  /** `lastLsn`: entries of batches to come carry greater numbers. */
  constructor(database: BulkDatabase, prefix: number, lastLsn: number) {
    this.#database = database;
    this.#prefix = prefix;
    this.#below = lastLsn;
  }

  add(dueMs: number, ...run: Buffer[]): void {
    this.#entries.add(this.#prefix, dueMs, ...run);
    if (++this.#rows >= DUE_ROWS) this.write();
  }

  write(): void {
    if (this.#rows === 0) return;
    if (this.#written > this.#below) throw new Error('invariant: fewer due entries of a time than log records');
    for (const [key, value] of this.#entries.entries(this.#written++)) this.#database.put(key, value);
    this.#entries = new DueEntries();
    this.#rows = 0;
  }
}
