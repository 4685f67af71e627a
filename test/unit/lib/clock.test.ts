import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { AdaptiveBatch, TimeSlice, inTurns } from '../../../src/lib/clock.ts';

/** A clock that stands still until work moves it. */
function clock() {
  let nowMs = 0;
  return { monotonicMs: () => nowMs, passes: (ms: number) => void (nowMs += ms) };
}

/** So many things of each mark, the marks in order. */
const runs = (...lengths: number[]): number[] => lengths.flatMap((length, at) => Array<number>(length).fill(at));

describe('an adaptive batch', () => {
  test('begins small and grows to its bound while the work is quick', () => {
    const { monotonicMs, passes } = clock();
    const batch = new AdaptiveBatch(100, monotonicMs);
    const sizes: number[] = [];
    for (let round = 0; round < 6; round++) {
      sizes.push(batch.size);
      batch.run(() => passes(1));
    }
    expect(sizes).toEqual([8, 16, 32, 64, 100, 100]);
  });

  test('shrinks when the work takes longer than a time slice, and never below where it began', () => {
    const { monotonicMs, passes } = clock();
    const batch = new AdaptiveBatch(100, monotonicMs);
    for (let round = 0; round < 4; round++) batch.run(() => passes(0));
    expect(batch.size).toBe(100);
    const sizes: number[] = [];
    for (let round = 0; round < 5; round++) {
      batch.run(() => passes(6));
      sizes.push(batch.size);
    }
    expect(sizes).toEqual([50, 25, 12, 8, 8]);
    batch.run(() => passes(3));
    expect(batch.size).toBe(8);
  });

  test('keeps together what has one mark, as long as that fits', () => {
    const batch = new AdaptiveBatch(100, clock().monotonicMs);
    for (let round = 0; round < 4; round++) batch.run(() => undefined);
    expect(batch.sizeOf(runs(60, 60))).toBe(60);
    expect(batch.sizeOf(runs(60, 40, 1))).toBe(100);
    expect(batch.sizeOf(runs(60, 20))).toBe(80);
    expect(batch.sizeOf([])).toBe(0);
    // One that is too large is parted, into as few as may be.
    const sizes: number[] = [];
    for (let left = runs(256, 60); left.length > 0; left = left.slice(sizes.at(-1))) sizes.push(batch.sizeOf(left));
    expect(sizes).toEqual([100, 100, 56, 60]);
  });

  test('hands on what the work answers, and is never larger than its bound', () => {
    const batch = new AdaptiveBatch(3, clock().monotonicMs);
    expect(batch.size).toBe(3);
    expect(batch.run(() => 'done')).toBe('done');
  });
});

test('a time slice is over after 5 ms, and begins again after a pause', async () => {
  const { monotonicMs, passes } = clock();
  const slice = new TimeSlice(monotonicMs);
  passes(4);
  expect(slice.isOver).toBe(false);
  passes(1);
  expect(slice.isOver).toBe(true);
  await slice.pause();
  expect(slice.isOver).toBe(false);
});

test('of those who pause together, one goes on in each turn of the loop', async () => {
  const { monotonicMs } = clock();
  const order: string[] = [];
  const turns = Promise.all(
    ['first', 'second', 'third'].map(async (name) => {
      await new TimeSlice(monotonicMs).pause();
      order.push(name);
      setImmediate(() => order.push(`turn after ${name}`));
    }),
  );
  await turns;
  expect(order.indexOf('second')).toBeGreaterThan(order.indexOf('first'));
  expect(order.filter((name) => !name.startsWith('turn'))).toEqual(['first', 'second', 'third']);
});

test('things in turns come in their order, and others get their turn where a slice is over', async () => {
  const { monotonicMs, passes } = clock();
  const order: string[] = [];
  for await (const name of inTurns(Readable.from(['quick', 'slow', 'last']), monotonicMs)) {
    order.push(name);
    setImmediate(() => order.push(`turn after ${name}`));
    if (name === 'slow') passes(5);
  }
  expect(order.filter((name) => !name.startsWith('turn'))).toEqual(['quick', 'slow', 'last']);
  expect(order.indexOf('turn after slow')).toBeLessThan(order.indexOf('last'));
  expect(order.indexOf('turn after slow')).toBeGreaterThan(0);
});
