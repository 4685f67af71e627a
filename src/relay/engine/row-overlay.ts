/** Rows before they are durable: the changes of the open batch, and the rows that almost every command reads. */
import type { RowChange, RowReader, TableName, Tables } from '../core/rows.ts';

/** The changed rows of one batch, the last change of each. */
export class RowOverlay {
  readonly #tables = new Map<TableName, Map<string, RowChange>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(table: TableName, key: string): RowChange | undefined {
    return this.#tables.get(table)?.get(key);
  }

  set(change: RowChange): void {
    let rows = this.#tables.get(change.table);
    if (!rows) this.#tables.set(change.table, (rows = new Map()));
    const before = rows.size;
    rows.set(change.key, change);
    this.#size += rows.size - before;
  }

  changes(): RowChange[] {
    return Array.from(this.#tables.values(), (rows) => Array.from(rows.values())).flat();
  }
}

/** The rows of `base` with the changes of an overlay before them. */
export class OverlaidRows implements RowReader {
  #changes = new RowOverlay();
  readonly #base: RowReader;

  constructor(base: RowReader) {
    this.#base = base;
  }

  get changes(): RowOverlay {
    return this.#changes;
  }

  get<T extends TableName>(table: T, key: string): Tables[T] | undefined {
    const change = this.#changes.get(table, key);
    return change ? ((change.row ?? undefined) as Tables[T] | undefined) : this.#base.get(table, key);
  }

  /** Forgets the changes: the base has them. */
  clear(): void {
    this.#changes = new RowOverlay();
  }
}

/** Queue and dedup rows are read once or twice and would push out the others. */
const KEPT: ReadonlySet<TableName> = new Set([
  'relay',
  'enrolment',
  'lineage',
  'senders',
  'target',
  'share',
  'account',
  'sender',
]);
/** Rows of one table at most; the one longest here goes. */
const ROWS_MAX = 10_000;

/**
 * The rows that almost every command reads, as they stand with everything admitted, so that only the rest is read from
 * LevelDB. That a row is absent is kept too. `changed` must be called for every change at the moment it is admitted; a
 * failed batch ends the process, so nothing is undone.
 */
export class RecentRows {
  readonly #tables = new Map<TableName, Map<string, Tables[TableName] | undefined>>();

  /** The row, or what `read` answers, which is kept. */
  get<T extends TableName>(table: T, key: string, read: () => Tables[T] | undefined): Tables[T] | undefined {
    if (!KEPT.has(table)) return read();
    const rows = this.#rowsOf(table);
    const row = rows.get(key);
    if (row !== undefined || rows.has(key)) return row as Tables[T] | undefined;
    const fresh = read();
    this.#keep(rows, key, fresh);
    return fresh;
  }

  changed({ table, key, row }: RowChange): void {
    if (KEPT.has(table)) this.#keep(this.#rowsOf(table), key, row ?? undefined);
  }

  #rowsOf(table: TableName): Map<string, Tables[TableName] | undefined> {
    let rows = this.#tables.get(table);
    if (!rows) this.#tables.set(table, (rows = new Map()));
    return rows;
  }

  #keep(rows: Map<string, Tables[TableName] | undefined>, key: string, row: Tables[TableName] | undefined): void {
    if (rows.size >= ROWS_MAX && !rows.has(key)) {
      const oldest = rows.keys().next();
      if (!oldest.done) rows.delete(oldest.value);
    }
    rows.set(key, row);
  }
}
