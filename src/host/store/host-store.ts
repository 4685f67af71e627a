/**
 * The one writer of the host's store: transactions that see each other, written as one synced batch at a time.
 *
 *     transact(work) ─▶ work runs alone, sees all before it ─▶ its writes join the group
 *                    ─▶ one batch, `sync: true` ─▶ answered
 *
 * Transactions that come while a batch is being synced form the next group. Invariants:
 *   - a transaction's writes are in the store together or not at all, and its caller waits until they are durable;
 *   - a transaction that throws writes nothing, and others go on;
 *   - after the first failed batch nothing is written or answered again (fail-stop): the handle may acknowledge what
 *     it loses.
 */
import {
  type Keys,
  type TableName,
  type Tables,
  endOfRange,
  beginsWith,
  keyBytes,
  keyParts,
  keyText,
  type KeyStart,
  TABLES,
  decodeRow,
  encodeRow,
  type KeyRange,
  rangeOf,
  type RangeOptions,
} from './tables.ts';
import { Level } from 'level';
import { type KeyedRow, mergedPairs, RowCache, type RowWrite, rowToKeep, Writes } from './row-cache.ts';

/** A group with this many writes or bytes takes no more transactions. */
const GROUP_WRITES_MAX = 5000;
const GROUP_BYTES_MAX = 16 << 20;
/** The number of rows of a range that are read at once. */
const ROWS_AT_ONCE = 200;
const KEYS_AT_ONCE = 4096;
const READ_BYTES = 1 << 20;
/** The database has them so: named, they are not looked up and copied for each read. */
const BYTES = { keyEncoding: 'buffer', valueEncoding: 'buffer' } as const;

/** A batch failed. Thrown to every caller that waits: the outcome is unknown, and the daemon is ending. */
export class StoreFailed extends Error {
  constructor(cause: unknown) {
    super('the store failed; the outcome is unknown', { cause });
  }
}

/** Reads one snapshot of the store. */
export interface Reader {
  get<T extends TableName>(table: T, ...key: Keys[T]): Tables[T] | undefined;
  /** The rows whose keys begin with `start`, in the order of their keys. */
  range<T extends TableName>(table: T, start: KeyStart<T>, options?: RangeOptions<T>): AsyncGenerator<KeyedRow<T>>;
  /** The keys of `range`, at once: for many of them, which one by one would cost more than what is done with them. */
  keys<T extends TableName>(table: T, start: KeyStart<T>, options?: RangeOptions<T>): Promise<Keys[T][]>;
}

/** Reads the store with the transaction's own writes, and writes. */
export interface Transaction extends Reader {
  put<T extends TableName>(table: T, key: Keys[T], row: Tables[T]): void;
  delete<T extends TableName>(table: T, key: Keys[T]): void;
  /** The next number of a counter, from 1; never the same number twice. */
  next(counter: string): number;
  /** Runs `run`, which must not throw, once the transaction is durable, in this order, before the caller's result. */
  afterCommit(effect: () => void): void;
}

interface Waiting {
  work: (tx: Transaction) => Promise<unknown>;
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
}

export class HostStore {
  readonly #level: HostLevel;
  readonly #onFailed: (error: StoreFailed) => void;
  readonly #isWritten: boolean;
  readonly #cache = new RowCache();
  #waiting: Waiting[] = [];
  #running: Promise<void> | undefined;
  #failure: StoreFailed | undefined;
  #isClosed = false;

  constructor(level: HostLevel, failed: (error: StoreFailed) => void, isWritten = true) {
    this.#level = level;
    this.#onFailed = failed;
    this.#isWritten = isWritten;
  }

  /** A store with what this one holds, whose transactions are forgotten. It ends before this one is closed. */
  unwritten(): HostStore {
    return new HostStore(this.#level, this.#onFailed, false);
  }

  /**
   * Runs `work` alone, and resolves with its result once its writes are durable.
   * Throws `StoreFailed`, or what `work` throws: then nothing of it is written.
   */
  transact<R>(work: (tx: Transaction) => R | Promise<R>): Promise<R> {
    if (this.#failure) return Promise.reject(this.#failure);
    if (this.#isClosed) return Promise.reject(new Error('the store is closed'));
    return new Promise<R>((resolve, reject) => {
      this.#waiting.push({
        work: async (tx) => work(tx),
        resolve: resolve as (value: unknown) => void,
        reject,
      });
      this.#running ??= this.#run();
    });
  }

  /** Reads what was durable at the call; the reader is valid until `work` ends. */
  async read<R>(work: (reader: Reader) => R | Promise<R>): Promise<R> {
    if (this.#failure) throw this.#failure;
    const snapshot = this.#level.snapshot();
    try {
      return await work(new View(this.#level, this.#cache, snapshot, []));
    } finally {
      await snapshot.close();
    }
  }

  /** Closes the store once all earlier transactions are durable. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#running;
    await this.#level.close();
  }

  /** Every stored key and value, in runs and in order, as of the first read; for a copy. */
  async *pairs(): AsyncGenerator<[key: Buffer, value: Buffer][]> {
    if (this.#failure) throw this.#failure;
    const snapshot = this.#level.snapshot();
    const iterator = this.#level.iterator({ snapshot, fillCache: false, highWaterMarkBytes: READ_BYTES });
    try {
      for (let rows = await iterator.nextv(ROWS_AT_ONCE); rows.length > 0; rows = await iterator.nextv(ROWS_AT_ONCE)) {
        yield rows;
      }
    } finally {
      await iterator.close();
      await snapshot.close();
    }
  }

  async #run(): Promise<void> {
    // All transactions of this turn come into the first group.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      if (this.#failure) for (const { reject } of this.#waiting.splice(0)) reject(this.#failure);
      else await this.#runGroup();
    }
    this.#running = undefined;
  }

  async #runGroup(): Promise<void> {
    const group = new Writes();
    const done: { answer: () => void; reject: (error: unknown) => void; effects: (() => void)[] }[] = [];
    let bytes = 0;
    for (let next = this.#waiting.shift(); next; next = this.#waiting.shift()) {
      const { work, resolve, reject } = next;
      const tx = new OpenTransaction(this.#level, this.#cache, group);
      try {
        const value = await work(tx);
        bytes += tx.mergeInto(group);
        done.push({ answer: () => resolve(value), reject, effects: tx.effects });
      } catch (error) {
        reject(error);
      } finally {
        tx.end();
      }
      if (group.size >= GROUP_WRITES_MAX || bytes >= GROUP_BYTES_MAX) break;
    }
    try {
      if (group.size > 0) await this.#write(group);
    } catch (error) {
      this.#failure = new StoreFailed(error);
      for (const { reject } of done) reject(this.#failure);
      this.#onFailed(this.#failure);
      return;
    }
    for (const { answer, effects } of done) {
      for (const effect of effects) effect();
      answer();
    }
  }

  #write(group: Writes): Promise<void> {
    const batch = this.#level.batch();
    for (const [text, { bytes }] of group) {
      const key = Buffer.from(text, 'latin1');
      if (bytes === null) batch.del(key);
      else batch.put(key, bytes);
    }
    if (!this.#isWritten) return batch.close();
    return this.#cache.change(group, () => batch.write({ sync: true }));
  }
}

type Snapshot = ReturnType<HostLevel['snapshot']>;

/** The store at one moment, with the writes of `layers` over it, the last one on top. */
class View implements Reader {
  readonly #level: HostLevel;
  readonly #cache: RowCache;
  /** The store's, when this began. */
  readonly #version: number;
  readonly #snapshot: Snapshot | undefined;
  readonly #reading: { snapshot?: Snapshot; keyEncoding: 'buffer'; valueEncoding: 'buffer' };
  readonly #layers: readonly Writes[];

  constructor(level: HostLevel, cache: RowCache, snapshot: Snapshot | undefined, layers: readonly Writes[]) {
    this.#level = level;
    this.#cache = cache;
    this.#version = cache.version;
    this.#snapshot = snapshot;
    this.#reading = snapshot ? { snapshot, ...BYTES } : BYTES;
    this.#layers = layers;
  }

  get<T extends TableName>(table: T, ...key: Keys[T]): Tables[T] | undefined {
    const text = keyText(table, key as unknown as KeyStart<T>);
    for (let at = this.#layers.length - 1; at >= 0; at--) {
      const written = this.#layers[at]?.get(text);
      if (written?.bytes === null) return undefined;
      if (written) return (written.row as Tables[T] | undefined) ?? decodeRow(table, written.bytes);
    }
    const cached = this.#cache.get(table, text, this.#version);
    if (cached) return cached.row;
    const bytes = this.#level.getSync(Buffer.from(text, 'latin1'), this.#reading);
    const row = bytes && decodeRow(table, bytes);
    this.#cache.keep(table, text, { row, bytes }, this.#version);
    return row;
  }

  async *range<T extends TableName>(
    table: T,
    start: KeyStart<T>,
    options: RangeOptions<T> = {},
  ): AsyncGenerator<KeyedRow<T>> {
    const { limit = Number.POSITIVE_INFINITY } = options;
    const gte = keyBytes(table, start);
    if (Object.keys(options).length === 0 && this.#isUnwritten(gte)) {
      const whole = start.length === 0 ? await this.#whole(table, gte) : this.#cache.whole(table, this.#version);
      if (whole) {
        for (const kept of whole) if (beginsWith(kept.key, start)) yield kept;
        return;
      }
    }
    const range = rangeOf(table, start, options);
    if (!range) return;
    let left = limit;
    for await (const [bytes, value] of mergedPairs(range, this.#readStored(range), this.#layers)) {
      if (left-- <= 0) return;
      yield { key: keyParts(table, bytes), row: decodeRow(table, value) };
    }
  }

  async keys<T extends TableName>(table: T, start: KeyStart<T>, options: RangeOptions<T> = {}): Promise<Keys[T][]> {
    const keys: Keys[T][] = [];
    const range = rangeOf(table, start, options);
    if (!range) return keys;
    const { limit = Number.POSITIVE_INFINITY } = options;
    if (this.#layers.some((layer) => layer.size > 0)) {
      for await (const { key } of this.range(table, start, options)) keys.push(key);
      return keys;
    }
    const iterator = this.#iterator(range, { values: false });
    try {
      while (keys.length < limit) {
        const found = await iterator.nextv(Math.min(limit - keys.length, KEYS_AT_ONCE));
        if (found.length === 0) break;
        for (const [bytes] of found) keys.push(keyParts(table, bytes));
      }
    } finally {
      await iterator.close();
    }
    return keys;
  }

  /** All rows of a table of which no layer writes one. */
  async #whole<T extends TableName>(table: T, first: Buffer): Promise<readonly KeyedRow<T>[]> {
    const cached = this.#cache.whole(table, this.#version);
    if (cached) return cached;
    const rows: KeyedRow<T>[] = [];
    for await (const [bytes, value] of this.#readStored({ gte: first, lt: endOfRange(first), reverse: false }))
      rows.push({ key: keyParts(table, bytes), row: decodeRow(table, value) });
    return this.#cache.keepWhole(table, rows, this.#version);
  }

  #isUnwritten(first: Buffer): boolean {
    const text = first.toString('latin1');
    return !this.#layers.some((layer) => layer.hasBeginning(text));
  }

  async *#readStored(range: KeyRange): AsyncGenerator<[Buffer, Buffer]> {
    const iterator = this.#iterator(range);
    try {
      for (let rows = await iterator.nextv(ROWS_AT_ONCE); rows.length > 0; rows = await iterator.nextv(ROWS_AT_ONCE)) {
        yield* rows;
      }
    } finally {
      await iterator.close();
    }
  }

  #iterator(range: KeyRange, options: { values?: boolean } = {}) {
    const snapshot = this.#snapshot && { snapshot: this.#snapshot };
    return this.#level.iterator({ highWaterMarkBytes: READ_BYTES, ...snapshot, ...options, ...range });
  }
}

class OpenTransaction extends View implements Transaction {
  readonly effects: (() => void)[] = [];
  readonly #writes: Writes;
  #isOpen = true;

  constructor(level: HostLevel, cache: RowCache, group: Writes) {
    const writes = new Writes();
    super(level, cache, undefined, [group, writes]);
    this.#writes = writes;
  }

  put<T extends TableName>(table: T, key: Keys[T], row: Tables[T]): void {
    const bytes = encodeRow(table, row);
    this.#write(table, key, { bytes, row: rowToKeep(table, row, bytes) });
  }

  delete<T extends TableName>(table: T, key: Keys[T]): void {
    this.#write(table, key, { bytes: null });
  }

  next(counter: string): number {
    const value = (this.get('counter', counter) ?? 0) + 1;
    this.put('counter', [counter], value);
    return value;
  }

  afterCommit(effect: () => void): void {
    this.effects.push(effect);
  }

  /** Adds the writes to `group`; returns their size in bytes. */
  mergeInto(group: Writes): number {
    let bytes = 0;
    for (const [key, written] of this.#writes) {
      group.set(key, written);
      bytes += key.length + (written.bytes?.length ?? 0);
    }
    return bytes;
  }

  end(): void {
    this.#isOpen = false;
  }

  #write<T extends TableName>(table: T, key: Keys[T], written: RowWrite): void {
    if (!this.#isOpen)
      throw new Error(`invariant: ${table} is written inside its transaction (${TABLES[table].prefix})`);
    this.#writes.set(keyText(table, key as unknown as KeyStart<T>), written);
  }
}

export type HostLevel = Level<Buffer, Buffer>;

/** Each message is 16 rows in either host: LevelDB's own 4 MiB are full and compacted every few hundred messages. */
const WRITE_BUFFER_BYTES = 16 << 20;
/** LevelDB compresses and checks each block alone, and its own are 4 KiB: nearly all rows are read from memory. */
const BLOCK_BYTES = 16 << 10;

/** The database at `folder`, not yet opened. */
export function levelAt(folder: string): HostLevel {
  return new Level<Buffer, Buffer>(folder, {
    keyEncoding: 'buffer',
    valueEncoding: 'buffer',
    writeBufferSize: WRITE_BUFFER_BYTES,
    blockSize: BLOCK_BYTES,
  });
}
