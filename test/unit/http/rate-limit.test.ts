import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { RateLimiter } from '../../../src/http/budget.ts';

/** A limiter and the clock that it reads. */
function limiter(perMinute: number, startMs = 0): { take: (caller?: string) => number; pass: (ms: number) => void } {
  let nowMs = startMs;
  const limiter = new RateLimiter(perMinute, () => nowMs);
  return {
    take: (caller = 'a') => limiter.take(caller),
    pass: (ms) => {
      nowMs += ms;
    },
  };
}

test('a minute’s worth may come at once, whatever the rate and the clock say', () => {
  const clocks = [0, 0.1, 12_345.678, 1_000_000.1, 2 ** 31 + 0.3, 2 ** 34 + 1 / 3];
  for (const startMs of clocks) {
    for (let perMinute = 1; perMinute <= 700; perMinute += perMinute < 50 ? 1 : 13) {
      const { take } = limiter(perMinute, startMs);
      let passed = 0;
      while (passed < 1000 && take() === 0) passed++;
      expect([startMs, passed]).toEqual([startMs, perMinute]);
    }
  }
});

test('after that one passes in its turn', () => {
  const { take, pass } = limiter(3);
  expect([take(), take(), take(), take()]).toEqual([0, 0, 0, 20]);
  pass(19_999);
  expect(take()).toBe(1);
  pass(1);
  expect([take(), take()]).toEqual([0, 20]);
  pass(60_000);
  expect([take(), take(), take(), take()]).toEqual([0, 0, 0, 20]);
});

test('a period may be longer than a minute', () => {
  let nowMs = 0;
  const limiter = new RateLimiter(2, () => nowMs, 3_600_000);
  expect([limiter.take('a'), limiter.take('a'), limiter.take('a')]).toEqual([0, 0, 1800]);
  nowMs += 1_800_000;
  expect([limiter.take('a'), limiter.take('a')]).toEqual([0, 1800]);
});

test('a refused request does not put the next one off', () => {
  const { take, pass } = limiter(1);
  take();
  for (let count = 0; count < 100; count++) expect(take()).toBeGreaterThan(0);
  pass(60_000);
  expect(take()).toBe(0);
});

test('every caller is counted alone', () => {
  const { take } = limiter(1);
  expect([take('a'), take('b'), take('a'), take('b')]).toEqual([0, 0, 60, 60]);
});

test('waiting as long as it says is long enough, and no minute lets more than twice its worth through', () => {
  const rates = fc.integer({ min: 1, max: 1000 });
  // fc.double draws mostly numbers near 0: thirds of a millisecond lie evenly, and few of them are a double exactly.
  const clocks = fc.integer({ min: 0, max: 3e9 }).map((thirds) => thirds / 3);
  const gaps = fc.array(fc.integer({ min: 0, max: 30_000 }), { maxLength: 60 });
  fc.assert(
    fc.property(rates, clocks, gaps, (perMinute, startMs, gapsMs) => {
      const { take, pass } = limiter(perMinute, startMs);
      const passedAtMs: number[] = [];
      let nowMs = 0;
      for (const gapMs of gapsMs) {
        pass(gapMs);
        nowMs += gapMs;
        let waitS = take();
        for (; waitS === 0; waitS = take()) passedAtMs.push(nowMs);
        pass(waitS * 1000);
        nowMs += waitS * 1000;
        expect(take()).toBe(0);
        passedAtMs.push(nowMs);
      }
      // Of twice its worth and one more, the first and the last are a minute apart.
      const spansMs = passedAtMs.slice(2 * perMinute).map((ms, at) => ms - (passedAtMs[at] ?? Infinity));
      expect(spansMs.filter((ms) => ms < 60_000)).toEqual([]);
    }),
    { numRuns: 50 },
  );
});

test('a full table forgets the caller who has been silent longest', () => {
  const { take } = limiter(1);
  for (let number = 0; number < 10_000; number++) take(`caller ${number}`);
  // Asking again, though refused, is not being silent.
  expect(take('caller 0')).toBe(60);
  expect(take('one more')).toBe(0);
  expect(take('caller 0')).toBe(60);
  expect(take('caller 1')).toBe(0);
  expect(take('caller 3')).toBe(60);
});
