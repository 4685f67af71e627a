/** The rows of a table in the store of a host. */
import type { HostStore } from '../../src/host/store/host-store.ts';
import type { KeyStart, TableName, Tables } from '../../src/host/store/tables.ts';

/** Those whose keys begin with `start`, in the order of their keys. */
export function rowsOf<T extends TableName>(store: HostStore, table: T, start: KeyStart<T>): Promise<Tables[T][]> {
  return store.read(async (reader) => {
    const rows: Tables[T][] = [];
    for await (const { row } of reader.range(table, start)) rows.push(row);
    return rows;
  });
}
