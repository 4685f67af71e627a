/** One queue whose rows contradict themselves: what becomes of it, and that everybody else's mail goes on. */
import { describe, expect, test } from 'vitest';
import { LostItems } from '../../../../src/relay/engine/lost-items.ts';
import { PREFIX, firstKeyOf, prefixRange, queueKey } from '../../../../src/relay/store/keys.ts';
import { rebuilt } from '../../../support/audits.ts';
import { accountEnrolOf, pushOf } from '../../../support/commands.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { rotated } from '../../../support/events.ts';
import { commitUndecided, withoutCharge } from '../../../support/faulty-history.ts';
import { alice, bob, carol, dave } from '../../../support/hosts.ts';
import { expectReplayed } from '../../../support/replay.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { type TestRelay, enrolledTestRelay, outcomeOf } from '../../../support/test-relay.ts';
import { BrokenQueue } from '../../../../src/relay/core/decision.ts';
import { breakRow, loseWire } from '../../../support/stored-items.ts';

const RETENTION_MS = 14 * 86_400_000;
const REFUSED = { type: 'Refusal', code: 'UNAVAILABLE' };

/** Mail of alice for bob and carol in one entry, for carol alone in a later one; bob's account was never charged. */
async function relayWithBrokenQueue(): Promise<TestRelay> {
  const relay = await enrolledTestRelay(alice, bob, carol);
  await relay.push(pushOf(alice, 'm1', [[bob, 'one']]), pushOf(alice, 'm2', [[carol, 'two']]));
  relay.clock.move(1000);
  await relay.pushOne(pushOf(alice, 'm3', [[carol, 'three']]));
  await withoutCharge(relay, bob);
  return relay;
}

async function expectUnharmed(relay: TestRelay): Promise<void> {
  expect(relay.failures).toEqual([]);
  await expectReplayed(relay.store);
}

describe('a queue that would be released of more than is charged', () => {
  test('an ack of it is refused, its mail is handed over, and others are served in the same batch', async () => {
    const relay = await relayWithBrokenQueue();
    const [acked, other, otherAck] = await Promise.all([
      relay.ack(bob, NOON_MS),
      relay.pushOne(pushOf(alice, 'm4', [[carol, 'four']])),
      relay.ack(carol, NOON_MS),
    ]);
    expect(acked).toMatchObject(REFUSED);
    expect(other.verdict).toBe('accepted');
    expect(otherAck).toMatchObject({ type: 'Acked', deleted: 1 });
    expect(await relay.wires(bob)).toEqual(['one']);
    expect((await relay.pushOne(pushOf(alice, 'm5', [[bob, 'five']]))).verdict).toBe('accepted');
    expect(await relay.wires(bob)).toEqual(['one', 'five']);
    expect(relay.engine.brokenQueues).toEqual([{ targetPubkey: bob.key, reason: 'usage never falls below zero' }]);
    await expectUnharmed(relay);
  });

  test('a sweep leaves it, expires everything else, and comes by it again', async () => {
    const relay = await relayWithBrokenQueue();
    relay.clock.move(RETENTION_MS);
    for (let sweeps = 0; sweeps < 2; sweeps++) {
      await relay.sweep();
      expect(await relay.wires(bob)).toEqual(['one']);
      expect(await relay.queue(carol)).toEqual([]);
    }
    // A notice for each item of carol's, and none yet for bob's.
    expect(await relay.queue(alice)).toHaveLength(2);
    expect(relay.engine.brokenQueues.map(({ targetPubkey }) => targetPubkey)).toEqual([bob.key]);
    await expectUnharmed(relay);
  });

  test('an enrolment that would charge another account is refused and changes nothing', async () => {
    const relay = await relayWithBrokenQueue();
    const { lastLsn } = relay.store;
    // Its own account is to be released of what it was never charged for.
    await expect(relay.enrol(accountEnrolOf(bob, 'umbrella'))).rejects.toBeInstanceOf(BrokenQueue);
    expect(relay.store.lastLsn).toBe(lastLsn);
    expect(await relay.wires(bob)).toEqual(['one']);
    await expectUnharmed(relay);
  });

  test('what it lost stays: a pull of it is refused, and a walk over all queues goes on', async () => {
    const relay = await relayWithBrokenQueue();
    const told: number[] = [];
    const lost = new LostItems({
      engine: relay.engine,
      clock: { nowMs: () => relay.clock.nowMs, monotonicMs: () => 0 },
      newEpoch: () => epochNumbered(9),
      onLost: (items) => told.push(items),
      onUnreadable: () => undefined,
    });
    const rows = [...(await relay.queue(bob)), ...(await relay.queue(carol))];
    await expect(lost.report(rows.slice(0, 1), 'pull')).rejects.toBeInstanceOf(BrokenQueue);
    expect(await lost.report(rows, 'scrub')).toBe(2);
    expect(told).toEqual([2]);
    expect(await relay.queue(bob)).toHaveLength(1);
    expect(await relay.queue(carol)).toEqual([]);
  });

  test('a push that would repair a lost item of it is rejected, and the rest of the request is not', async () => {
    const relay = await relayWithBrokenQueue();
    await relay.altered((level) => loseWire(level, bob.key, NOON_MS));
    const outcomes = await relay.push(
      pushOf(alice, 'm1', [[bob, 'one']]),
      pushOf(alice, 'm6', [[bob, 'six']]),
      pushOf(alice, 'm7', [[carol, 'seven']]),
    );
    const verdicts = outcomes.map((outcome) => outcomeOf(outcome).verdict);
    expect(verdicts).toEqual(['rejected:target unavailable', 'accepted', 'accepted']);
    await expectUnharmed(relay);
  });
});

describe('rows that cannot be read', () => {
  test.each<[string, Buffer]>([
    ['of the queue', queueKey(bob.key, NOON_MS)],
    ['of its share', prefixRange(PREFIX.share).gte],
  ])('%s keep its items from expiring until the rows are made anew, and no others', async (_what, key) => {
    const relay = await enrolledTestRelay(alice, bob, carol);
    await relay.push(pushOf(alice, 'm1', [[bob, 'one']]), pushOf(alice, 'm2', [[carol, 'two']]));
    await relay.altered(async (level) => {
      const [found] = key.length > 1 ? [key] : (await level.keys(prefixRange(PREFIX.share)).all()).filter(isOfBob);
      await level.put(found ?? key, Buffer.from('no row'));
    });
    relay.clock.move(RETENTION_MS);
    await relay.sweep();
    expect(await relay.queue(carol)).toEqual([]);
    expect(relay.engine.brokenQueues.map(({ targetPubkey }) => targetPubkey)).toEqual([bob.key]);
    expect(relay.failures).toEqual([]);
    await relay.close();
    await rebuilt(relay.folder);
    await relay.open();
    await relay.sweep();
    expect(await relay.queue(bob)).toEqual([]);
    expect(relay.engine.brokenQueues).toEqual([]);
  });

  test('of a sender that cannot be told keep its own items from expiring, and no others', async () => {
    const relay = await enrolledTestRelay(alice, bob, carol);
    await relay.push(
      pushOf(carol, 'for alice', [[alice, 'x']]),
      pushOf(alice, 'of alice', [[bob, 'one']]),
      pushOf(carol, 'of carol', [[bob, 'two']]),
    );
    await relay.altered((level) => breakRow(level, alice.key, NOON_MS));
    // What waits for alice cannot be brought over to the key that it goes on under: nothing can be added there.
    await commitUndecided(relay, rotated(alice, dave, { moved: 1, items: 1, bytes: 1 }));
    relay.clock.move(RETENTION_MS);
    await relay.sweep();
    expect(await relay.wires(bob)).toEqual(['one']);
    expect((await relay.queue(carol)).map(({ itemId }) => itemId)).toEqual([`expired:of carol:${bob.key}`]);
    expect(relay.failures).toEqual([]);
  });
});

function isOfBob(key: Buffer): boolean {
  return firstKeyOf(key) === bob.key;
}
