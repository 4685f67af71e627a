/** The bytes of a block of pairs: whatever is put in comes out, and what was taken is not written to again. */
import { Readable } from 'node:stream';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Pair, PairBlock, packedBlocks, unpackedBlock, unpackedPairs } from '../../../src/lib/pair-block.ts';

const bytes = fc.uint8Array({ maxLength: 40 }).map((array) => Buffer.from(array));
const pairs = fc.array(fc.tuple(bytes, bytes), { maxLength: 12 });

function sizeOf(all: readonly Pair[]): number {
  return all.reduce((sum, [key, value]) => sum + key.length + value.length, 0);
}

function add(block: PairBlock, added: readonly Pair[]): void {
  for (const pair of added) block.add(pair);
}

test('a block gives back its pairs, whatever memory it begins with', () => {
  fc.assert(
    fc.property(pairs, pairs, fc.nat(100), fc.nat(100), (first, second, firstMemory, secondMemory) => {
      const block = new PairBlock(Buffer.alloc(firstMemory));
      add(block, first);
      expect([block.pairs, block.bytes]).toEqual([first.length, sizeOf(first)]);
      const taken = block.taken(Buffer.alloc(secondMemory));
      expect([block.pairs, block.bytes]).toEqual([0, 0]);
      add(block, second);
      expect(unpackedPairs(taken.block)).toEqual(first);
      expect(unpackedPairs(block.taken().block)).toEqual(second);
    }),
  );
});

test('runs come back out of blocks that are compressed, in their order, and are counted', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(pairs, { maxLength: 8 }), fc.integer({ min: 1, max: 200 }), async (runs, blockBytes) => {
      const totals = { pairs: 0, bytes: 0 };
      const found: Pair[][] = [];
      for await (const packed of packedBlocks(Readable.from(runs), blockBytes, totals))
        found.push((await unpackedBlock(packed)) ?? []);
      const all = runs.flat();
      expect(found.flat()).toEqual(all);
      expect(totals).toEqual({ pairs: all.length, bytes: sizeOf(all) });
      for (const block of found.slice(0, -1)) expect(sizeOf(block)).toBeGreaterThanOrEqual(blockBytes);
    }),
    { numRuns: 40, examples: [[[[[Buffer.alloc(0), Buffer.alloc(0)]]], 1]] },
  );
});

test('what was added may be changed by its owner', () => {
  const [key, value] = [Buffer.from('key'), Buffer.from('value')];
  const block = new PairBlock();
  block.add([key, value]);
  value.fill('x');
  expect(unpackedPairs(block.taken().block)).toEqual([[key, Buffer.from('value')]]);
});

test('memory of a block that is used again is as large as the block made it', () => {
  const block = new PairBlock(Buffer.alloc(0));
  block.add([Buffer.alloc(10), Buffer.alloc(1000)]);
  const { memory } = block.taken();
  expect(memory.length).toBeGreaterThanOrEqual(1018);
});

test('bytes that are cut within a pair are no block', () => {
  const block = new PairBlock();
  add(block, [
    [Buffer.from('a'), Buffer.from('1')],
    [Buffer.from('b'), Buffer.from('2')],
  ]);
  const whole = block.taken().block;
  for (let end = 0; end < whole.length; end++)
    expect(unpackedPairs(whole.subarray(0, end))?.length).toBe(end === 0 ? 0 : end === 10 ? 1 : undefined);
});
