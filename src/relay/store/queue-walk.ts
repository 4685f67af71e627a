/**
 * Every queue row of a store, slice by slice: for a walk that may take hours. Nothing is held between two slices, so what
 * is deleted meanwhile really goes; what is added behind the walk is not seen.
 */
import type { QueueRow } from '../core/rows.ts';
import { PREFIX, prefixRange } from './keys.ts';
import type { Level } from './level.ts';
import { readableQueueRow } from './waiting-rows.ts';

/** Decoding them holds the loop for about a millisecond. */
const ROWS_AT_ONCE = 100;
const READ_BYTES = 64 << 10;

/** Before every queue, and behind every one. */
export const FIRST_PLACE: Buffer = prefixRange(PREFIX.queue).gte;
export const LAST_PLACE: Buffer = prefixRange(PREFIX.queue).lt;

export interface QueueSlice {
  /** In the order of their keys: by target, then by seq. */
  rows: QueueRow[];
  /** Rows that cannot be read. */
  unreadable: number;
  /** Where the next slice begins. */
  place: Buffer;
}

/** The place before the queue of a target with this key, enrolled or not. */
export function placeOf(targetKey: Buffer): Buffer {
  return Buffer.concat([FIRST_PLACE, targetKey]);
}

/**
 * Rows behind `after` and not behind `through` whose wire bytes are `bytesMax` together, or one row; `undefined` when
 * there are none. Rows that were acked and not collected yet are among them.
 */
export async function queueSlice(
  level: Level,
  after: Buffer,
  through: Buffer,
  bytesMax: number,
): Promise<QueueSlice | undefined> {
  const range = { gt: after, lte: through, limit: ROWS_AT_ONCE, fillCache: false, highWaterMarkBytes: READ_BYTES };
  const iterator = level.iterator(range);
  try {
    const slice: QueueSlice = { rows: [], unreadable: 0, place: after };
    let bytes = 0;
    for (;;) {
      const run = await iterator.nextv(ROWS_AT_ONCE);
      if (run.length === 0) return slice.place === after ? undefined : slice;
      for (const [key, value] of run) {
        const row = readableQueueRow(key, value);
        bytes += row?.bytes ?? 0;
        if (bytes > bytesMax && slice.rows.length > 0) return slice;
        if (row) slice.rows.push(row);
        else slice.unreadable++;
        slice.place = key;
      }
    }
  } finally {
    await iterator.close();
  }
}
