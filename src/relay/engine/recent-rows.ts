/**
 * The rows that almost every command reads, as they stand with everything admitted, so that only the
 * rest is read from LevelDB. That a row is absent is kept too.
 *
 * Invariant: `changed` is called for every change at the moment it is admitted; a failed batch ends the process, so nothing is undone.
 */
import type { RowChange, TableName, Tables } from '../core/rows.ts';

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
