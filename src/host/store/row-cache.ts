/**
 * Keeps decoded rows: of tables that are small and that nearly every message reads (the host itself, its agents, their
 * sessions, its peers), and the rows of mail that were written or read last. Reading one from LevelDB costs ten times
 * as much, and one message needs dozens: it is queued, sent, accepted and confirmed within moments, and each step reads
 * what the one before wrote.
 *
 * A batch moves the store from one version to the next. Invariants:
 *   - what is answered is what a reader of that version would read from LevelDB;
 *   - before a batch is written, what it writes takes the place of the rows that it changes, for readers of the version
 *     that it makes, which begin when it is written; the rows before are not kept meanwhile. So a reader which began
 *     before the batch and one which began after it never meet in the cache;
 *   - rows are frozen: several readers share them.
 *
 * `Writes` are those of transactions that are not stored yet, and `mergedPairs` reads a range with them over what is
 * stored.
 */
import { type KeyRange, type Keys, type TableName, type Tables, TABLES } from './tables.ts';

/** The keeping of a table, by the byte that its keys begin with. */
const KEEPING = new Map(Object.values(TABLES).map(({ prefix, keeping }) => [prefix, keeping]));

/** Most hosts have fewer rows in the small tables. */
const ROWS_MAX = 10_000;
/** Rows of mail: at least so many of the last ones, at most twice as many. */
const LAST_ROWS_MAX = 12_000;
/** A row of mail with more recipients than fit into this, encoded, is not kept. */
const ROW_BYTES_MAX = 2_048;
/** A longer table is not kept as a whole. */
const WHOLE_ROWS_MAX = 1_000;

/** A row and its key, as a range gives them. */
export interface KeyedRow<T extends TableName> {
  key: Keys[T];
  row: Tables[T];
}

/** A write of a transaction under one key; `bytes` is null where it deletes, `row` is there when the cache keeps it. */
export interface RowWrite {
  bytes: Buffer | null;
  row?: unknown;
}

/** The keys are text that sorts as their bytes do. */
export class Writes extends Map<string, RowWrite> {
  readonly #tables = new Set<number>();

  override set(key: string, write: RowWrite): this {
    this.#tables.add(key.charCodeAt(0));
    return super.set(key, write);
  }

  /** Tells whether one is of a key that begins with these characters. A table that is not written is not searched. */
  hasBeginning(text: string): boolean {
    if (!this.#tables.has(text.charCodeAt(0))) return false;
    for (const key of this.keys()) if (key.startsWith(text)) return true;
    return false;
  }
}

interface CachedValue<V> {
  value: V;
  /** The version at which it was read, or that its batch made. */
  since: number;
}

/** The cache knows this of a key: `row` is undefined where the store has none. */
export interface KnownRow<T extends TableName> {
  row: Tables[T] | undefined;
}

/** The row as it is kept, frozen; undefined when it is too long or of a table that is not kept. */
export function rowToKeep<T extends TableName>(table: T, row: Tables[T], bytes: Buffer): Tables[T] | undefined {
  const { keeping } = TABLES[table];
  return keeping === 'small' || (keeping === 'of mail' && bytes.length <= ROW_BYTES_MAX) ? frozen(row) : undefined;
}

export class RowCache {
  readonly #small = new Map<string, CachedValue<unknown>>();
  /** Rows of mail. When the newer ones are `LAST_ROWS_MAX`, they take the place of the older, which are forgotten. */
  #newer = new Map<string, CachedValue<unknown>>();
  #older = new Map<string, CachedValue<unknown>>();
  /** Whole tables, by the character with which their keys begin. */
  readonly #tables = new Map<string, CachedValue<readonly KeyedRow<TableName>[]>>();
  #version = 0;
  /** The batch that is being written. */
  #changing: ReadonlyMap<string, RowWrite> | undefined;

  /** Returns which batches the store holds now. While one is being written, a reader may see it or not, whole. */
  get version(): number {
    return this.#version;
  }

  /**
   * Returns what a reader that began at `version` finds; undefined when the cache does not know. `key` is the whole
   * key.
   */
  get<T extends TableName>(table: T, key: string, version: number): KnownRow<T> | undefined {
    const found = this.#find(table, key);
    return found && found.since <= version ? { row: found.value as Tables[T] | undefined } : undefined;
  }

  /** Keeps what a reader that began at `version` read from LevelDB; `bytes` is undefined where there was no row. */
  keep<T extends TableName>(
    table: T,
    key: string,
    { row, bytes }: { row: Tables[T] | undefined; bytes: Buffer | undefined },
    version: number,
  ): void {
    // A reader may see the batch that is being written or not: what that does not change is the same for both.
    if (version !== this.#version || this.#changing?.has(key)) return;
    const cached = { value: row, since: version };
    const isKept = row === undefined || bytes === undefined || rowToKeep(table, row, bytes) !== undefined;
    if (TABLES[table].keeping === 'of mail') {
      if (isKept) this.#setOfMail(key, cached);
    } else if (row !== undefined && isKept) this.#setSmall(key, cached);
  }

  /** Does as `get` for every row of a table, in the order of their keys. */
  whole<T extends TableName>(table: T, version: number): readonly KeyedRow<T>[] | undefined {
    const found = this.#tables.get(firstOf(table));
    return found && found.since <= version ? (found.value as readonly KeyedRow<T>[]) : undefined;
  }

  /** Does as `keep` for all of a small table. */
  keepWhole<T extends TableName>(table: T, rows: readonly KeyedRow<T>[], version: number): readonly KeyedRow<T>[] {
    const mayKeep = version === this.#version && !this.#changing;
    if (TABLES[table].keeping === 'small' && mayKeep && rows.length <= WHOLE_ROWS_MAX)
      this.#tables.set(firstOf(table), { value: frozen(rows), since: version });
    return rows;
  }

  /** Writes the batch that changes these keys. After a batch that failed no reader begins any more. */
  async change(writes: ReadonlyMap<string, RowWrite>, write: () => Promise<void>): Promise<void> {
    const version = this.#version + 1;
    for (const [key, { bytes, row }] of writes) this.#changeOne(key, bytes, row, version);
    this.#changing = writes;
    await write();
    this.#changing = undefined;
    this.#version = version;
  }

  #changeOne(key: string, bytes: Buffer | null, row: unknown, version: number): void {
    switch (KEEPING.get(key.charCodeAt(0))) {
      case 'small':
        this.#tables.delete(key.charAt(0));
        if (row === undefined) this.#small.delete(key);
        else this.#setSmall(key, { value: row, since: version });
        break;
      case 'of mail':
        // A row that is too long to be kept hides the one before from all readers.
        this.#setOfMail(key, { value: row, since: bytes === null || row !== undefined ? version : Infinity });
        break;
      default:
    }
  }

  #find(table: TableName, key: string): CachedValue<unknown> | undefined {
    switch (TABLES[table].keeping) {
      case 'small':
        return this.#small.get(key);
      case 'of mail':
        return this.#newer.get(key) ?? this.#older.get(key);
      default:
        return undefined;
    }
  }

  #setSmall(key: string, cached: CachedValue<unknown>): void {
    if (this.#small.size >= ROWS_MAX) this.#small.clear();
    this.#small.set(key, cached);
  }

  /** Drops the older rows when these become the older ones, and with them what they hold of the same key. */
  #setOfMail(key: string, cached: CachedValue<unknown>): void {
    if (this.#newer.size >= LAST_ROWS_MAX) {
      this.#older = this.#newer;
      this.#newer = new Map();
    }
    this.#newer.set(key, cached);
  }
}

function firstOf(table: TableName): string {
  return String.fromCharCode(TABLES[table].prefix);
}

function frozen<V>(value: V): V {
  // Bytes cannot be frozen.
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value) || Object.isFrozen(value)) return value;
  for (const part of Object.values(value)) frozen(part);
  return Object.freeze(value);
}

type Pair = [key: Buffer, value: Buffer];

/** The pairs of the range in the order of their keys. `stored`: those of LevelDB; the last layer is on top. */
export async function* mergedPairs(
  range: KeyRange,
  stored: AsyncIterable<Pair>,
  layers: readonly Writes[],
): AsyncGenerator<Pair> {
  const written = writtenIn(range, layers);
  let next = written.shift();
  const isBefore = (a: string, b: string): boolean => (range.reverse ? a > b : a < b);
  for await (const [bytes, value] of stored) {
    const text = bytes.toString('latin1');
    for (; next && isBefore(next[0], text); next = written.shift()) {
      if (next[1]) yield [Buffer.from(next[0], 'latin1'), next[1]];
    }
    if (next?.[0] === text) {
      if (next[1]) yield [bytes, next[1]];
      next = written.shift();
    } else yield [bytes, value];
  }
  for (; next; next = written.shift()) if (next[1]) yield [Buffer.from(next[0], 'latin1'), next[1]];
}

/** The writes of the layers in a range, in order; the top layer wins for each key. */
function writtenIn({ gte, lt, reverse }: KeyRange, layers: readonly Writes[]): [string, Buffer | null][] {
  const from = gte.toString('latin1');
  const until = lt.toString('latin1');
  const found = new Map<string, Buffer | null>();
  for (const layer of layers) {
    for (const [key, { bytes }] of layer) if (key >= from && key < until) found.set(key, bytes);
  }
  const order = reverse ? -1 : 1;
  return [...found].toSorted(([a], [b]) => (a < b ? -order : order));
}
