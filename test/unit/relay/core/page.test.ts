import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { QueueRow } from '../../../../src/relay/core/rows.ts';
import { accepted } from '../../../support/events.ts';
import { alice, bob } from '../../../support/hosts.ts';
import { MapRows } from '../../../../src/library/map-rows.ts';
import { pageRows } from '../../../../src/relay/core/decide-queue.ts';

const rows = (sizes: readonly number[]): QueueRow[] => {
  const map = new MapRows();
  for (const [at, size] of sizes.entries()) map.apply(accepted(alice, `m${at}`, [[bob, at + 1, Buffer.alloc(size)]]));
  return map.queue(bob.key);
};
const sizesOf = (page: { rows: QueueRow[] }): number[] => page.rows.map(({ bytes }) => bytes);

test.each([
  { sizes: [], limit: 2, bytesMax: 10, shown: [], more: false },
  { sizes: [5, 5], limit: 2, bytesMax: 10, shown: [5, 5], more: false },
  { sizes: [5, 5, 1], limit: 2, bytesMax: 10, shown: [5, 5], more: true },
  { sizes: [5, 6], limit: 2, bytesMax: 10, shown: [5], more: true },
  { sizes: [11, 1], limit: 2, bytesMax: 10, shown: [11], more: true },
  { sizes: [11], limit: 2, bytesMax: 10, shown: [11], more: false },
  { sizes: [10, 0, 0], limit: 3, bytesMax: 10, shown: [10, 0, 0], more: false },
  { sizes: [1, 1], limit: 1, bytesMax: 10, shown: [1], more: true },
])(
  '$sizes under $limit items and $bytesMax bytes shows $shown, more: $more',
  ({ sizes, limit, bytesMax, shown, more }) => {
    const page = pageRows(rows(sizes), limit, bytesMax);
    expect(sizesOf(page)).toEqual(shown);
    expect(page.more).toBe(more);
  },
);

test('a page is the longest prefix that fits, and never empty while something waits', () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat(20), { maxLength: 8 }),
      fc.integer({ min: 1, max: 8 }),
      fc.nat(40),
      (sizes, limit, bytesMax) => {
        const shown = sizesOf(pageRows(rows(sizes), limit, bytesMax));
        const fits = (count: number): boolean =>
          count <= 1 || (count <= limit && sizes.slice(0, count).reduce((sum, size) => sum + size, 0) <= bytesMax);
        const counts = [...sizes.keys()].map((at) => at + 1).filter(fits);
        expect(shown).toEqual(sizes.slice(0, counts.at(-1) ?? 0));
      },
    ),
  );
});
