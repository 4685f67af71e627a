import { describe, expect, onTestFinished, test } from 'vitest';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import type { LogBatch } from '../../../../src/relay/store/durable-log.ts';
import { AppendGate } from '../../../support/append-gate.ts';
import { enrolOf, hostSeenOf, pushOf, revokeOf, rotateEpochOf, rotateOf } from '../../../support/commands.ts';
import { deferred } from '../../../support/deferred.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { type TestHost, alice, bob, carol } from '../../../support/hosts.ts';
import { settled } from '../../../support/settled.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { enrolledTestRelay, openTestRelay } from '../../../support/test-relay.ts';

test('a page ends at the durable head while a batch is in flight', async () => {
  const relay = await enrolledTestRelay(bob);
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'durable']]));
  const gate = AppendGate.closed(relay.store);
  const push = relay.pushOne(pushOf(alice, 'm2', [[bob, 'in flight']]));
  await gate.arrived(1);
  expect(await relay.engine.page(bob.key, 0, 500)).toMatchObject({
    headSeq: NOON_MS,
    rows: [{ itemId: 'm1' }],
    more: false,
  });
  gate.open();
  await push;
  expect(await relay.engine.page(bob.key, 0, 500)).toMatchObject({
    headSeq: NOON_MS + 1,
    rows: [{ itemId: 'm1' }, { itemId: 'm2' }],
  });
});

test('a page does not show rows that LevelDB holds but has not confirmed', async () => {
  const relay = await enrolledTestRelay(bob);
  // Writes the batch at once and confirms it late, as a slow disk does.
  const append = relay.store.append.bind(relay.store);
  const written = deferred();
  const confirmed = deferred();
  relay.store.append = async (batch: LogBatch) => {
    await append(batch);
    written.resolve();
    await confirmed.promise;
  };
  const push = relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  await written.promise;
  expect(relay.store.get('target', bob.key)?.headSeq).toBe(NOON_MS);
  expect(await relay.engine.page(bob.key, 0, 500)).toMatchObject({ headSeq: 0, rows: [], more: false });
  expect(relay.engine.head(bob.key).headSeq).toBe(0);
  expect(await settled({ push })).toEqual([]);
  confirmed.resolve();
  await push;
  expect(await relay.wires(bob)).toEqual(['x']);
});

test('a hop is held until what it and those before it made of the enrolment is durable', async () => {
  const relay = await enrolledTestRelay(alice, bob);
  const hop = async (host: TestHost): Promise<void> => void (await relay.engine.noteHostSeen(hostSeenOf(host)));
  const gate = new AppendGate(relay.store);
  onTestFinished(() => gate.open());
  gate.close();
  const first = hop(bob);
  await gate.arrived(1);
  // The second finds the mark of the first, in the batch that is being written; that of alice is in the next.
  const second = hop(bob);
  const other = hop(alice);
  const last = hop(alice);
  expect(await settled({ first, second, other, last })).toEqual([]);
  gate.letOnePass();
  await gate.arrived(2);
  expect((await settled({ first, second, again: hop(bob), other, last })).toSorted()).toEqual([
    'again',
    'first',
    'second',
  ]);
  gate.open();
  await Promise.all([other, last]);
  // A key that replaces another inherits the mark.
  gate.close();
  const rotated = relay.rotate(rotateOf(bob, carol));
  await gate.arrived(3);
  const inherited = hop(carol);
  expect(await settled({ rotated, inherited })).toEqual([]);
  gate.open();
  await Promise.all([rotated, inherited]);
});

test('an ack in flight still shows its items, and a durable one does not', async () => {
  const relay = await enrolledTestRelay(bob);
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  await relay.ack(bob, 0);
  const gate = AppendGate.closed(relay.store);
  const ack = relay.ack(bob, NOON_MS);
  await gate.arrived(1);
  expect(await relay.wires(bob)).toEqual(['x']);
  gate.open();
  await ack;
  expect(await relay.queue(bob)).toEqual([]);
});

test('the epoch shown is the durable one', async () => {
  const relay = await openTestRelay();
  const gate = AppendGate.closed(relay.store);
  const rotation = relay.engine.rotateEpoch(rotateEpochOf(epochNumbered(7)));
  await gate.arrived(1);
  expect(relay.engine.epoch).toBe(epochNumbered(1));
  expect((await relay.engine.page(bob.key, 0, 1)).epoch).toBe(epochNumbered(1));
  gate.open();
  expect(await rotation).toEqual({ type: 'EpochBegun', epoch: epochNumbered(7) });
  expect(relay.engine.epoch).toBe(epochNumbered(7));
});

describe('a wait for arrivals', () => {
  test('ends when something durable arrived, and not a moment before', async () => {
    const relay = await enrolledTestRelay(bob, carol);
    const woken: string[] = [];
    relay.engine.onArrival(bob.key, () => woken.push('bob'));
    relay.engine.onArrival(carol.key, () => woken.push('carol'));
    const gate = AppendGate.closed(relay.store);
    const push = relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
    await gate.arrived(1);
    expect(woken).toEqual([]);
    gate.open();
    await push;
    expect(woken).toEqual(['bob']);
    await relay.pushOne(pushOf(alice, 'm2', [[bob, 'x']]));
    expect(woken).toEqual(['bob']);
  });

  test('is not ended by an ack, a duplicate or a stopped wait', async () => {
    const relay = await enrolledTestRelay(bob);
    await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
    const woken: string[] = [];
    relay.engine.onArrival(bob.key, () => woken.push('waiting'));
    const stop = relay.engine.onArrival(bob.key, () => woken.push('stopped'));
    stop();
    await relay.ack(bob, NOON_MS);
    await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
    expect(woken).toEqual([]);
    await relay.pushOne(pushOf(alice, 'm2', [[bob, 'x']]));
    expect(woken).toEqual(['waiting']);
  });

  test('is ended by draining, for everybody', async () => {
    const relay = await openTestRelay();
    const woken: string[] = [];
    for (const host of [alice, bob]) relay.engine.onArrival(host.key, () => woken.push(host.name));
    relay.engine.endWaits();
    expect(woken.toSorted()).toEqual(['alice', 'bob']);
    expect(relay.engine.isDraining).toBe(true);
  });
});

test('hosts and invites are listed when they are durable, and as they were when somebody asked', async () => {
  const relay = await enrolledTestRelay(alice);
  const gate = AppendGate.closed(relay.store);
  const enrolled = relay.enrol(enrolOf(bob));
  const issued = relay.engine.admissions.issueInvite({
    type: 'IssueInvite',
    inviteHash: sha256Hex('token'),
    label: 'for carol',
    expiresAtMs: NOON_MS + 1,
    nowMs: NOON_MS,
  });
  const hosts = relay.engine.enrolments();
  const invites = relay.engine.admissions.openInvites(NOON_MS);
  const revoked = relay.engine.admissions.revokeHost(revokeOf(bob));
  await gate.arrived(1);
  expect(await settled({ hosts, invites })).toEqual([]);
  gate.open();
  await Promise.all([enrolled, issued, revoked]);
  expect(await hosts).toMatchObject([
    { hostPubkey: alice.key, revokedAtMs: null },
    { hostPubkey: bob.key, revokedAtMs: null },
  ]);
  const invite = { inviteHash: sha256Hex('token'), label: 'for carol', issuedAtMs: NOON_MS, expiresAtMs: NOON_MS + 1 };
  expect(await invites).toEqual([invite]);
  expect(await relay.engine.admissions.openInvites(NOON_MS + 1)).toEqual([]);
});
