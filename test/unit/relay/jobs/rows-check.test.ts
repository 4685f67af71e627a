/** When the rows are compared with the log: every day, on demand, one at a time; and what becomes of what was found. */
import { describe, expect, onTestFinished, test } from 'vitest';
import { type CheckedAt, QUIET_SHARE, RowsCheck } from '../../../../src/relay/jobs/rows-check.ts';
import { SOUND_ROWS, heldRowsChecks } from '../../../support/held-rows-check.ts';
import { ManualClock, ManualTimers } from '../../../support/manual-time.ts';

const HOUR_MS = 3_600_000;
function started() {
  const [clock, timers] = [new ManualClock(), new ManualTimers()];
  const { runs, start } = heldRowsChecks();
  const ended: CheckedAt[] = [];
  const errors: unknown[] = [];
  const check = new RowsCheck({
    start,
    clock,
    timers,
    onEnded: (one) => void ended.push(one),
    onError: (error) => void errors.push(error),
  });
  onTestFinished(() => check.stop());
  return { check, clock, timers, runs, ended, errors };
}

describe('the check of the rows', () => {
  test('is made an hour after the start and then every day, under two hundredths of a processor', async () => {
    const { check, clock, timers, runs, ended } = started();
    expect(runs).toEqual([]);
    timers.pass(HOUR_MS);
    expect(runs.map(({ share }) => share)).toEqual([QUIET_SHARE]);
    expect(QUIET_SHARE).toBeLessThan(0.02);
    clock.move(5000);
    runs[0]!.end(SOUND_ROWS);
    await check.idle;
    expect(ended).toEqual([{ atMs: clock.nowMs(), durationMs: 5000, checked: SOUND_ROWS }]);
    expect(check.last).toBe(ended[0]);
    timers.pass(24 * HOUR_MS);
    expect(runs).toHaveLength(2);
  });

  test('on demand takes what it is given, and a second asker joins the one under way', async () => {
    const { check, runs } = started();
    const asked = [check.check(0.5), check.check(1)];
    expect(runs.map(({ share }) => share)).toEqual([0.5]);
    expect(check.run?.progress).toEqual({ stage: 'log', done: 1, of: 9 });
    runs[0]!.end(SOUND_ROWS);
    await Promise.all(asked);
    expect(check.run).toBeUndefined();
    expect(check.last?.checked).toBe(SOUND_ROWS);
  });

  test('that fails is told as an error and remembered until one succeeds; the next comes in its time', async () => {
    const { check, clock, timers, runs, ended, errors } = started();
    expect(check.failedAtMs).toBeUndefined();
    const asked = check.check(1);
    runs[0]!.fail(new Error('the disk is gone'));
    await asked;
    expect(errors).toEqual([new Error('the disk is gone')]);
    expect([ended, check.last, check.failedAtMs]).toEqual([[], undefined, clock.nowMs()]);
    timers.pass(HOUR_MS);
    expect(runs).toHaveLength(2);
    runs[1]!.end(SOUND_ROWS);
    await check.idle;
    expect(check.failedAtMs).toBeUndefined();
  });

  test('is given up when the relay stops, and tells nothing', async () => {
    const { check, runs, ended } = started();
    const asked = check.check(1);
    await check.stop();
    await asked;
    expect(runs).toHaveLength(1);
    expect(ended).toEqual([]);
  });
});
