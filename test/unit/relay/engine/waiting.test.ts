/** Tests what waits in all queues together, and the oldest of it, against a count of every row. */
import { describe, expect, test } from 'vitest';
import type { QueueRow } from '../../../../src/relay/core/rows.ts';
import { DAY_MS } from '../../../../src/protocol/limits.ts';
import { pushOf, rotateOf } from '../../../support/commands.ts';
import { type TestHost, alice, bob, carol, hostNamed } from '../../../support/hosts.ts';
import { SeededRandom } from '../../../support/seeded-random.ts';
import { type TestRelay, enrolledTestRelay, openTestRelay } from '../../../support/test-relay.ts';

const HOUR_MS = 3_600_000;

/** Every waiting row of these hosts, read one by one. */
async function everyRow(relay: TestRelay, hosts: readonly TestHost[]): Promise<QueueRow[]> {
  const rows: QueueRow[] = [];
  for (const host of hosts) rows.push(...(await relay.queue(host)));
  return rows;
}

/** Returns what the engine says, and what a count of every row says. */
async function counts(relay: TestRelay, hosts: readonly TestHost[]): Promise<{ said: object; counted: object }> {
  const rows = await everyRow(relay, hosts);
  const mail = rows.filter(({ kind }) => kind !== 'expired');
  const oldest = await relay.engine.oldestWaiting();
  return {
    said: { ...relay.engine.waiting, firstDueMs: oldest?.expiresAtMs, oldestMs: oldest?.acceptedAtMs },
    counted: {
      items: mail.length,
      bytes: mail.reduce((sum, { bytes }) => sum + bytes, 0),
      firstDueMs: rows.map(({ expiresAtMs }) => expiresAtMs).toSorted((a, b) => a - b)[0],
      oldestMs: rows.map(({ acceptedAtMs }) => acceptedAtMs).toSorted((a, b) => a - b)[0],
    },
  };
}

describe('what waits', () => {
  test.each([1, 2])('is what a count of every row says, whatever happened (seed %i)', async (seed) => {
    const random = new SeededRandom(seed);
    const relay = await openTestRelay({ limits: { retention_days: 2 } });
    const hosts = [alice, bob, carol];
    const keys = [...hosts];
    await relay.enrolAll(...hosts);
    for (let step = 0; step < 50; step++) {
      const [from, to] = [random.pick(hosts), random.pick(hosts)];
      const what = random.below(12);
      if (what < 6) {
        await relay.pushOne(pushOf(from, `item-${step}`, [[to, 'w'.repeat(1 + random.below(50))]]));
      } else if (what < 8) {
        const rows = await relay.queue(to);
        const through = random.pick([0, ...rows.map(({ seq }) => seq)]);
        await relay.ack(to, through);
      } else if (what === 8) relay.clock.move(random.below(20) * HOUR_MS);
      else if (what === 9) await relay.expire();
      else if (what === 10) await relay.reopen();
      else {
        const next = hostNamed(`${to.name}-${step}`);
        await relay.rotate(rotateOf(to, next, { iatMs: relay.clock.nowMs }));
        hosts[hosts.indexOf(to)] = next;
        keys.push(next);
      }
      const { said, counted } = await counts(relay, keys);
      expect(said).toEqual(counted);
    }
  });

  test('the oldest is found again when the clock was set back', async () => {
    const relay = await enrolledTestRelay(alice, bob);
    await relay.pushOne(pushOf(alice, 'first', [[bob, 'wire']]));
    expect(await relay.engine.oldestWaiting()).toMatchObject({ itemId: 'first' });
    relay.clock.move(-DAY_MS);
    await relay.pushOne(pushOf(alice, 'second', [[bob, 'wire']]));
    expect(await relay.engine.oldestWaiting()).toMatchObject({ itemId: 'second' });
  });

  test('what is gone is passed over once', async () => {
    const relay = await enrolledTestRelay(alice, bob);
    for (let at = 0; at < 30; at++) await relay.pushOne(pushOf(alice, `item-${at}`, [[bob, 'wire']]));
    const rows = await relay.queue(bob);
    await relay.ack(bob, rows[24]?.seq ?? 0);
    expect(await relay.engine.oldestWaiting()).toMatchObject({ itemId: 'item-25' });
    let asked = 0;
    const isGone = (): boolean => ++asked < 0;
    const pauses = { isOver: false, pause: () => Promise.resolve() };
    expect(await relay.store.oldestItem.find(isGone, pauses)).toMatchObject({ itemId: 'item-25' });
    expect(asked).toBe(1);
  });

  test('two who ask at once share one search, and one that is told to end does', async () => {
    const relay = await enrolledTestRelay(alice, bob);
    await relay.pushOne(pushOf(alice, 'item', [[bob, 'wire']]));
    const [one, other] = await Promise.all([relay.engine.oldestWaiting(), relay.engine.oldestWaiting()]);
    expect(one).toBe(other);
    const pauses = { isOver: true, pause: () => Promise.resolve() };
    expect(await relay.store.oldestItem.find(() => true, pauses, AbortSignal.abort())).toBeUndefined();
  });
});
