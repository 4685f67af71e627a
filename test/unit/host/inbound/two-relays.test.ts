/** What comes over two relays of one host, in one store: mail, receipts, notices, and what is kept in quarantine. */
import { describe, expect, test } from 'vitest';
import { listQuarantine, retryQuarantine } from '../../../../src/host/inbound/quarantine.ts';
import { receiveItems } from '../../../../src/host/inbound/receive.ts';
import { afterAttempt, outboxRowOf } from '../../../../src/host/outbox/outbox.ts';
import { relayRowOf } from '../../../../src/host/outbox/homes.ts';
import { advance, issueReceipt } from '../../../../src/host/outbox/outgoing-items.ts';
import { sweepRetention } from '../../../../src/host/mail/retention.ts';
import { QUARANTINE_BOUNDS } from '../../../../src/host/core/quarantine.ts';
import type { IncomingItem } from '../../../../src/host/inbound/verify.ts';
import type { AgentId, MessageRow, OutboxRow } from '../../../../src/host/core/rows.ts';
import { canonicalBytes, acceptReceipt, expiryNotice } from '../../../../src/protocol/documents.ts';
import { DAY_MS, HOUR_MS } from '../../../../src/protocol/limits.ts';
import type { PublicKey } from '../../../../src/protocol/public-key.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { found } from '../../../support/found.ts';
import { hostNamed } from '../../../support/hosts.ts';
import {
  type PairedContext,
  addAgent,
  itemFor,
  lanItem,
  mailOf,
  pairedContexts,
  peerIdOf,
  sendTo,
} from '../../../support/paired-contexts.ts';
import { rowsOf } from '../../../support/stored-rows.ts';

const ONE = hostNamed('relay one').key;
const TWO = hostNamed('relay two').key;
const BERT = 'agent-bert' as AgentId;

/** alice, where anna lives, and bob, where bert and berta live: each has both relays. */
async function pair(): Promise<{ alice: PairedContext; bob: PairedContext }> {
  const { alice, bob } = await pairedContexts();
  await addAgent(alice, 'anna');
  await addAgent(bob, 'bert');
  await addAgent(bob, 'berta');
  for (const host of [alice, bob]) await useRelays(host, [ONE, TWO]);
  return { alice, bob };
}

async function useRelays(host: PairedContext, [first, ...others]: readonly PublicKey[]): Promise<void> {
  const rowOf = (pubkey: PublicKey) => ({
    url: `http://127.0.0.1:1/${pubkey.slice(0, 4)}`,
    pubkey,
    pinnedAtMs: host.clock.nowMs,
    seenKey: null,
    proof: null,
    epoch: epochNumbered(1),
    sendersIatMs: 0,
  });
  await host.store().transact((tx) => {
    if (first) tx.put('relay', [], rowOf(first));
    others.forEach((pubkey, at) => tx.put('relayMore', [pubkey], { ...rowOf(pubkey), rank: at + 1, role: 'home' }));
  });
}

/** The item as a relay brings it that stored it `ageMs` ago by bob's clock, whose own clock is an hour slow. */
function over(pubkey: PublicKey, { nowMs }: { nowMs: number }, item: IncomingItem, ageMs = 0): IncomingItem {
  const relay = { pubkey, epoch: epochNumbered(1), seq: nowMs - HOUR_MS - ageMs };
  return { ...item, via: 'relay', relay, skewMs: HOUR_MS };
}

async function statusesAt(there: PairedContext, ...items: IncomingItem[]): Promise<string[]> {
  return (await receiveItems(there.context, items)).map(({ status }) => status);
}

async function sent(to = ['bert']) {
  const hosts = await pair();
  const message = await sendTo(hosts.alice, hosts.bob, { from: 'anna', to });
  return { ...hosts, message, item: await itemFor(hosts.alice, hosts.bob, message.id) };
}

/** The receipts in bob's outbox, oldest first. */
async function receiptsOf(host: PairedContext): Promise<OutboxRow[]> {
  return (await rowsOf(host.store(), 'outbox', [])).filter(({ kind }) => kind === 'receipt');
}

/** The relay took the row. */
async function taken(host: PairedContext, row: OutboxRow | undefined, relayPubkey: PublicKey): Promise<void> {
  const { rowId, itemId, wireHash } = found(row, 'there is a row to push');
  const [epoch, at] = [epochNumbered(1), host.clock.nowMs];
  const accept = acceptReceipt({
    relay_pubkey: relayPubkey,
    epoch,
    sender_pubkey: host.host.key,
    item_id: itemId,
    targets: [{ host_pubkey: host.host.key, seq: at, wire_hash: wireHash }],
    at,
  });
  const acceptance = { relayPubkey, epoch, seq: at, accept, sig: '', acceptedAtMs: at, retentionMs: 14 * DAY_MS };
  await host.store().transact((tx) => {
    afterAttempt(tx, host.context, rowId, { type: 'relay-pushing', relayPubkey, isOneOfMany: true });
    afterAttempt(tx, host.context, rowId, { type: 'relay-accepted', acceptance, isVerified: true });
  });
}

/** The items of a host's receipts, as they are pushed. */
async function receiptItems(from: PairedContext, to: PairedContext): Promise<IncomingItem[]> {
  return Promise.all((await receiptsOf(from)).map(({ itemId }) => itemFor(from, to, itemId)));
}

describe('an envelope over two relays', () => {
  test('at once is delivered once, and its receipt goes to both, the same bytes', async () => {
    const { bob, message, item } = await sent();
    const both = [ONE, TWO].map((pubkey) => receiveItems(bob.context, [over(pubkey, bob.clock, item)]));
    const statuses = (await Promise.all(both)).flat().map(({ status }) => status);
    expect(statuses.toSorted()).toEqual(['accepted', 'duplicate']);
    expect(await mailOf(bob, 'bert')).toEqual([message.ref]);
    const [receipt, ...others] = await receiptsOf(bob);
    expect(others).toEqual([]);
    expect(new Set(receipt?.broughtBy)).toEqual(new Set([ONE, TWO]));
    expect(receipt).toMatchObject({ state: 'pending', nextAtMs: bob.clock.nowMs });
  });

  test('has its receipt sent over the second, too, which the first took: once, whenever it comes again', async () => {
    const { bob, item } = await sent();
    await statusesAt(bob, over(ONE, bob.clock, item));
    const [receipt] = await receiptsOf(bob);
    expect(receipt?.broughtBy).toEqual([ONE]);
    await taken(bob, receipt, ONE);
    bob.clock.nowMs += HOUR_MS;
    const again = over(TWO, bob.clock, item);
    bob.told.length = 0;
    expect(await statusesAt(bob, again)).toEqual(['duplicate']);
    const [goesOn, ...others] = await receiptsOf(bob);
    expect(others).toEqual([]);
    expect(goesOn).toMatchObject({ itemId: receipt?.itemId, broughtBy: [ONE, TWO], nextAtMs: bob.clock.nowMs });
    expect(bob.told).toContainEqual({ type: 'outbox-changed', peerId: peerIdOf(hostNamed('alice')) });
    await taken(bob, goesOn, TWO);
    const settled = await receiptsOf(bob);
    expect(
      await statusesAt(bob, ...Array.from({ length: 3 }, () => over(TWO, bob.clock, item, HOUR_MS + 10_000))),
    ).toEqual(Array.from({ length: 3 }, () => 'duplicate'));
    expect(await receiptsOf(bob)).toEqual(settled);
  });

  test('over the same relay calls for the next receipt only when it was stored after the last one', async () => {
    const { alice, bob, message, item } = await sent();
    await statusesAt(bob, over(ONE, bob.clock, item));
    const [receipt] = await receiptsOf(bob);
    // It waits.
    expect(await statusesAt(bob, over(ONE, bob.clock, item))).toEqual(['duplicate']);
    expect(await receiptsOf(bob)).toEqual([receipt]);
    await taken(bob, receipt, ONE);
    const accepted = await receiptsOf(bob);
    bob.clock.nowMs += HOUR_MS;
    // From before, by the relay's clock and by what was measured of it.
    expect(await statusesAt(bob, over(ONE, bob.clock, item, HOUR_MS + 5_000))).toEqual(['duplicate']);
    expect(await receiptsOf(bob)).toEqual(accepted);
    expect(await statusesAt(bob, over(ONE, bob.clock, item))).toEqual(['duplicate']);
    const [next, ...others] = await receiptsOf(bob);
    expect(others).toEqual([]);
    expect(next?.itemId).not.toBe(receipt?.itemId);
    expect(next).toMatchObject({ state: 'pending', broughtBy: [ONE], acceptance: null });
    alice.clock.nowMs = bob.clock.nowMs;
    expect(await statusesAt(alice, ...(await receiptItems(bob, alice)))).toEqual(['accepted']);
    expect(await mailOf(bob, 'bert')).toEqual([message.ref]);
  });

  test('that a relay shows a thousand times costs one receipt', async () => {
    const { alice, bob } = await pair();
    const messages: MessageRow[] = [];
    for (let at = 0; at < 20; at++) messages.push(await sendTo(alice, bob, { from: 'anna', to: ['bert'] }));
    const items = await Promise.all(messages.map(({ id }) => itemFor(alice, bob, id)));
    await statusesAt(bob, ...items.map((item) => over(ONE, bob.clock, item)));
    for (const row of await receiptsOf(bob)) await taken(bob, row, ONE);
    bob.clock.nowMs += DAY_MS;
    const copies = items.map((item) => over(TWO, bob.clock, item, DAY_MS + 10_000));
    await statusesAt(bob, ...copies);
    for (const row of await receiptsOf(bob)) await taken(bob, row, TWO);
    const settled = await receiptsOf(bob);
    expect(settled).toHaveLength(20);
    for (let time = 0; time < 50; time++) await statusesAt(bob, ...copies);
    expect(await receiptsOf(bob)).toEqual(settled);
  });

  test('has later receipts sent over all that brought it', async () => {
    const { bob, message, item } = await sent();
    await statusesAt(bob, over(ONE, bob.clock, item), over(TWO, bob.clock, item));
    for (const relayPubkey of [ONE, TWO]) await taken(bob, (await receiptsOf(bob))[0], relayPubkey);
    await bob.store().transact((tx) => issueReceipt(tx, bob.context, { ref: message.ref, agentId: BERT }, 'read'));
    expect((await receiptsOf(bob)).map(({ state, broughtBy }) => ({ state, broughtBy }))).toEqual([
      { state: 'relay-accepted', broughtBy: [ONE, TWO] },
      { state: 'pending', broughtBy: [ONE, TWO] },
    ]);
  });

  test('which the LAN brought first has its receipt sent over the relay that brings it again', async () => {
    const { bob, item } = await sent();
    await statusesAt(bob, item);
    const [receipt] = await receiptsOf(bob);
    expect(receipt).not.toHaveProperty('broughtBy');
    await statusesAt(bob, over(TWO, bob.clock, item));
    expect(await receiptsOf(bob)).toMatchObject([{ itemId: receipt?.itemId, broughtBy: [TWO] }]);
    await bob
      .store()
      .transact((tx) => void afterAttempt(tx, bob.context, receipt?.rowId ?? 0, { type: 'lan-accepted' }));
    bob.clock.nowMs += HOUR_MS;
    // What the peer has needs no receipt, and what it pushed since does.
    await statusesAt(bob, over(ONE, bob.clock, item, HOUR_MS + 5_000));
    expect(await receiptsOf(bob)).toEqual([]);
    await statusesAt(bob, over(ONE, bob.clock, item));
    expect(await receiptsOf(bob)).toMatchObject([{ state: 'pending', broughtBy: [ONE] }]);
  });

  test('with other bytes under its id is kept', async () => {
    const { alice, bob, item } = await sent();
    const other = await sendTo(alice, bob, { from: 'anna', to: ['bert'], body: 'other words' });
    const { wire: bytes } = await itemFor(alice, bob, other.id);
    const { sig: _sig, hops, ...given } = JSON.parse(bytes.toString('utf8')) as Record<string, unknown>;
    const signed = { ...given, id: item.itemId };
    const wire = canonicalBytes({ ...signed, hops, sig: alice.host.signer.sign(canonicalBytes(signed)) });
    expect(await statusesAt(bob, over(ONE, bob.clock, item))).toEqual(['accepted']);
    expect(await statusesAt(bob, over(TWO, bob.clock, { ...item, wire }))).toEqual(['quarantined']);
    expect((await listQuarantine(bob.context, {})).items).toMatchObject([{ reason: 'id-conflict' }]);
    expect(await receiptsOf(bob)).toMatchObject([{ broughtBy: [ONE] }]);
  });

  test('is known when its message was deleted years ago and its relay with it', async () => {
    const { bob, item } = await sent();
    await statusesAt(bob, over(ONE, bob.clock, item));
    await bob.store().transact((tx) => void advance(tx, bob.context, BERT, 1, 'acked'));
    bob.clock.nowMs += 430 * DAY_MS;
    expect(await sweepRetention(bob.context, DAY_MS)).toMatchObject({ entries: 1 });
    await bob.store().transact((tx) => tx.delete('relay', []));
    await bob.reopen();
    expect(await mailOf(bob, 'bert')).toEqual([]);
    expect(await statusesAt(bob, over(TWO, bob.clock, item))).toEqual(['duplicate']);
    expect(await mailOf(bob, 'bert')).toEqual([]);
  });
});

describe('what is kept in quarantine of two relays', () => {
  test('is one entry, which names the first and adds the other', async () => {
    const { bob, item } = await sent(['nobody']);
    const [first, second] = [over(ONE, bob.clock, item), over(TWO, bob.clock, item, 5)];
    await statusesAt(bob, first, first);
    const [alone] = (await listQuarantine(bob.context, {})).items;
    expect(alone).toMatchObject({ reason: 'unknown-agent', relay: first.relay });
    expect(alone).not.toHaveProperty('relays');
    await statusesAt(bob, second, first, second);
    const { items, rooms } = await listQuarantine(bob.context, {});
    expect(items).toEqual([{ ...alone, relays: [second.relay] }]);
    expect(rooms.find(({ room }) => room === 'relays')).toMatchObject({ items: 1, bytes: item.wire.length });
    expect(await receiptsOf(bob)).toEqual([]);
  });

  test('has its receipts sent over both when it is let in', async () => {
    const { bob, message, item } = await sent(['late']);
    await statusesAt(bob, over(ONE, bob.clock, item), over(TWO, bob.clock, item));
    await addAgent(bob, 'late');
    expect(await retryQuarantine(bob.context, {})).toMatchObject({ accepted: [1], kept: [] });
    expect(await mailOf(bob, 'late')).toEqual([message.ref]);
    expect(await receiptsOf(bob)).toMatchObject([{ broughtBy: [ONE, TWO] }]);
  });

  test('for some of its recipients is answered for the others over both', async () => {
    const { bob, item } = await sent(['bert', 'nobody']);
    await statusesAt(bob, over(ONE, bob.clock, item));
    await taken(bob, (await receiptsOf(bob))[0], ONE);
    expect(await statusesAt(bob, over(TWO, bob.clock, item))).toEqual(['quarantined']);
    expect(await receiptsOf(bob)).toMatchObject([{ recipients: ['bert@bob'], broughtBy: [ONE, TWO] }]);
    await addAgent(bob, 'nobody');
    await retryQuarantine(bob.context, {});
    expect(await receiptsOf(bob)).toMatchObject([
      { recipients: ['bert@bob'], broughtBy: [ONE, TWO] },
      { recipients: ['nobody@bob'], broughtBy: [ONE, TWO] },
    ]);
  });

  test('without room for its bytes counts with the row that it has', async () => {
    const { bob, item } = await sent(['nobody']);
    const { itemsMax } = QUARANTINE_BOUNDS.relays.host;
    await bob.store().transact((tx) => {
      tx.put('quarantineUsage', [`relays/${peerIdOf(hostNamed('alice'))}`], { items: itemsMax, bytes: 0 });
    });
    await statusesAt(bob, over(ONE, bob.clock, item), over(TWO, bob.clock, item));
    const { row, usage } = await bob.store().read((reader) => ({
      row: reader.get('quarantine', 1),
      usage: reader.get('quarantineUsage', 'relays/bare'),
    }));
    expect(row).toMatchObject({ isBare: true, relays: [{ pubkey: TWO }] });
    expect(usage).toMatchObject({ items: 1, bytes: Buffer.byteLength(JSON.stringify(row)) });
  });
});

/** A message that both relays took of alice and brought to bob, and his receipt. */
async function confirmed() {
  const world = await sent();
  const { alice, bob, item, message } = world;
  const rowOf = () => alice.store().read((reader) => outboxRowOf(reader, peerIdOf(bob.host), message.id));
  for (const relayPubkey of [ONE, TWO]) await taken(alice, await rowOf(), relayPubkey);
  await statusesAt(bob, over(ONE, bob.clock, item), over(TWO, bob.clock, item));
  const [receipt] = await receiptItems(bob, alice);
  if (!receipt) throw new Error('bob has a receipt');
  return { ...world, rowOf, receipt };
}

describe('a delivery receipt over two relays', () => {
  test('reaches the sender over the one when the other swallows it, and the row tells which', async () => {
    const { alice, rowOf, receipt } = await confirmed();
    expect(await statusesAt(alice, over(TWO, alice.clock, receipt))).toEqual(['accepted']);
    const confirmedOver = [{ relayPubkey: TWO, atMs: alice.clock.nowMs }];
    expect(await rowOf()).toMatchObject({ state: 'done', confirmedOver });
    expect(await statusesAt(alice, over(TWO, alice.clock, receipt))).toEqual(['duplicate']);
    expect(await rowOf()).toMatchObject({ state: 'done', confirmedOver });
  });

  test('is noted of each relay once, also when the row is done', async () => {
    const { alice, rowOf, receipt } = await confirmed();
    const atMs = alice.clock.nowMs;
    await statusesAt(alice, over(ONE, alice.clock, receipt));
    alice.clock.nowMs += HOUR_MS;
    expect(await statusesAt(alice, over(TWO, alice.clock, receipt), over(ONE, alice.clock, receipt))).toEqual([
      'duplicate',
      'duplicate',
    ]);
    expect((await rowOf())?.confirmedOver).toEqual([
      { relayPubkey: ONE, atMs },
      { relayPubkey: TWO, atMs: atMs + HOUR_MS },
    ]);
  });

  test('over the LAN says nothing of a relay', async () => {
    const { alice, rowOf, receipt } = await confirmed();
    expect(await statusesAt(alice, receipt)).toEqual(['accepted']);
    expect(await rowOf()).toMatchObject({ state: 'done' });
    expect(await rowOf()).not.toHaveProperty('confirmedOver');
  });
});

describe('an expiry notice of one of two relays', () => {
  test('that comes before its time is judged by the row, and counts against the relay', async () => {
    const { alice, bob, message } = await sent();
    const rowOf = () => alice.store().read((reader) => outboxRowOf(reader, peerIdOf(bob.host), message.id));
    for (const relayPubkey of [ONE, TWO]) await taken(alice, await rowOf(), relayPubkey);
    const { nowMs } = alice.clock;
    const given = { item_id: message.id, target_pubkey: bob.host.key, accepted_at: nowMs, expired_at: nowMs + 5 };
    const rec = expiryNotice(given);
    const sig = hostNamed('relay one').signer.sign(canonicalBytes(rec));
    const notice = { ...lanItem(alice, 'expired', '', canonicalBytes({ rec, sig })), senderPubkey: ONE };
    const itemId = `expired:${message.id}:${bob.host.key}`;
    expect(await statusesAt(alice, over(ONE, alice.clock, { ...notice, itemId }))).toEqual(['accepted']);
    const row = await rowOf();
    expect(row).toMatchObject({ state: 'relay-accepted' });
    const states = row?.copies?.map(({ acceptance, state }) => [acceptance.relayPubkey, state] as const);
    expect(new Map(states)).toEqual(
      new Map([
        [ONE, 'expired'],
        [TWO, 'live'],
      ]),
    );
    const wrongAtMs = (key: PublicKey) => alice.store().read((reader) => relayRowOf(reader, key)?.wrongNoticeAtMs);
    expect([await wrongAtMs(ONE), await wrongAtMs(TWO)]).toEqual([nowMs, undefined]);
  });
});

test('with one relay nothing is kept of which it was, and a copy is answered as ever', async () => {
  const { bob, item } = await sent();
  await bob.store().transact((tx) => tx.delete('relayMore', [TWO]));
  await statusesAt(bob, over(ONE, bob.clock, item));
  const [receipt] = await receiptsOf(bob);
  expect(receipt).not.toHaveProperty('broughtBy');
  const rowId = receipt?.rowId ?? 0;
  await bob.store().transact((tx) => void afterAttempt(tx, bob.context, rowId, { type: 'lan-accepted' }));
  bob.clock.nowMs += HOUR_MS;
  await statusesAt(bob, over(ONE, bob.clock, item, 2 * HOUR_MS));
  const [next] = await receiptsOf(bob);
  expect(next?.itemId).not.toBe(receipt?.itemId);
  expect(next).not.toHaveProperty('broughtBy');
  const arrival = await bob.store().read((reader) => reader.get('arrival', peerIdOf(hostNamed('alice')), item.itemId));
  expect(arrival).not.toHaveProperty('broughtBy');
});
