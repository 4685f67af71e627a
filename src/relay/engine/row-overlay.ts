/** The changed rows of one batch, the last change of each. */
import type { RowChange, RowReader, TableName, Tables } from '../core/rows.ts';

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
