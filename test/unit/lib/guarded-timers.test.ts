/** A timer that meets an error ends nothing. */
import { expect, test, vi } from 'vitest';
import { Activity } from '../../../src/relay/operator/activity.ts';
import { SAMPLE_EVERY_MS, Sampler } from '../../../src/relay/operator/sampler.ts';
import { afterOrAborted, guardedTimers } from '../../../src/lib/clock.ts';
import { HEARTBEAT_EVERY_MS } from '../../../src/protocol/limits.ts';
import { FIRST_ADAPTER } from '../../support/adapters.ts';
import { relayForTest } from '../../support/http-relay.ts';
import { ManualClock, ManualTimers } from '../../support/manual-time.ts';

const tooManyFiles = (): never => {
  throw Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' });
};

test('a wait ends once: by its time, or before by its signal, and leaves neither timer nor listener', () => {
  const timers = new ManualTimers();
  const ends: string[] = [];
  const wait = (name: string): { caller: AbortController; cancel: () => void } => {
    const caller = new AbortController();
    return { caller, cancel: afterOrAborted(timers, 10, caller.signal, () => void ends.push(name)) };
  };
  const late = wait('late');
  const gone = wait('gone');
  const over = wait('over');
  over.cancel();
  gone.caller.abort();
  expect([ends, timers.count]).toEqual([['gone'], 1]);
  timers.pass(10);
  for (const { caller } of [late, gone, over]) caller.abort();
  expect([ends, timers.count]).toEqual([['gone', 'late'], 0]);
});

test('what a callback throws is told, and the next time it runs again', () => {
  const timers = new ManualTimers();
  const told: unknown[] = [];
  const guarded = guardedTimers(timers, (error) => void told.push(error));
  let runs = 0;
  const cancel = guarded.every(10, () => {
    runs++;
    if (runs < 3) tooManyFiles();
  });
  guarded.after(5, tooManyFiles);
  timers.pass(30);
  expect([runs, told.length]).toEqual([3, 3]);
  cancel();
  timers.pass(30);
  expect(runs).toBe(3);
});

test('the sampler goes on when no file may be opened, with the memory that it last knew', () => {
  const timers = new ManualTimers();
  const clock = new ManualClock();
  const answers = [() => 1000, tooManyFiles, () => 3000];
  const sampler = new Sampler({
    activity: new Activity(clock),
    gauges: () => ({}) as never,
    epoch: () => 'E',
    nowMs: () => clock.nowMs(),
    timers,
    onError: tooManyFiles,
    rssBytes: () => answers.shift()?.() ?? 0,
  });
  timers.pass(3 * SAMPLE_EVERY_MS);
  expect(sampler.history.recent.map(({ rss_bytes }) => rss_bytes)).toEqual([1000, 1000, 3000]);
  sampler.close();
});

test('a timer of a relay whose log cannot be written ends nothing', async () => {
  let fails = 0;
  const told: string[] = [];
  const error = (_: object, message: string): void => {
    // The first report is lost, and the timer that failed runs again.
    if (fails++ === 0) tooManyFiles();
    told.push(message);
  };
  const log = { info: () => undefined, warn: () => undefined, error };
  const relay = await relayForTest(FIRST_ADAPTER, { log });
  const nowMs = vi.spyOn(relay.clock, 'nowMs').mockImplementation(tooManyFiles);
  relay.timers.pass(HEARTBEAT_EVERY_MS);
  expect(fails).toBe(1);
  relay.timers.pass(HEARTBEAT_EVERY_MS);
  nowMs.mockRestore();
  expect([fails, told.length]).toEqual([2, 1]);
});
