import { describe, expect, test } from 'vitest';
import { AdaptiveBatch, TimeSlice } from '../../../src/lib/clock.ts';

/** A clock that stands still until work moves it. */
function clock() {
  let nowMs = 0;
  return { monotonicMs: () => nowMs, passes: (ms: number) => void (nowMs += ms) };
}

/** So many things of each mark, the marks in order. */
const runs = (...lengths: number[]): number[] => lengths.flatMap((length, at) => Array<number>(length).fill(at));

describe('a portion', () => {
  test('begins small and grows to its bound while the work is quick', () => {
    const { monotonicMs, passes } = clock();
    const portion = new AdaptiveBatch(100, monotonicMs);
    const sizes: number[] = [];
    for (let round = 0; round < 6; round++) {
      sizes.push(portion.size);
      portion.run(() => passes(1));
    }
    expect(sizes).toEqual([8, 16, 32, 64, 100, 100]);
  });

  test('shrinks when the work takes longer than a stretch, and never below where it began', () => {
    const { monotonicMs, passes } = clock();
    const portion = new AdaptiveBatch(100, monotonicMs);
    for (let round = 0; round < 4; round++) portion.run(() => passes(0));
    expect(portion.size).toBe(100);
    const sizes: number[] = [];
    for (let round = 0; round < 5; round++) {
      portion.run(() => passes(6));
      sizes.push(portion.size);
    }
    expect(sizes).toEqual([50, 25, 12, 8, 8]);
    portion.run(() => passes(3));
    expect(portion.size).toBe(8);
  });

  test('keeps together what has one mark, as long as that fits', () => {
    const portion = new AdaptiveBatch(100, clock().monotonicMs);
    for (let round = 0; round < 4; round++) portion.run(() => undefined);
    expect(portion.sizeOf(runs(60, 60))).toBe(60);
    expect(portion.sizeOf(runs(60, 40, 1))).toBe(100);
    expect(portion.sizeOf(runs(60, 20))).toBe(80);
    expect(portion.sizeOf([])).toBe(0);
    // One that is too large is parted, into as few as may be.
    const sizes: number[] = [];
    for (let left = runs(256, 60); left.length > 0; left = left.slice(sizes.at(-1))) sizes.push(portion.sizeOf(left));
    expect(sizes).toEqual([100, 100, 56, 60]);
  });

  test('hands on what the work answers, and is never larger than its bound', () => {
    const portion = new AdaptiveBatch(3, clock().monotonicMs);
    expect(portion.size).toBe(3);
    expect(portion.run(() => 'done')).toBe('done');
  });
});

test('a stretch is over after 5 ms, and begins again after a pause', async () => {
  const { monotonicMs, passes } = clock();
  const stretch = new TimeSlice(monotonicMs);
  passes(4);
  expect(stretch.isOver).toBe(false);
  passes(1);
  expect(stretch.isOver).toBe(true);
  await stretch.pause();
  expect(stretch.isOver).toBe(false);
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
