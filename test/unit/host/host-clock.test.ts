/** A host whose clock jumps, while it runs and between two runs: deadlines count the time that passed. */
import { describe, expect, test } from 'vitest';
import { timeMsOf } from '../../../src/protocol/time.ts';
import { createHostContext, type HostContext } from '../../../src/host/base/context.ts';
import { RETRY_TIMING } from '../../../src/host/core/outbox-event.ts';
import { AWAY_MAX_MS, noteClock, openClock } from '../../../src/host/host-clock.ts';
import { sweepRetention } from '../../../src/host/mail/retention.ts';
import { sendMail } from '../../../src/host/mail/send.ts';
import { listOutbox } from '../../../src/host/outbox/outbox-list.ts';
import { afterAttempt } from '../../../src/host/outbox/outbox.ts';
import type { ClockGuard } from '../../../src/lib/clock-guard.ts';
import { DAY_MS, HOUR_MS } from '../../../src/protocol/limits.ts';
import { accepted, addPeer, contextOf, idOf } from '../../support/mail-context.ts';
import { ManualClock } from '../../support/manual-time.ts';
import type { TestContext } from '../../support/test-context.ts';

const DECADES_MS = 56 * 365 * DAY_MS;
const JUMPS = [HOUR_MS, 30 * DAY_MS, DECADES_MS, -HOUR_MS, -DECADES_MS];

interface Run {
  context: HostContext;
  guard: ClockGuard;
}

/** A run of the daemon on this store, as far as its clock goes. */
async function runOf(base: TestContext, clock: ManualClock): Promise<Run> {
  const { store } = base;
  const guard = await openClock(store, () => undefined, clock);
  const context = createHostContext(store, base.identity(), RETRY_TIMING, () => undefined, guard);
  await noteClock(context, guard);
  return { context, guard };
}

async function sendOne(base: TestContext, { context }: Run): Promise<string> {
  const message = { to: ['bert@there'], subject: 'Hello', body: 'x', idempotency_key: 'k1' };
  return accepted(await sendMail(context, await idOf(base, 'anna'), message)).message_id;
}

/** Returns what an hour of trying makes of the outbox. */
async function tryAll({ context }: Run): Promise<unknown> {
  const { rows } = await listOutbox(context, { show: 'all' });
  await context.store.transact((tx) => {
    for (const { row } of rows) afterAttempt(tx, context, row, { type: 'time-passed' });
  });
  const after = await listOutbox(context, { show: 'all' });
  return after.rows.map(({ state, alerted_at: at }) => [state, at && timeMsOf(at)]);
}

describe.each(['while it runs', 'between two runs'])('a clock that jumps %s', (when) => {
  test.each(JUMPS)('by %d ms ends no deadline and forgets nothing', async (jumpMs) => {
    const base = await contextOf(['anna']);
    await addPeer(base, 'there', [{ name: 'bert', roles: [] }]);
    const clock = new ManualClock();
    clock.wallMs += DECADES_MS;
    let run = await runOf(base, clock);
    const id = await sendOne(base, run);
    clock.move(HOUR_MS);
    await noteClock(run.context, run.guard);
    clock.wallMs += jumpMs;
    if (when === 'between two runs') run = await runOf(base, clock);
    else await noteClock(run.context, run.guard);
    const nextAt = (await listOutbox(run.context, {})).rows[0]?.next_at;
    expect(timeMsOf(nextAt ?? '')).toBeLessThanOrEqual(clock.nowMs());
    expect(await tryAll(run)).toEqual([['pending', null]]);
    expect(await sweepRetention(run.context, 2 * DAY_MS)).toEqual({ entries: 0, sent: 0, idempotencyKeys: 0 });
    expect(await sendOne(base, run)).toBe(id);
    expect((await listOutbox(run.context, {})).rows).toHaveLength(1);
    // And the deadline holds. A clock that showed a time twice makes it late by no more than that.
    clock.move(3 * DAY_MS);
    expect(await tryAll(run)).toEqual([['pending', clock.nowMs()]]);
  });
});

test('what passes between two runs counts, and what is longer than a daemon stands still does not', async () => {
  const base = await contextOf(['anna']);
  const clock = new ManualClock();
  const first = await runOf(base, clock);
  const dated = first.context.nowMs();
  clock.wallMs += 8 * HOUR_MS;
  const second = await runOf(base, clock);
  expect(second.context.nowMs() - second.context.momentMs(dated)).toBe(8 * HOUR_MS);
  clock.wallMs += AWAY_MAX_MS + 1;
  const third = await runOf(base, clock);
  expect(third.context.nowMs() - third.context.momentMs(dated)).toBe(8 * HOUR_MS);
});

test('every jump since the last note moves what an accepted row waits for; a second note nothing', async () => {
  const base = await contextOf(['anna']);
  await addPeer(base, 'there', [{ name: 'bert', roles: [] }]);
  const clock = new ManualClock();
  const run = await runOf(base, clock);
  await sendOne(base, run);
  const dueAtMs = async (): Promise<number> => timeMsOf((await listOutbox(run.context, {})).rows[0]?.next_at ?? '');
  const rowId = (await listOutbox(run.context, {})).rows[0]?.row ?? 0;
  await run.context.store.transact((tx) => void afterAttempt(tx, run.context, rowId, { type: 'lan-accepted' }));
  const before = await dueAtMs();
  for (const jumpMs of [HOUR_MS, 2 * HOUR_MS]) {
    clock.wallMs += jumpMs;
    run.guard.nowMs();
  }
  for (let times = 0; times < 2; times++) {
    await noteClock(run.context, run.guard);
    expect(await dueAtMs()).toBe(before + 3 * HOUR_MS);
  }
  clock.wallMs -= 3 * HOUR_MS;
  await noteClock(run.context, run.guard);
  expect(await dueAtMs()).toBe(before);
});
