import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { PREFIX, dedupKey, queueKey } from '../../../../src/relay/store/keys.ts';
import { type ScratchPairs, openScratch } from '../../../../src/relay/store/scratch.ts';
import type { Pair } from '../../../../src/lib/pair-block.ts';
import { alice, bob } from '../../../support/hosts.ts';
import { collected } from '../../../support/collected.ts';

async function withScratch(memoryBytes: number, look: (pairs: ScratchPairs) => Promise<void>): Promise<void> {
  const scratch = await openScratch(memoryBytes);
  try {
    await look(scratch.pairs);
  } finally {
    await scratch.close();
  }
}

async function hexOf(runs: AsyncIterable<readonly Pair[]>): Promise<string[]> {
  return (await collected(runs)).flat().map(([key, value]) => `${key.toString('hex')} ${value.toString('hex')}`);
}

/** Few keys, so that they are changed again; short ones, ones that begin alike, and hashes. */
const key = fc.oneof(
  fc.constantFrom(Buffer.of(2), Buffer.of(2, 0), Buffer.of(0x20, 1, 2), Buffer.of(0x40)),
  fc.tuple(fc.constantFrom(alice.key, bob.key), fc.integer({ min: 1, max: 8 })).map(([of, seq]) => queueKey(of, seq)),
  fc.integer({ min: 0, max: 5 }).map((nth) => dedupKey(Buffer.alloc(32, nth * 37))),
);
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ put: key, value: fc.uint8Array({ maxLength: 12 }) }) },
  { weight: 2, arbitrary: fc.record({ del: key }) },
  { weight: 2, arbitrary: fc.record({ get: key }) },
  { weight: 1, arbitrary: fc.constant('spill' as const) },
);

describe('the pairs of a scratch', () => {
  test('are those of a map, in the order of the keys, in memory, spilled, and between', async () => {
    const property = fc.asyncProperty(fc.array(step, { maxLength: 60 }), key, key, async (steps, from, to) => {
      await withScratch(1 << 20, async (pairs) => {
        const model = new Map<string, string>();
        const found: [is: string | undefined, should: string | undefined][] = [];
        for (const one of steps) {
          if (one === 'spill') await pairs.spill();
          else if ('get' in one) found.push([pairs.get(one.get)?.toString('hex'), model.get(one.get.toString('hex'))]);
          else if ('put' in one) {
            pairs.put(one.put, Buffer.from(one.value));
            model.set(one.put.toString('hex'), Buffer.from(one.value).toString('hex'));
          } else {
            pairs.del(one.del);
            model.delete(one.del.toString('hex'));
          }
        }
        expect(found.map(([is]) => is)).toEqual(found.map(([, should]) => should));
        const all = [...model].toSorted(([a], [b]) => (a < b ? -1 : 1));
        expect(await hexOf(pairs.runs({}))).toEqual(all.map((pair) => pair.join(' ')));
        const [low, high] = [from.toString('hex'), to.toString('hex')];
        const within = all.filter(([name]) => name > low && name <= high);
        expect(await hexOf(pairs.runs({ gt: from, lte: to }))).toEqual(within.map((pair) => pair.join(' ')));
        const below = all.filter(([name]) => name >= low && name < high);
        expect(await hexOf(pairs.runs({ gte: from, lt: to }))).toEqual(below.map((pair) => pair.join(' ')));
        for (const one of [from, to]) expect(pairs.get(one)?.toString('hex')).toBe(model.get(one.toString('hex')));
      });
    });
    await fc.assert(property, { numRuns: 60 });
  });

  test('are found among so many that their table grows, the newest of each key', async () => {
    await withScratch(8 << 20, async (pairs) => {
      for (let round = 0; round < 2; round++) {
        for (let seq = 1; seq <= 5000; seq++) pairs.put(queueKey(alice.key, seq), Buffer.of(round, seq & 255));
        for (let seq = 1; seq <= 5000; seq += 7)
          expect(pairs.get(queueKey(alice.key, seq))).toEqual(Buffer.of(round, seq & 255));
        expect(pairs.get(queueKey(alice.key, 5001))).toBe(undefined);
      }
      expect((await collected(pairs.runs({}))).flat()).toHaveLength(5000);
    });
  });

  test('say when memory is full, and take more than it holds at first', async () => {
    await withScratch(3 << 20, async (pairs) => {
      const value = Buffer.alloc(1000, 'v');
      let count = 0;
      while (!pairs.isFull) pairs.put(queueKey(alice.key, ++count), value);
      expect(count).toBe(Math.ceil((3 << 20) / (5 + 41 + 1000)));
      await pairs.spill();
      expect(pairs.isFull).toBe(false);
      expect(await hexOf(pairs.runs({ gte: Buffer.of(PREFIX.queue), lt: Buffer.of(PREFIX.queue + 1) }))).toHaveLength(
        count,
      );
    });
  });

  test('that nobody asks for any more are not brought to the database; those of a range leave it', async () => {
    await withScratch(1 << 20, async (pairs) => {
      for (let seq = 1; seq <= 9; seq++) pairs.put(queueKey(alice.key, seq), Buffer.of(seq));
      await pairs.spill((dropped) => dropped.equals(queueKey(alice.key, 2)));
      pairs.put(queueKey(alice.key, 8), Buffer.of(88));
      await pairs.clearSpilled({ gt: queueKey(alice.key, 4), lte: queueKey(alice.key, 8) });
      const values = (await collected(pairs.runs({}))).flat().map(([, [value]]) => value);
      expect(values).toEqual([1, 3, 4, 88, 9]);
    });
  });
});
