import { describe, expect, test } from 'vitest';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import type { HostName } from '../../../../src/protocol/names.ts';
import { PREFIX, seqOf } from '../../../../src/relay/store/keys.ts';
import { accountEnrolOf, pushOf, reportLostOf, rotateOf } from '../../../support/commands.ts';
import { collected } from '../../../support/collected.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { alice, bob, carol, dave } from '../../../support/hosts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { type TestRelay, enrolledTestRelay } from '../../../support/test-relay.ts';
import { alterWire, itemKeys, loseRow, loseWire } from '../../../support/stored-items.ts';

const FIRST = NOON_MS;
const SECOND = NOON_MS + 1;

/** Two items of alice's wait for bob; the first is damaged so behind the relay's back. */
async function relayThatLost(lose: typeof loseWire): Promise<TestRelay> {
  const relay = await enrolledTestRelay(bob);
  await relay.push(pushOf(alice, 'm1', [[bob, 'first']]), pushOf(alice, 'm2', [[bob, 'second']]));
  await relay.altered((level) => lose(level, bob.key, FIRST));
  return relay;
}

describe.each([
  ['payload', loseWire],
  ['queue row', loseRow],
])('an item whose %s is gone', (_what, lose) => {
  test('is repaired by a duplicate push: lost, a new epoch, accepted anew', async () => {
    const relay = await relayThatLost(lose);
    const logEnd = relay.store.lastLsn;
    relay.clock.move(1000);
    const again = await relay.pushOne(pushOf(alice, 'm1', [[bob, 'first']]));
    expect(again).toEqual({ verdict: 'accepted', seqs: [NOON_MS + 1000] });
    expect(relay.engine.epoch).toBe(epochNumbered(99));
    const events = await collected(relay.store.read(logEnd + 1));
    expect(events.map(({ event }) => event.type)).toEqual(['ItemLost', 'EpochRotated', 'ItemAccepted']);
    expect(await relay.wires(bob)).toEqual(['second', 'first']);
    expect(relay.engine.head(bob.key)).toMatchObject({ queueItems: 2, queueBytes: 11 });
  });

  test('leaves quotas and acks in order afterwards', async () => {
    const relay = await relayThatLost(lose);
    relay.clock.move(1000);
    await relay.pushOne(pushOf(alice, 'm1', [[bob, 'first']]));
    expect(await relay.ack(bob, NOON_MS + 1000)).toMatchObject({ deleted: 2 });
    expect(relay.engine.head(bob.key)).toMatchObject({ queueItems: 0, queueBytes: 0 });
    expect(relay.store.get('share', bob.key + alice.key)).toBeUndefined();
    expect(relay.store.get('sender', alice.key)).toEqual({ dedupRows: 2 });
  });

  test('is repaired once: a second push of it at the same time gets a duplicate', async () => {
    const relay = await relayThatLost(lose);
    relay.clock.move(1000);
    const pushes = await Promise.all([1, 2, 3].map(() => relay.pushOne(pushOf(alice, 'm1', [[bob, 'first']]))));
    expect(pushes.map(({ verdict }) => verdict)).toEqual(['accepted', 'duplicate', 'duplicate']);
    expect(pushes.map(({ seqs }) => seqs)).toEqual([[NOON_MS + 1000], [NOON_MS + 1000], [NOON_MS + 1000]]);
  });

  test('leaves no payload of its old place behind', async () => {
    const relay = await relayThatLost(lose);
    relay.clock.move(1000);
    await relay.pushOne(pushOf(alice, 'm1', [[bob, 'first']]));
    const left = await relay.atRest((level) => itemKeys(level, PREFIX.payload));
    expect(left.map(seqOf)).toEqual([SECOND, NOON_MS + 1000]);
    await relay.open();
  });
});

describe('a reported item', () => {
  test('leaves queue, dedup, usage and payload, and the sender pushes it again', async () => {
    const relay = await enrolledTestRelay(bob);
    await relay.push(pushOf(alice, 'm1', [[bob, 'first']]), pushOf(alice, 'm2', [[bob, 'second']]));
    await relay.engine.lost.report(reportLostOf(bob, FIRST));
    expect(relay.engine.epoch).toBe(epochNumbered(98));
    expect(await relay.wires(bob)).toEqual(['second']);
    expect(relay.engine.head(bob.key)).toMatchObject({ queueItems: 1, queueBytes: 6 });
    expect(relay.store.get('share', bob.key + alice.key)).toEqual({ items: 1, bytes: 6 });
    const row = { targetPubkey: bob.key, seq: FIRST, payloadTarget: bob.key, payloadSeq: FIRST };
    expect(relay.store.hasPayload({ ...relay.store.get('queue', bob.key + String(SECOND))!, ...row })).toBe(false);
    relay.clock.move(1000);
    const again = await relay.pushOne(pushOf(alice, 'm1', [[bob, 'first, sealed anew']]));
    expect(again).toEqual({ verdict: 'accepted', seqs: [NOON_MS + 1000] });
  });

  test('is dropped from the index in memory, so that a later ack counts what is there', async () => {
    const relay = await enrolledTestRelay(bob);
    await relay.push(pushOf(alice, 'm1', [[bob, 'first']]), pushOf(alice, 'm2', [[bob, 'second']]));
    await relay.ack(bob, 0);
    await relay.engine.lost.report(reportLostOf(bob, SECOND));
    expect(await relay.ack(bob, SECOND)).toMatchObject({ deleted: 1 });
    expect(relay.engine.head(bob.key)).toMatchObject({ queueItems: 0, queueBytes: 0 });
  });

  test('that was acked meanwhile is no loss and keeps the epoch', async () => {
    const relay = await enrolledTestRelay(bob, carol);
    await relay.pushOne(pushOf(alice, 'm1', [[bob, 'first']]));
    await Promise.all([relay.ack(bob, FIRST), relay.engine.lost.report(reportLostOf(bob, FIRST))]);
    await relay.engine.lost.report(reportLostOf(bob, FIRST));
    await relay.engine.lost.report(reportLostOf(carol, FIRST));
    expect(relay.engine.head(bob.key)).toMatchObject({ queueItems: 0 });
  });

  test('keeps the hash of what was accepted; altered bytes are not served', async () => {
    const relay = await enrolledTestRelay(bob);
    await relay.pushOne(pushOf(alice, 'm1', [[bob, 'first']]));
    await relay.altered((level) => alterWire(level, bob.key, FIRST, Buffer.from('fIrst')));
    const [row] = await relay.queue(bob);
    expect(row?.wireHash).toBe(sha256Hex('first'));
    expect(await relay.wires(bob)).toEqual([undefined]);
  });
});

test('a row lost before a rotation stays in the account that the host proves later, until a new push', async () => {
  const relay = await relayThatLost(loseRow);
  await relay.enrolAll(alice);
  await relay.rotate(rotateOf(bob, carol));
  await relay.enrol(accountEnrolOf(carol, 'acme'));
  expect(relay.store.get('account', 'acme')).toEqual({ items: 2, bytes: 11 });
  await relay.enrol(accountEnrolOf(dave, 'acme', { hostName: 'elsewhere' as HostName }));
  await relay.rotate(rotateOf(carol, dave));
  expect(relay.store.get('account', 'acme')).toEqual({ items: 2, bytes: 11 });
  expect((await relay.pushOne(pushOf(alice, 'm1', [[dave, 'first']]))).verdict).toBe('accepted');
  expect(relay.store.get('account', 'acme')).toEqual({ items: 2, bytes: 11 });
  expect(relay.store.get('target', bob.key)).toMatchObject({ queueItems: 0, queueBytes: 0 });
  await relay.ack(dave, relay.engine.head(dave.key).headSeq);
  expect(relay.store.get('account', 'acme')).toBeUndefined();
});

test('a row lost before two rotations is charged when the second brings an account', async () => {
  const relay = await relayThatLost(loseRow);
  await relay.enrolAll(alice);
  await relay.enrol(accountEnrolOf(dave, 'acme'));
  await relay.rotate(rotateOf(bob, carol));
  await relay.rotate(rotateOf(carol, dave));
  expect(relay.store.get('account', 'acme')).toEqual({ items: 2, bytes: 11 });
  await relay.ack(dave, relay.engine.head(dave.key).headSeq);
  expect((await relay.pushOne(pushOf(alice, 'm1', [[dave, 'first']]))).verdict).toBe('accepted');
  expect(relay.store.get('account', 'acme')).toEqual({ items: 1, bytes: 5 });
});
