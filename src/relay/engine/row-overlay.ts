/** The changed rows of one batch, the last change of each. */
import type { RowChange, TableName } from '../core/rows.ts';

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
