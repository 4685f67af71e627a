/** Work that is paced: what it rests, and what becomes of it when nobody wants the rest. */
import { expect, test } from 'vitest';
import { paceWork } from '../../../src/lib/pace.ts';

let nowMs = 0;
const monotonicMs = (): number => nowMs;

async function* stepsOf(tookMs: readonly number[], left: string[]): AsyncGenerator<number, string, void> {
  try {
    for (const ms of tookMs) {
      nowMs += ms;
      yield ms;
    }
    return 'whole';
  } finally {
    left.push('closed');
  }
}

test('each step is followed by a rest after which the work has had its share of the time', async () => {
  const rests: number[] = [];
  const seen: number[] = [];
  const rest = (ms: number): boolean => rests.push(ms) > 0;
  const ended = await paceWork(stepsOf([10, 40], []), { share: 0.1, monotonicMs, rest }, (ms) => seen.push(ms));
  expect(ended).toEqual({ result: 'whole', busyMs: 50 });
  expect([rests, seen]).toEqual([
    [90, 360],
    [10, 40],
  ]);
});

test('work that nobody wants any more is closed, and comes to nothing', async () => {
  const left: string[] = [];
  expect(await paceWork(stepsOf([10, 40], left), { share: 1, monotonicMs, rest: () => false })).toBeUndefined();
  expect(left).toEqual(['closed']);
});
