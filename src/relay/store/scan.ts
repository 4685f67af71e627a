/**
 * Walks over stored keys: pairs in runs, rows of a table, waiting items, slices of the queues. Those over log records
 * are in record-run.ts.
 *
 * Walks pass LevelDB's cache by unless they say otherwise, so that a backup or an audit does not push out what the
 * mail needs. An iterator is closed however a walk ends.
 */
import type { Pair } from '../../lib/pair-block.ts';
import { type PublicKey, publicKeyFromBytes } from '../../protocol/public-key.ts';
import { type QueueRow, rowKey, type TableName, type Tables } from '../core/rows.ts';
import { firstKeyOf, PREFIX, prefixRange, seqOf, KEY_BYTES, SHARE_SENDER_AT } from './keys.ts';
import type { Level, LevelSnapshot } from './level.ts';
import { decodeRow } from './row-codec.ts';
import { DamagedRow, ROW_PREFIXES, rowKind, rowName } from './checksum.ts';
import { isWholeRow, readableRowsOf } from './item-run.ts';

const RUN_PAIRS = 1000;
const RUN_BYTES = 4 << 20;
const TABLE_RUN = { pairs: 500, bytes: 1 << 20 };
/** The wire bytes of the items of one run must fit into memory. */
const WAITING_RUN = { pairs: 64, bytes: 1 << 20 };
/** Decoding these rows holds the event loop for about a millisecond. */
const QUEUE_RUN = { pairs: 100, bytes: 64 << 10 };
const SLICE_ROWS_MAX = 256;

export interface KeyRange {
  gt?: Buffer;
  gte?: Buffer;
  lt?: Buffer;
  lte?: Buffer;
  /** Descending keys. */
  reverse?: boolean;
  /** Pairs of the whole walk at most. */
  limit?: number;
}

export interface RunsOptions {
  /** Absent: the database as it is now. */
  snapshot?: LevelSnapshot;
  /** Pairs of one run at most, and its bytes, about. */
  pairs?: number;
  bytes?: number;
  /** Says whether LevelDB keeps in its cache what is read; it does not when absent. */
  fillCache?: boolean;
}

/** Every pair of the range, ascending, in runs that are not empty. Throws when LevelDB cannot read one of its files. */
export async function* runsOf(
  level: Level,
  range: KeyRange,
  { snapshot, pairs = RUN_PAIRS, bytes = RUN_BYTES, fillCache = false }: RunsOptions = {},
): AsyncGenerator<Pair[]> {
  const iterator = level.iterator({ ...range, fillCache, highWaterMarkBytes: bytes, ...(snapshot && { snapshot }) });
  try {
    // The next run is read while this one is in use.
    for (let run = await iterator.nextv(pairs); run.length > 0; ) {
      const next = iterator.nextv(pairs);
      // Seen when its turn comes; the caller may leave before that.
      next.catch(() => undefined);
      yield run;
      run = await next;
    }
  } finally {
    await iterator.close();
  }
}

/**
 * Yields what `read` makes of each, in order: it reads the next one while one is in use. An error comes in its place.
 */
export async function* readAhead<T, U>(all: AsyncIterable<T>, read: (one: T) => Promise<U>): AsyncGenerator<U> {
  let ahead: Promise<U> | undefined;
  try {
    for await (const one of all) {
      const next = read(one);
      // Seen when its turn comes; the caller may leave before that.
      next.catch(() => undefined);
      const due = ahead;
      ahead = undefined;
      if (due) yield await due;
      ahead = next;
    }
  } catch (error) {
    if (ahead) yield await ahead;
    throw error;
  }
  if (ahead) yield await ahead;
}

/** The tables whose textual keys follow from what is stored. */
export type ListedTable = Exclude<TableName, 'account' | 'queue' | 'dedup' | 'relay' | 'heartbeat'>;

export type ListedRow<T extends ListedTable> = [key: string, row: Tables[T]];

/** Every row of a table, by key; `undefined` in place of a row that cannot be read. */
export async function* tableRows<T extends ListedTable>(
  level: Level,
  table: T,
): AsyncGenerator<ListedRow<T> | undefined> {
  for await (const run of runsOf(level, prefixRange(PREFIX[table]), TABLE_RUN))
    for (const [key, value] of run) {
      const row = readableRow(table, key, value);
      yield row && [textualKey(table, key, row), row];
    }
}

function textualKey(table: ListedTable, key: Buffer, row: Tables[TableName]): string {
  switch (table) {
    case 'deny':
      return rowKey.deny(row as Tables['deny']);
    case 'restore':
      return rowKey.restore(row as Tables['restore']);
    case 'invite':
      return key.subarray(1).toString('hex');
    case 'share':
      return firstKeyOf(key) + publicKeyFromBytes(key.subarray(SHARE_SENDER_AT));
    default:
      return firstKeyOf(key);
  }
}

interface WaitingRows {
  rows: QueueRow[];
  /** Rows among them that cannot be read. */
  unreadable: number;
}

/** Returns how far each queue was acked; targets whose row cannot be read are left out. */
export async function ackedThroughs(level: Level): Promise<Map<PublicKey, number>> {
  const through = new Map<PublicKey, number>();
  for await (const run of runsOf(level, prefixRange(PREFIX.target))) {
    for (const [key, value] of run) {
      const row = readableRow('target', key, value);
      if (row && key.length === KEY_BYTES[PREFIX.target]) through.set(firstKeyOf(key), row.ackedThrough);
    }
  }
  return through;
}

/** Every item that waits in a store. */
export async function* waitingRows(level: Level): AsyncGenerator<WaitingRows> {
  const ackedThrough = await ackedThroughs(level);
  for await (const run of runsOf(level, prefixRange(PREFIX.queue), WAITING_RUN)) {
    const waiting: WaitingRows = { rows: [], unreadable: 0 };
    for (const pair of run) {
      const acked = ackedThrough.get(firstKeyOf(pair[0])) ?? 0;
      if (seqOf(pair[0]) <= acked) continue;
      const rows = readableRowsOf(pair);
      if (rows) waiting.rows.push(...rows.filter(({ seq }) => seq > acked));
      else waiting.unreadable++;
    }
    yield waiting;
  }
}

/** Before every queue, and behind every queue. */
export const FIRST_PLACE: Buffer = prefixRange(PREFIX.queue).gte;
export const LAST_PLACE: Buffer = prefixRange(PREFIX.queue).lt;

/** The place before the queue of a target with this key, whether there is such a queue or not. */
export function placeOf(targetKey: Buffer): Buffer {
  return Buffer.concat([FIRST_PLACE, targetKey]);
}

export interface QueueSlice {
  /** By target, then by seq. */
  rows: QueueRow[];
  /** Rows that cannot be read. */
  unreadable: number;
  /** The key at which the next slice begins. */
  place: Buffer;
}

/**
 * The queue rows behind `after`, up to `through`: as many runs of them as have `bytesMax` wire bytes together, but at
 * least one; `undefined` when there are none. Rows that were acked and are not collected yet are among them.
 *
 * For a walk that may take hours: no iterator stays open between two slices, so deleted rows really go. The walk does
 * not see what is added behind it.
 */
export async function queueSlice(
  level: Level,
  after: Buffer,
  through: Buffer,
  bytesMax: number,
): Promise<QueueSlice | undefined> {
  const slice: QueueSlice = { rows: [], unreadable: 0, place: after };
  let bytes = 0;
  for await (const run of runsOf(level, { gt: after, lte: through, limit: QUEUE_RUN.pairs }, QUEUE_RUN)) {
    for (const pair of run) {
      const rows = readableRowsOf(pair);
      for (const row of rows ?? []) bytes += row.bytes;
      const isOver = bytes > bytesMax || slice.rows.length + (rows?.length ?? 0) > SLICE_ROWS_MAX;
      if (isOver && slice.rows.length > 0) return slice;
      if (rows) slice.rows.push(...rows);
      else slice.unreadable++;
      [slice.place] = pair;
    }
  }
  return slice.place === after ? undefined : slice;
}

/** `undefined` for a row that cannot be read. */
export function readableRow<T extends TableName>(table: T, key: Buffer, value: Buffer): Tables[T] | undefined {
  try {
    return decodeRow(table, key, value);
  } catch {
    return undefined;
  }
}

/** A failing disk may damage thousands of rows: so many are listed. */
const KEPT_MAX = 1000;

/** A damaged row, as the operator sees it. */
export interface FoundRow {
  /** The table, or what else it is. */
  kind: string;
  /** As `rowName` has it. */
  name: string;
}

/**
 * The damaged rows of an open store: those that a read came across, and those that the daily walk over all rows finds.
 * Every request that needs a damaged row is refused until a rebuild, so the operator hears of each row once.
 */
export class DamagedRows {
  readonly #found = new Map<string, FoundRow>();
  #onFound: (row: FoundRow) => void = () => undefined;

  /** The first thousand, in the order in which they were found. */
  get all(): FoundRow[] {
    return [...this.#found.values()];
  }

  get count(): number {
    return this.#found.size;
  }

  note({ key }: DamagedRow): void {
    const mark = key.toString('latin1');
    if (this.#found.has(mark) || this.#found.size >= KEPT_MAX) return;
    const row = { kind: rowKind(key), name: rowName(key) };
    this.#found.set(mark, row);
    this.#onFound(row);
  }

  /** Calls `onFound` once for each row, also for those that were found before. */
  subscribe(onFound: (row: FoundRow) => void): void {
    this.#onFound = onFound;
    for (const row of this.#found.values()) onFound(row);
  }
}

/** Checking these rows takes about a millisecond. */
const ROWS_AT_ONCE = 500;
const READ_BYTES = 128 << 10;

/** Before every row. */
export const FIRST_ROW: Buffer = Buffer.alloc(0);

interface WalkedRows {
  damaged: DamagedRow[];
  /** The key at which the next slice begins. */
  place: Buffer;
}

/**
 * Compares the next rows behind `after` with their checksums; `undefined` when there are none. This also finds a row
 * that lies under the key of another. No iterator stays open between two slices.
 */
export async function damagedBehind(level: Level, after: Buffer): Promise<WalkedRows | undefined> {
  for (const prefix of ROW_PREFIXES) {
    const { gte, lt } = prefixRange(prefix);
    if (Buffer.compare(after, lt) >= 0) continue;
    const from = Buffer.compare(after, gte) >= 0 ? { gt: after } : { gte };
    const reading = { limit: ROWS_AT_ONCE, fillCache: false, highWaterMarkBytes: READ_BYTES };
    const rows = await level.iterator({ ...from, lt, ...reading }).all();
    const last = rows.at(-1);
    if (!last) continue;
    const damaged = rows.filter(([key, value]) => key.length !== KEY_BYTES[prefix] || !isWholeRow(key, value));
    const place = last[0];
    return { damaged: damaged.map(([key]) => new DamagedRow(key, 'does not match its checksum')), place };
  }
  return undefined;
}
