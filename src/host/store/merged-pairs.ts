/**
 * A range of keys as a transaction sees it: what is stored, with what is written over it.
 *
 * Keys are bytes in LevelDB and text in `Writes`, each byte one character: both sort alike.
 */
import type { Writes } from './row-cache.ts';

/** Keys from `gte` on, and before `lt`. */
export interface KeyRange {
  gte: Buffer;
  lt: Buffer;
  /** True: the last key comes first. */
  reverse: boolean;
}

type Pair = [key: Buffer, value: Buffer];

/** The pairs of the range in the order of their keys. `stored`: those of LevelDB; the last layer is on top. */
export async function* mergedPairs(
  range: KeyRange,
  stored: AsyncIterable<Pair>,
  layers: readonly Writes[],
): AsyncGenerator<Pair> {
  const written = writtenIn(range, layers);
  let next = written.shift();
  const isBefore = (a: string, b: string): boolean => (range.reverse ? a > b : a < b);
  for await (const [bytes, value] of stored) {
    const text = bytes.toString('latin1');
    for (; next && isBefore(next[0], text); next = written.shift()) {
      if (next[1]) yield [Buffer.from(next[0], 'latin1'), next[1]];
    }
    if (next?.[0] === text) {
      if (next[1]) yield [bytes, next[1]];
      next = written.shift();
    } else yield [bytes, value];
  }
  for (; next; next = written.shift()) if (next[1]) yield [Buffer.from(next[0], 'latin1'), next[1]];
}

/** The writes of the layers in a range, in order; the top layer wins for each key. */
function writtenIn({ gte, lt, reverse }: KeyRange, layers: readonly Writes[]): [string, Buffer | null][] {
  const from = gte.toString('latin1');
  const until = lt.toString('latin1');
  const found = new Map<string, Buffer | null>();
  for (const layer of layers) {
    for (const [key, { bytes }] of layer) if (key >= from && key < until) found.set(key, bytes);
  }
  const order = reverse ? -1 : 1;
  return [...found].toSorted(([a], [b]) => (a < b ? -order : order));
}

/** The range of the keys that begin with `first`, cut at both ends where that is asked. */
export function cutRange(
  { gte, lt, reverse }: KeyRange,
  { from, until }: { from: Buffer | undefined; until: Buffer | undefined },
): KeyRange {
  return {
    gte: from && Buffer.compare(gte, from) < 0 ? from : gte,
    lt: until && Buffer.compare(lt, until) > 0 ? until : lt,
    reverse,
  };
}
