/** What one pull hands over ("GET /v2/relay/items", rule 2). */
import type { QueueRow } from './rows.ts';

/** Of `rows`, ascending and one more than `limit` where there are more: those that fit one page. */
export function pageRows(
  rows: readonly QueueRow[],
  limit: number,
  bytesMax: number,
): { rows: QueueRow[]; more: boolean } {
  let bytes = 0;
  let count = 0;
  for (const row of rows) {
    bytes += row.bytes;
    if (count === limit || (count > 0 && bytes > bytesMax)) break;
    count++;
  }
  return { rows: rows.slice(0, count), more: rows.length > count };
}
