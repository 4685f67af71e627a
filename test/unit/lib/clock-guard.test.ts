/** Clocks that jump, "Restore and doubt", rule 5: nothing expires on the word of a clock that just jumped. */
import { describe, expect, test } from 'vitest';
import { ClockGuard } from '../../../src/lib/clock-guard.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

class TwoClocks {
  wallMs = 1_763_675_303_000;
  runMs = 5_000;
  nowMs = (): number => this.wallMs;
  monotonicMs = (): number => this.runMs;

  pass(ms: number): void {
    this.wallMs += ms;
    this.runMs += ms;
  }
}

function started(): { clock: TwoClocks; guard: ClockGuard } {
  const clock = new TwoClocks();
  return { clock, guard: new ClockGuard(clock) };
}

describe('the clock guard', () => {
  test('a start that found the clock contradicted waits for an hour of agreement', () => {
    const clock = new TwoClocks();
    const guard = new ClockGuard(clock, { isDoubted: true });
    expect(guard.isTrusted).toBe(false);
    clock.pass(HOUR_MS - 1);
    expect(guard.isTrusted).toBe(false);
    clock.pass(1);
    expect(guard.isTrusted).toBe(true);
  });

  test('trusts a clock that runs', () => {
    const { clock, guard } = started();
    for (const ms of [0, 1, 60_000, HOUR_MS, 30 * DAY_MS]) {
      clock.pass(ms);
      expect(guard.isTrusted).toBe(true);
    }
  });

  test.each([1_000, 59_999, 60_000])('a jump of %d ms either way is none', (ms) => {
    for (const jump of [ms, -ms]) {
      const { clock, guard } = started();
      clock.wallMs += jump;
      expect(guard.isTrusted).toBe(true);
    }
  });

  test.each([60_001, 600_000, HOUR_MS, DAY_MS, 30 * DAY_MS])(
    'after a jump of %d ms either way it takes an hour of agreement',
    (ms) => {
      for (const jump of [ms, -ms]) {
        const { clock, guard } = started();
        clock.wallMs += jump;
        expect(guard.isTrusted).toBe(false);
        clock.pass(HOUR_MS - 1);
        expect(guard.isTrusted).toBe(false);
        clock.pass(1);
        expect(guard.isTrusted).toBe(true);
      }
    },
  );

  test('a suspend, in which only the wall clock runs, is a jump', () => {
    const { clock, guard } = started();
    clock.wallMs += 8 * HOUR_MS;
    expect(guard.isTrusted).toBe(false);
    clock.pass(HOUR_MS);
    expect(guard.isTrusted).toBe(true);
  });

  test('a jump back to where it was begins the hour anew', () => {
    const { clock, guard } = started();
    clock.wallMs += 30 * DAY_MS;
    expect(guard.isTrusted).toBe(false);
    clock.pass(HOUR_MS / 2);
    clock.wallMs -= 30 * DAY_MS;
    expect(guard.isTrusted).toBe(false);
    clock.pass(HOUR_MS - 1);
    expect(guard.isTrusted).toBe(false);
    clock.pass(1);
    expect(guard.isTrusted).toBe(true);
  });

  test('small steps that add up to more than a minute are a jump', () => {
    const { clock, guard } = started();
    clock.wallMs += 40_000;
    expect(guard.isTrusted).toBe(true);
    clock.pass(1000);
    clock.wallMs += 40_000;
    expect(guard.isTrusted).toBe(false);
  });
});

describe('a stored date, by the clock of now', () => {
  test('is itself while the clock runs', () => {
    const { clock, guard } = started();
    const dated = guard.nowMs();
    clock.pass(30 * DAY_MS);
    expect(guard.momentMs(dated)).toBe(dated);
    expect(guard.momentMs(1)).toBe(1);
  });

  test.each([HOUR_MS, 56 * 365 * DAY_MS, -HOUR_MS, -30 * DAY_MS])('is moved by a jump of %d ms since', (jumpMs) => {
    const { clock, guard } = started();
    const early = guard.nowMs();
    clock.pass(5_000);
    clock.wallMs += jumpMs;
    const late = guard.nowMs();
    clock.pass(1_000);
    expect(guard.nowMs() - guard.momentMs(early)).toBe(6_000);
    expect(guard.nowMs() - guard.momentMs(late)).toBe(1_000);
    expect(guard.jumps).toEqual([{ beforeMs: early + 5_000, afterMs: late }]);
  });

  test('is moved by every jump since, of former processes too', () => {
    const { clock, guard } = started();
    const dated = guard.nowMs();
    for (const jumpMs of [8 * HOUR_MS, -2 * HOUR_MS, 30 * DAY_MS]) {
      clock.pass(60_000);
      clock.wallMs += jumpMs;
      guard.nowMs();
    }
    const next = new ClockGuard(clock, { jumps: guard.jumps });
    clock.pass(60_000);
    expect(next.nowMs() - next.momentMs(dated)).toBe(4 * 60_000);
  });

  test('a date that no clock showed is that of the jump over it, and one of the future stays', () => {
    const { clock, guard } = started();
    clock.wallMs += DAY_MS;
    const jumpedMs = guard.nowMs();
    clock.pass(1_000);
    expect(guard.momentMs(jumpedMs - 1)).toBe(jumpedMs);
    expect(guard.momentMs(jumpedMs + DAY_MS)).toBe(jumpedMs + DAY_MS);
  });
});
