/** All rows of a table, for what looks at a store as a whole: a restore, a count. */
import type { TableName, Tables } from '../core/rows.ts';
import { rowKey } from '../core/rows.ts';
import { PREFIX, firstKeyOf, prefixRange } from './keys.ts';
import type { Level } from './level.ts';
import { decodeRow } from './row-codec.ts';

/** The tables whose keys can be read back. */
export const LISTED_TABLES = ['restore', 'enrolment', 'senders', 'encKey', 'deny', 'invite', 'target'] as const;
export type ListedTable = (typeof LISTED_TABLES)[number];

const ROWS_AT_ONCE = 500;
const READ_BYTES = 1 << 20;

export type ListedRow<T extends ListedTable> = [key: string, row: Tables[T]];

/** Rows in the order of their keys; in the place of one that cannot be read, `undefined`. */
export async function* tableRows<T extends ListedTable>(
  level: Level,
  table: T,
): AsyncGenerator<ListedRow<T> | undefined> {
  const iterator = level.iterator({ ...prefixRange(PREFIX[table]), fillCache: false, highWaterMarkBytes: READ_BYTES });
  try {
    for (;;) {
      const run = await iterator.nextv(ROWS_AT_ONCE);
      if (run.length === 0) return;
      for (const [key, value] of run) yield listedRow(table, key, value);
    }
  } finally {
    await iterator.close();
  }
}

function listedRow<T extends ListedTable>(table: T, key: Buffer, value: Buffer): ListedRow<T> | undefined {
  try {
    const text = textualKey(table, key);
    const row = decodeRow(table, text, value);
    return [ownKey(table, row) ?? text, row];
  } catch {
    return undefined;
  }
}

/** What the row's own key says; nothing for tables whose rows say it themselves. */
function textualKey(table: ListedTable, key: Buffer): string {
  switch (table) {
    case 'deny':
    case 'restore':
      return '';
    case 'invite':
      return key.subarray(1).toString('hex');
    default:
      return firstKeyOf(key);
  }
}

function ownKey(table: TableName, row: Tables[TableName]): string | undefined {
  if (table === 'deny') return rowKey.deny(row as Tables['deny']);
  if (table === 'restore') return rowKey.restore(row as Tables['restore']);
  return undefined;
}
