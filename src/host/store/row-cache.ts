/**
 * Keeps decoded rows of tables that are small and that nearly every message reads: the host itself, its agents, its
 * peers. Reading one from LevelDB costs ten times as much, and one message needs dozens.
 *
 * A batch moves the store from one version to the next. Invariants:
 *   - what is answered is what a reader of that version would read from LevelDB;
 *   - a row leaves the cache before the batch that changes it is written, so that a reader which began before the batch
 *     and one which began after it never meet in the cache;
 *   - rows are frozen: several readers share them.
 */
import { type Keys, PREFIX, type TableName, type Tables } from './keys.ts';

const CACHED: ReadonlySet<TableName> = new Set([
  'identity',
  'counter',
  'agent',
  'agentName',
  'peer',
  'peerKey',
  'peerName',
  'relay',
] satisfies TableName[]);
/** More rows than most hosts have in these tables. */
const ROWS_MAX = 10_000;
/** A longer table is not kept as a whole. */
const WHOLE_ROWS_MAX = 1_000;

/** A row and its key, as a range gives them. */
export interface Found<T extends TableName> {
  key: Keys[T];
  row: Tables[T];
}

interface Cached<V> {
  value: V;
  /** The version at which it was read. */
  since: number;
}

export class RowCache {
  readonly #rows = new Map<string, Cached<unknown>>();
  /** Whole tables, by the character with which their keys begin. */
  readonly #tables = new Map<string, Cached<readonly Found<TableName>[]>>();
  #version = 0;
  #isChanging = false;

  /** Which batches the store holds now. While one is being written, a reader may see it or not, whole. */
  get version(): number {
    return this.#version;
  }

  /** The row for a reader that began at `version`; undefined when it is not in the cache. `key` is the whole key. */
  get<T extends TableName>(table: T, key: string, version: number): Tables[T] | undefined {
    if (!CACHED.has(table)) return undefined;
    const found = this.#rows.get(key);
    return found && found.since <= version ? (found.value as Tables[T]) : undefined;
  }

  /** Keeps a row that a reader which began at `version` read from LevelDB. Returns it, frozen if it is kept. */
  keep<T extends TableName>(table: T, key: string, row: Tables[T], version: number): Tables[T] {
    if (!this.#mayKeep(table, version)) return row;
    if (this.#rows.size >= ROWS_MAX) this.#rows.clear();
    this.#rows.set(key, { value: frozen(row), since: version });
    return row;
  }

  /** As `get`: every row of a table, in the order of their keys. */
  whole<T extends TableName>(table: T, version: number): readonly Found<T>[] | undefined {
    const found = this.#tables.get(firstOf(table));
    return found && found.since <= version ? (found.value as readonly Found<T>[]) : undefined;
  }

  /** As `keep`. */
  keepWhole<T extends TableName>(table: T, rows: readonly Found<T>[], version: number): readonly Found<T>[] {
    if (this.#mayKeep(table, version) && rows.length <= WHOLE_ROWS_MAX)
      this.#tables.set(firstOf(table), { value: frozen(rows), since: version });
    return rows;
  }

  /** Writes the batch that changes these keys. */
  async change(keys: Iterable<string>, write: () => Promise<void>): Promise<void> {
    for (const key of keys) {
      this.#rows.delete(key);
      this.#tables.delete(key.charAt(0));
    }
    this.#isChanging = true;
    await write();
    this.#isChanging = false;
    this.#version++;
  }

  #mayKeep(table: TableName, version: number): boolean {
    return CACHED.has(table) && !this.#isChanging && version === this.#version;
  }
}

function firstOf(table: TableName): string {
  return String.fromCharCode(PREFIX[table]);
}

function frozen<V>(value: V): V {
  // Bytes cannot be frozen.
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return value;
  for (const part of Object.values(value)) frozen(part);
  return Object.freeze(value);
}
