/** How much goes into one request to a relay: less after one that failed or was slow, more again after a quick one. Pure. */

export interface BatchSize {
  items: number;
  /** Of wire bytes; an item that is larger goes alone. */
  bytes: number;
}

/** Base64 makes a third more of wire bytes, and a body has a bound of 8 MiB. */
export const BATCH_SIZE_MAX: BatchSize = { items: 200, bytes: 5 << 20 };
export const BATCH_SIZE_MIN: BatchSize = { items: 1, bytes: 64 << 10 };
/** An answer that took longer is slow. */
export const SLOW_MS = 5_000;

/** The size of the next batch, by how long the answer took; `Infinity` when none came. */
export function batchSizeAfter(size: BatchSize, tookMs: number): BatchSize {
  const factor = tookMs <= SLOW_MS ? 2 : 0.5;
  return {
    items: within(Math.floor(size.items * factor), BATCH_SIZE_MIN.items, BATCH_SIZE_MAX.items),
    bytes: within(Math.floor(size.bytes * factor), BATCH_SIZE_MIN.bytes, BATCH_SIZE_MAX.bytes),
  };
}

/** How many of the first rows make a batch, one at least. `itemsMax` is the relay's own bound. */
export function batchOf(rows: readonly { wireBytes: number }[], size: BatchSize, itemsMax: number): number {
  let bytes = 0;
  let count = 0;
  for (const { wireBytes } of rows) {
    bytes += wireBytes;
    if (count > 0 && (bytes > size.bytes || count >= Math.min(size.items, itemsMax))) break;
    count++;
  }
  return count;
}

function within(value: number, min: number, max: number): number {
  return Math.min(max, Math.max(min, value));
}
