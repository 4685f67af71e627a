import { expect, test } from 'vitest';
import type { Address, MessageRef, OutboxRow } from '../../../../src/host/core/rows.ts';
import type { RelayRow } from '../../../../src/host/core/relay-rows.ts';
import { addOutboxRow, afterAttempt } from '../../../../src/host/outbox/outbox.ts';
import type { ItemId } from '../../../../src/protocol/names.ts';
import { addPeer } from '../../../support/mail-context.ts';
import { acceptance } from '../../../support/outbox-rows.ts';
import {
  type RelayScope,
  addToEnrolment,
  cursorIn,
  endEnrolment,
  enrolmentIn,
  enterEpoch,
  knewKey,
  noteSeenKey,
  noteSendersIat,
  noteSpeaksV2,
  pinRelay,
  positionIn,
  putCursor,
  putEnrolment,
  publishAnew,
  putOwnRelays,
  putPosition,
  rewindPosition,
} from '../../../../src/host/relay/relay-rows.ts';
import { ownRelays, relayRowOf } from '../../../../src/host/outbox/homes.ts';
import { alice, hostNamed, relay } from '../../../support/hosts.ts';
import { type TestContext, testContext } from '../../../support/test-context.ts';

const url = 'https://relay.example';
const another = hostNamed('another-relay').key;
const scope: RelayScope = { relayPubkey: relay.key, epoch: 'FIRST' as never, hostPubkey: alice.key };
const known = {
  checkedAtMs: 0,
  authorizedBy: 'host-key' as const,
  account: null,
  isCrowded: false,
  validUntilMs: null,
  encKey: null,
  senders: null,
};

function pinned(context: TestContext): Promise<RelayRow> {
  return context.store.transact((tx) => {
    const row = { ...pinRelay(tx, context, { url, pubkey: relay.key, proof: null }), epoch: scope.epoch };
    tx.put('relay', [], row);
    return row;
  });
}

test('a key that the former relay showed is not held against the one that the owner set meanwhile', async () => {
  const context = await testContext();
  const asked = await pinned(context);
  await context.store.transact((tx) => {
    pinRelay(tx, context, { url, pubkey: another, proof: null });
    noteSeenKey(tx, context, asked, another);
  });
  expect(await context.store.read((reader) => reader.get('relay'))).toMatchObject({ pubkey: another, seenKey: null });
});

test('an epoch that the relay left is remembered, also when it comes back to it', async () => {
  const context = await testContext();
  await pinned(context);
  const enter = (epoch: string): Promise<boolean> =>
    context.store.transact((tx) => enterEpoch(tx, context, { relayPubkey: relay.key, epoch: epoch as never }));
  for (const epoch of ['SECOND', 'SECOND', 'THIRD', 'SECOND']) await enter(epoch);
  const { left } = (await context.store.read((reader) => reader.get('relayTrust', relay.key)))!;
  expect(left).toEqual(['FIRST', 'SECOND', 'THIRD']);
});

test('what follows an enrolment does not bring back one that ended', async () => {
  const context = await testContext();
  await pinned(context);
  const encKey = { encPub: 'x', at: 1, checkedAtMs: 1 };
  await context.store.transact((tx) => {
    putEnrolment(tx, scope, known);
    addToEnrolment(tx, scope, { ...known, encKey });
  });
  expect(await context.store.read((reader) => enrolmentIn(reader, scope))).toMatchObject({ encKey });
  await context.store.transact((tx) => {
    endEnrolment(tx, scope);
    addToEnrolment(tx, scope, { ...known, encKey });
  });
  expect(await context.store.read((reader) => enrolmentIn(reader, scope))).toBeUndefined();
  // The relay knew the key all the same, for as long as its epoch lasts.
  expect(await context.store.read((reader) => knewKey(reader, scope))).toBe(true);
  await context.store.transact((tx) => enterEpoch(tx, context, { ...scope, epoch: 'SECOND' as never }));
  expect(await context.store.read((reader) => knewKey(reader, scope))).toBe(false);
});

test('receiving host rule 7: a rewind sets received-through to 0, and the host is unknown there', async () => {
  const context = await testContext();
  await pinned(context);
  await context.store.transact(async (tx) => {
    putEnrolment(tx, scope, known);
    putPosition(tx, context, scope, 70);
    expect(positionIn(tx, scope)).toBe(70);
    await rewindPosition(tx, context, scope);
  });
  expect(await context.store.read((reader) => positionIn(reader, scope))).toBe(0);
  expect(await context.store.read((reader) => enrolmentIn(reader, scope))).toBeUndefined();
  // It may have forgotten the key too.
  expect(await context.store.read((reader) => knewKey(reader, scope))).toBe(false);
});

test('receiving host rule 8: in another epoch the position begins at 0, and again when the first returns', async () => {
  const context = await testContext();
  await pinned(context);
  const second = { ...scope, epoch: 'SECOND' as never };
  const enter = (to: RelayScope): Promise<boolean> => context.store.transact((tx) => enterEpoch(tx, context, to));
  await context.store.transact((tx) => putPosition(tx, context, scope, 70));
  expect(await enter(scope)).toBe(false);
  expect(await context.store.read((reader) => positionIn(reader, scope))).toBe(70);
  expect(await enter(second)).toBe(true);
  expect(await context.store.read((reader) => positionIn(reader, second))).toBe(0);
  await context.store.transact((tx) => putPosition(tx, context, second, 80));
  expect(await enter(scope)).toBe(true);
  expect(await context.store.read((reader) => positionIn(reader, scope))).toBe(0);
  // What was still under way for the former epoch changes nothing.
  await context.store.transact((tx) => putPosition(tx, context, second, 90));
  expect(await context.store.read((reader) => positionIn(reader, second))).toBe(0);
});

function relayOf(context: TestContext): Promise<RelayRow | undefined> {
  return context.store.read((reader) => reader.get('relay'));
}

test('a relay that is set again under its key keeps since when, its epoch and the iat of its list', async () => {
  const context = await testContext();
  const first = await pinned(context);
  context.clock.nowMs += 1000;
  await context.store.transact((tx) => {
    noteSendersIat(tx, relay.key, 70);
    noteSeenKey(tx, context, { url, pubkey: relay.key }, another);
  });
  await context.store.transact((tx) => void pinRelay(tx, context, { url: `${url}/b`, pubkey: relay.key, proof: null }));
  expect(await relayOf(context)).toEqual({
    url: `${url}/b`,
    pubkey: relay.key,
    proof: null,
    pinnedAtMs: first.pinnedAtMs,
    seenKey: null,
    epoch: scope.epoch,
    sendersIatMs: 70,
  });
});

test('a relay of another key is in no epoch yet, and takes no list that is older than the last', async () => {
  const context = await testContext();
  expect((await pinned(context)).sendersIatMs).toBe(0);
  await context.store.transact((tx) => noteSendersIat(tx, relay.key, 70));
  context.clock.nowMs += 1000;
  await context.store.transact((tx) => void pinRelay(tx, context, { url, pubkey: another, proof: null }));
  expect(await relayOf(context)).toMatchObject({ pinnedAtMs: context.nowMs(), epoch: null, sendersIatMs: 70 });
});

test('a relay that is set and one that is unset are told to the daemon, after the commit', async () => {
  const context = await testContext();
  const told = { type: 'relay-changed' };
  await pinned(context);
  expect(context.told).toEqual([told]);
  await context.store.transact((tx) => putOwnRelays(tx, context, []));
  expect(context.told).toEqual([told, told]);
});

test('nothing is kept of a relay that is unset', async () => {
  const context = await testContext();
  await pinned(context);
  await context.store.transact((tx) => {
    putEnrolment(tx, scope, known);
    putPosition(tx, context, scope, 70);
  });
  await context.store.transact((tx) => putOwnRelays(tx, context, []));
  expect(await relayOf(context)).toBeUndefined();
  expect(await context.store.read((reader) => enrolmentIn(reader, scope))).toBeUndefined();
  expect(await context.store.read((reader) => positionIn(reader, scope))).toBe(0);
});

test('a relay of version 1 that speaks v2 is told everything again, and its position stays', async () => {
  const context = await testContext();
  const v1 = { ...(await pinned(context)), isV1: true as const };
  const ofAnother = { ...scope, relayPubkey: another };
  await context.store.transact(async (tx) => {
    tx.put('relay', [], v1);
    putEnrolment(tx, scope, known);
    tx.put('relayEnrolment', [another, scope.epoch, alice.key], known);
    putPosition(tx, context, scope, 70);
    await noteSpeaksV2(tx, another);
  });
  expect(await relayOf(context)).toHaveProperty('isV1', true);
  await context.store.transact((tx) => noteSpeaksV2(tx, relay.key));
  expect(await relayOf(context)).not.toHaveProperty('isV1');
  expect(await context.store.read((reader) => enrolmentIn(reader, scope))).toBeUndefined();
  expect(await context.store.read((reader) => enrolmentIn(reader, ofAnother))).toEqual(known);
  expect(await context.store.read((reader) => positionIn(reader, scope))).toBe(70);
  // It is not the first time any more: what it was told since stays known.
  await context.store.transact(async (tx) => {
    putEnrolment(tx, scope, known);
    await noteSpeaksV2(tx, relay.key);
  });
  expect(await context.store.read((reader) => enrolmentIn(reader, scope))).toEqual(known);
});

test('relay key pinning: the first time of another key is kept; one asked elsewhere shows nothing', async () => {
  const context = await testContext();
  const { pubkey } = await pinned(context);
  const note = (asked: { url: string; pubkey: typeof pubkey }, key: typeof pubkey): Promise<void> =>
    context.store.transact((tx) => noteSeenKey(tx, context, asked, key));
  await note({ url: 'https://former.example', pubkey }, another);
  await note({ url, pubkey: hostNamed('former-relay').key }, another);
  expect(await relayOf(context)).toMatchObject({ seenKey: null });
  const atMs = context.nowMs();
  await note({ url, pubkey }, another);
  context.clock.nowMs += 1000;
  await note({ url, pubkey }, another);
  expect(await relayOf(context)).toMatchObject({ seenKey: { pubkey: another, atMs } });
  const third = hostNamed('third-relay').key;
  await note({ url, pubkey }, third);
  expect(await relayOf(context)).toMatchObject({ seenKey: { pubkey: third, atMs: atMs + 1000 } });
});

test('sender allowlist: the iat of a list is never noted lower, nor for another relay', async () => {
  const context = await testContext();
  await pinned(context);
  const note = (key: typeof another, iatMs: number): Promise<void> =>
    context.store.transact((tx) => noteSendersIat(tx, key, iatMs));
  await note(relay.key, 70);
  await note(relay.key, 69);
  await note(another, 90);
  expect(await relayOf(context)).toMatchObject({ sendersIatMs: 70 });
  await note(relay.key, 71);
  expect(await relayOf(context)).toMatchObject({ sendersIatMs: 71 });
});

test('in a new epoch what was known of others goes too, and another relay changes no epoch', async () => {
  const context = await testContext();
  await pinned(context);
  const second = { ...scope, epoch: 'SECOND' as never };
  const ofAnother = { ...second, relayPubkey: another };
  await context.store.transact((tx) => {
    putEnrolment(tx, scope, known);
    tx.put('relayEnrolment', [another, second.epoch, alice.key], known);
    tx.put('relayPosition', [another, second.epoch, alice.key], { receivedThrough: 3, atMs: 0 });
  });
  expect(await context.store.transact((tx) => enterEpoch(tx, context, ofAnother))).toBe(false);
  expect(await relayOf(context)).toMatchObject({ epoch: scope.epoch });
  expect(await context.store.transact((tx) => enterEpoch(tx, context, second))).toBe(true);
  expect(await relayOf(context)).toMatchObject({ epoch: second.epoch });
  expect(await context.store.read((reader) => enrolmentIn(reader, scope))).toBeUndefined();
  expect(await context.store.read((reader) => enrolmentIn(reader, ofAnother))).toBeUndefined();
  expect(await context.store.read((reader) => positionIn(reader, ofAnother))).toBe(0);
});

test('nothing is noted of a relay or an epoch that is not the one in use', async () => {
  const context = await testContext();
  await pinned(context);
  const others = [
    { ...scope, relayPubkey: another },
    { ...scope, epoch: 'SECOND' as never },
  ];
  await context.store.transact((tx) => {
    for (const other of others) {
      putEnrolment(tx, other, known);
      putPosition(tx, context, other, 70);
      putCursor(tx, context, other, 'c');
    }
  });
  for (const other of others) {
    expect(await context.store.read((reader) => enrolmentIn(reader, other))).toBeUndefined();
    expect(await context.store.read((reader) => positionIn(reader, other))).toBe(0);
    expect(await context.store.read((reader) => cursorIn(reader, other))).toBeNull();
  }
});

test('the cursor of a relay of version 1 goes with its position', async () => {
  const context = await testContext();
  await pinned(context);
  expect(await context.store.read((reader) => cursorIn(reader, scope))).toBeNull();
  await context.store.transact((tx) => putCursor(tx, context, scope, 'c1'));
  expect(await context.store.read((reader) => cursorIn(reader, scope))).toBe('c1');
  expect(await context.store.read((reader) => positionIn(reader, scope))).toBe(0);
  await context.store.transact((tx) => rewindPosition(tx, context, scope));
  expect(await context.store.read((reader) => cursorIn(reader, scope))).toBeNull();
});

test('without a relay nothing is noted of one', async () => {
  const context = await testContext();
  await context.store.transact(async (tx) => {
    noteSeenKey(tx, context, { url, pubkey: relay.key }, another);
    noteSendersIat(tx, relay.key, 70);
    await noteSpeaksV2(tx, relay.key);
    expect(await enterEpoch(tx, context, scope)).toBe(false);
    putPosition(tx, context, scope, 70);
  });
  expect(await relayOf(context)).toBeUndefined();
  expect(await context.store.read((reader) => positionIn(reader, scope))).toBe(0);
});

test('a relay that enters an epoch or is unset changes nothing of another one', async () => {
  const context = await testContext();
  const first = await pinned(context);
  const ofAnother = { ...scope, relayPubkey: another, epoch: 'ITS-FIRST' as never };
  const further = { ...first, pubkey: another, epoch: ofAnother.epoch, rank: 1, role: 'guest' as const };
  await context.store.transact((tx) => {
    tx.put('relayMore', [another], further);
    for (const one of [scope, ofAnother]) {
      putEnrolment(tx, one, known);
      putPosition(tx, context, one, 70);
    }
  });
  const positions = (): Promise<number[]> =>
    context.store.read((reader) => [scope, ofAnother].map((one) => positionIn(reader, one)));
  expect(await positions()).toEqual([70, 70]);
  const enter = (to: RelayScope): Promise<boolean> => context.store.transact((tx) => enterEpoch(tx, context, to));
  expect(await enter({ ...ofAnother, epoch: 'ITS-SECOND' as never })).toBe(true);
  expect(await positions()).toEqual([70, 0]);
  const second = { ...ofAnother, epoch: 'ITS-SECOND' as never };
  await context.store.transact((tx) => {
    putEnrolment(tx, second, known);
    noteSeenKey(tx, context, further, alice.key);
    noteSendersIat(tx, another, 90);
  });
  expect(await enter({ ...scope, epoch: 'SECOND' as never })).toBe(true);
  expect(await context.store.read((reader) => enrolmentIn(reader, second))).toEqual(known);
  expect(await relayOf(context)).toMatchObject({ epoch: 'SECOND', seenKey: null, sendersIatMs: 0 });
  const others = (await context.store.read(ownRelays)).filter(({ row }) => row.pubkey === another);
  await context.store.transact((tx) => putOwnRelays(tx, context, others));
  expect(await context.store.read((reader) => enrolmentIn(reader, second))).toEqual(known);
  expect(await context.store.read((reader) => reader.get('relayMore', another))).toEqual({
    ...further,
    epoch: 'ITS-SECOND',
    seenKey: { pubkey: alice.key, atMs: context.nowMs() },
    sendersIatMs: 90,
  });
});

test('the relays of this host stand in the order of their owner, and each is found by its key', async () => {
  const context = await testContext();
  const third = hostNamed('third-relay').key;
  expect(await context.store.read(ownRelays)).toEqual([]);
  const row = await pinned(context);
  await context.store.transact((tx) => {
    tx.put('relayMore', [another], { ...row, pubkey: another, rank: 2, role: 'guest' });
    tx.put('relayMore', [third], { ...row, pubkey: third, rank: 1, role: 'home' });
  });
  expect(await context.store.read(ownRelays)).toEqual([
    { row, rank: 0, role: 'home' },
    { row: { ...row, pubkey: third }, rank: 1, role: 'home' },
    { row: { ...row, pubkey: another }, rank: 2, role: 'guest' },
  ]);
  const found = (key: typeof another) => context.store.read((reader) => relayRowOf(reader, key)?.pubkey);
  expect(await Promise.all([relay.key, another, third, alice.key].map(found))).toEqual([
    relay.key,
    another,
    third,
    undefined,
  ]);
});

/** A row for a paired host that the relay took; answers how to read it. */
async function takenRow(context: TestContext): Promise<() => Promise<OutboxRow | undefined>> {
  const { peerId } = await addPeer(context, 'there');
  const taken = acceptance(context.nowMs(), scope.epoch);
  const rowId = await context.store.transact((tx) => {
    const row = addOutboxRow(tx, context, {
      kind: 'envelope',
      itemId: 'm1' as ItemId,
      ref: 'm1' as MessageRef,
      peerId,
      recipients: ['bob@there' as Address],
      wire: Buffer.from('x'),
    });
    afterAttempt(tx, context, row.rowId, { type: 'relay-pushing', relayPubkey: relay.key, isOneOfMany: false });
    afterAttempt(tx, context, row.rowId, { type: 'relay-accepted', acceptance: taken, isVerified: true });
    return row.rowId;
  });
  return () => context.store.read((reader) => reader.get('outbox', rowId));
}

test('every open row of every paired host takes note of a new epoch and of a rewind', async () => {
  const context = await testContext();
  await pinned(context);
  const row = await takenRow(context);
  expect((await row())?.nextAtMs).toBeGreaterThan(context.nowMs());
  await context.store.transact((tx) => enterEpoch(tx, context, { ...scope, epoch: 'SECOND' as never }));
  expect(await row()).toMatchObject({ state: 'relay-accepted', nextAtMs: context.nowMs() });
  await context.store.transact((tx) => rewindPosition(tx, context, scope));
  expect((await row())?.acceptance).toMatchObject({ mayBeLost: true });
});

test('rows note that one of several relays was removed, and nothing of an only one', async () => {
  const context = await testContext();
  const pinnedRow = await pinned(context);
  const row = await takenRow(context);
  const before = await row();
  const own = { row: pinnedRow, rank: 0, role: 'home' as const };
  const further = { row: { ...pinnedRow, pubkey: another }, role: 'home' as const };
  await context.store.transact((tx) => putOwnRelays(tx, context, []));
  expect(await row()).toEqual(before);
  await context.store.transact((tx) => putOwnRelays(tx, context, [own, further]));
  expect(await row()).toEqual(before);
  await context.store.transact((tx) => putOwnRelays(tx, context, [further]));
  expect(await row()).toMatchObject({ nextAtMs: context.nowMs(), copies: [{ state: 'gone' }] });
});

test('a notice of one of several relays before its time is noted in the row of that relay', async () => {
  const context = await testContext();
  const { epoch: _epoch, ...pinnedRow } = await pinned(context);
  await context.store.transact((tx) => {
    for (const pubkey of [relay.key, another])
      tx.put('relayMore', [pubkey], { ...pinnedRow, epoch: null, pubkey, rank: 1, role: 'home' });
    tx.delete('relay', []);
  });
  const row = await takenRow(context);
  const rowId = (await row())?.rowId ?? 0;
  const notice = { type: 'expired', relayPubkey: relay.key, expiredAtMs: context.nowMs() } as const;
  const isOneOfMany = true;
  const noted = (key: typeof another) =>
    context.store.read((reader) => relayRowOf(reader, key)?.wrongNoticeAtMs ?? null);
  await context.store.transact((tx) => {
    afterAttempt(tx, context, rowId, { type: 'relay-pushing', relayPubkey: another, isOneOfMany });
    afterAttempt(tx, context, rowId, notice);
  });
  const sinceMs = context.nowMs();
  expect(await Promise.all([relay.key, another].map(noted))).toEqual([sinceMs, null]);
  // The same notice again, when the queue is read anew, says nothing new.
  context.clock.nowMs += 1000;
  await context.store.transact((tx) => afterAttempt(tx, context, rowId, notice));
  expect(await noted(relay.key)).toBe(sinceMs);
});

test('a relay that is named again gets key and senders again, and its enrolment stays', async () => {
  const context = await testContext();
  await pinned(context);
  const senders = { hash: '0'.repeat(64) as never, count: 1, iat: 1, checkedAtMs: 1 };
  const row = { ...known, validUntilMs: 70, encKey: { encPub: 'k', at: 1, checkedAtMs: 1 }, senders };
  await context.store.transact((tx) => {
    publishAnew(tx, scope);
    putEnrolment(tx, scope, row);
    publishAnew(tx, scope);
  });
  const after = await context.store.read((reader) => enrolmentIn(reader, scope));
  expect(after).toEqual({ ...row, encKey: null, senders: null });
});
