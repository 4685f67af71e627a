/** The sweeps over a whole engine: which clock they believe, and how they begin and end. */
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Challenges } from '../../../../src/relay/auth/challenges.ts';
import { Sweeps } from '../../../../src/relay/jobs/sweep.ts';
import { pushOf } from '../../../support/commands.ts';
import { alice, bob } from '../../../support/hosts.ts';
import { ManualTimers } from '../../../support/manual-time.ts';
import { type TestRelay, enrolledTestRelay } from '../../../support/test-relay.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const RETENTION_MS = 14 * DAY_MS;
const EVERY_MS = 60_000;

interface Swept {
  relay: TestRelay;
  sweeps: Sweeps;
  timers: ManualTimers;
  unexpected: unknown[];
  /** Both clocks. */
  pass: (ms: number) => void;
}

async function swept(): Promise<Swept> {
  const relay = await enrolledTestRelay(alice, bob);
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  let monotonicMs = 0;
  const timers = new ManualTimers();
  const unexpected: unknown[] = [];
  const sweeps = new Sweeps({
    engine: relay.engine,
    challenges: { forgetEnded: () => undefined } as unknown as Challenges,
    clock: { nowMs: () => relay.clock.nowMs, monotonicMs: () => monotonicMs },
    timers,
    everyMs: EVERY_MS,
    isClockSuspect: false,
    onError: (error) => unexpected.push(error),
  });
  onTestFinished(() => sweeps.stop());
  const pass = (ms: number): void => {
    relay.clock.move(ms);
    monotonicMs += ms;
  };
  return { relay, sweeps, timers, unexpected, pass };
}

describe('the sweeps', () => {
  test('expire by themselves, when their time comes', async () => {
    const { relay, sweeps, timers, pass, unexpected } = await swept();
    pass(RETENTION_MS);
    timers.pass(EVERY_MS);
    // The one under way.
    await sweeps.sweep();
    expect(await relay.queue(bob)).toEqual([]);
    expect(await relay.queue(alice)).toHaveLength(1);
    expect(unexpected).toEqual([]);
  });

  test.each([RETENTION_MS, 30 * DAY_MS])(
    'after a jump of %d ms nothing expires for an hour of agreement',
    async (ms) => {
      const { relay, sweeps, pass } = await swept();
      relay.clock.move(ms);
      await sweeps.sweep();
      pass(HOUR_MS - 1);
      await sweeps.sweep();
      expect(await relay.queue(bob)).toHaveLength(1);
      pass(1);
      await sweeps.sweep();
      expect(await relay.queue(bob)).toEqual([]);
    },
  );

  test('a clock that jumps between two entries ends the sweep there', async () => {
    const { relay, sweeps, pass } = await swept();
    pass(DAY_MS);
    await relay.pushOne(pushOf(alice, 'm2', [[bob, 'x']]));
    pass(RETENTION_MS - DAY_MS);
    const sweep = sweeps.sweep();
    relay.clock.move(30 * DAY_MS);
    await sweep;
    expect((await relay.queue(bob)).map(({ itemId }) => itemId)).toEqual(['m2']);
  });

  test('one sweep at a time, and none after the stop', async () => {
    const { relay, sweeps, timers, pass } = await swept();
    expect(sweeps.sweep()).toBe(sweeps.sweep());
    await sweeps.stop();
    pass(RETENTION_MS);
    timers.pass(10 * EVERY_MS);
    await sweeps.sweep();
    expect(await relay.queue(bob)).toHaveLength(1);
  });

  test('what goes wrong is told, and the next sweep is tried all the same', async () => {
    const { relay, sweeps, pass, unexpected } = await swept();
    pass(RETENTION_MS);
    const dueItems = relay.store.due.items.bind(relay.store.due);
    relay.store.due.items = () => Promise.reject(new Error('no such luck'));
    await sweeps.sweep();
    expect(unexpected).toHaveLength(1);
    relay.store.due.items = dueItems;
    await sweeps.sweep();
    expect(await relay.queue(bob)).toEqual([]);
  });
});
