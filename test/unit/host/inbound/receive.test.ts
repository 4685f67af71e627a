import { describe, expect, onTestFinished, test } from 'vitest';
import { afterAttempt, outboxRowOf } from '../../../../src/host/outbox/outbox.ts';
import type { IncomingItem } from '../../../../src/host/inbound/verify.ts';
import { QUARANTINE_BOUNDS } from '../../../../src/host/core/quarantine.ts';
import { retryQuarantine, retryUnknownKeys } from '../../../../src/host/inbound/quarantine.ts';
import { receiveItems } from '../../../../src/host/inbound/receive.ts';
import { learnRotation } from '../../../../src/host/peers/peers.ts';
import { issueReceipt } from '../../../../src/host/outbox/outgoing-items.ts';
import { sweepRetention } from '../../../../src/host/mail/retention.ts';
import { type Envelope, type EnvelopeHead, sealEnvelope } from '../../../../src/host/wire/sealing.ts';
import { messageIdFrom, messageIdTimeMs, type HostName, type ItemId } from '../../../../src/protocol/names.ts';
import type { AgentId, MessageRef, OutboxRow } from '../../../../src/host/core/rows.ts';
import {
  canonicalBytes,
  type DeliveryReceipt,
  expiryNotice,
  hostRotation,
  signDocument,
} from '../../../../src/protocol/documents.ts';
import type { Signer } from '../../../../src/protocol/ed25519.ts';
import { DAY_MS, HOUR_MS } from '../../../../src/protocol/limits.ts';
import type { PublicKey } from '../../../../src/protocol/public-key.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { carol, hostNamed, relay } from '../../../support/hosts.ts';
import {
  type PairedContext,
  addAgent,
  itemFor,
  lanItem,
  mailOf,
  occupy,
  pairedContext,
  pairedContexts,
  peerIdOf,
  pin,
  sendTo,
} from '../../../support/paired-contexts.ts';
import { rowsOf } from '../../../support/stored-rows.ts';

const ANNA = 'agent-anna' as AgentId;

/** alice, where anna lives, and bob, where bert and berta live. */
async function pair(): Promise<{ alice: PairedContext; bob: PairedContext }> {
  const { alice, bob } = await pairedContexts();
  await addAgent(alice, 'anna');
  await addAgent(bob, 'bert');
  await addAgent(bob, 'berta');
  return { alice, bob };
}

async function statusAt(there: PairedContext, item: IncomingItem): Promise<string> {
  const [received] = await receiveItems(there.context, [item]);
  return received?.status === 'rejected' ? `rejected:${received.code}` : (received?.status ?? 'nothing');
}

async function quarantineOf(there: PairedContext): Promise<{ reason: string; recipients: string[] | null }[]> {
  return (await rowsOf(there.store(), 'quarantine', [])).map(({ reason, recipients }) => ({ reason, recipients }));
}

function outboxOf(here: PairedContext): Promise<OutboxRow[]> {
  return rowsOf(here.store(), 'outbox', []);
}

/** Brings every receipt that waits in `from`'s outbox to `to`. */
async function bringReceipts(from: PairedContext, to: PairedContext): Promise<string[]> {
  const statuses: string[] = [];
  for (const row of await outboxOf(from)) {
    if (row.kind !== 'receipt' || row.state !== 'pending') continue;
    statuses.push(await statusAt(to, await itemFor(from, to, row.itemId)));
    await from.store().transact((tx) => void afterAttempt(tx, from.context, row.rowId, { type: 'lan-accepted' }));
  }
  return statuses;
}

function sentStates(here: PairedContext, ref: MessageRef): Promise<Record<string, string>> {
  return here.store().read((reader) => {
    const recipients = reader.get('sent', ref)?.recipients ?? [];
    return Object.fromEntries(recipients.map(({ address, state }) => [address, state]));
  });
}

describe('an envelope', () => {
  test('is delivered once, with a receipt for each recipient, and its row is done', async () => {
    const { alice, bob } = await pair();
    const message = await sendTo(alice, bob, { from: 'anna', to: ['bert', 'berta'], body: 'Guten Tag' });
    const item = await itemFor(alice, bob, message.id);
    expect(await statusAt(bob, item)).toBe('accepted');
    expect(await mailOf(bob, 'bert')).toEqual([message.ref]);
    expect(await mailOf(bob, 'berta')).toEqual([message.ref]);
    const { stored, body } = await bob
      .store()
      .read((reader) => ({ stored: reader.get('message', message.ref), body: reader.get('body', message.ref) }));
    expect(body).toBe('Guten Tag');
    expect(stored).toMatchObject({ from: 'anna@alice', fromAgent: null, fromPeer: 'peer-alice', thread: message.ref });
    expect(await bringReceipts(bob, alice)).toEqual(['accepted', 'accepted']);
    expect(await sentStates(alice, message.ref)).toEqual({ 'bert@bob': 'delivered', 'berta@bob': 'delivered' });
    const [row] = await outboxOf(alice);
    expect(row).toMatchObject({ state: 'done', confirmed: ['bert@bob', 'berta@bob'] });
    expect(await outboxOf(bob)).toEqual([]);
    expect(await alice.store().read((reader) => reader.get('peer', peerIdOf(bob.host))?.hasConfirmed)).toBe(true);
    // Its bytes are not kept longer than they may be sent.
    expect(await alice.store().read((reader) => reader.get('outboxWire', row?.rowId ?? 0))).toBeUndefined();
  });

  test('that comes again is a duplicate; the receipts are said again when none waits', async () => {
    const { alice, bob } = await pair();
    const message = await sendTo(alice, bob, { from: 'anna', to: ['bert'] });
    const item = await itemFor(alice, bob, message.id);
    await statusAt(bob, item);
    const [first] = await outboxOf(bob);
    expect(await statusAt(bob, item)).toBe('duplicate');
    expect(await outboxOf(bob)).toEqual([first]);
    await bob.store().transact((tx) => void afterAttempt(tx, bob.context, first?.rowId ?? 0, { type: 'lan-accepted' }));
    expect(await statusAt(bob, item)).toBe('duplicate');
    const [again] = await outboxOf(bob);
    expect(again?.itemId).not.toBe(first?.itemId);
    expect(await bringReceipts(bob, alice)).toEqual(['accepted']);
    expect(await mailOf(bob, 'bert')).toEqual([message.ref]);
  });

  test('carried by another hop count is the same envelope', async () => {
    const { alice, bob } = await pair();
    const message = await sendTo(alice, bob, { from: 'anna', to: ['bert'] });
    const item = await itemFor(alice, bob, message.id);
    await statusAt(bob, item);
    const hopped = { ...(JSON.parse(item.wire.toString('utf8')) as Envelope), hops: 1 };
    expect(await statusAt(bob, { ...item, wire: canonicalBytes(hopped) })).toBe('duplicate');
  });

  test('with an id that is taken here gets another name, and its thread and answers follow', async () => {
    const { alice, bob } = await pair();
    const message = await sendTo(alice, bob, { from: 'anna', to: ['bert'] });
    const own = await sendTo(bob, alice, { from: 'bert', to: ['anna'] });
    await occupy(bob, { ...own, ref: message.ref, id: message.id, thread: message.ref }, 'agent-berta' as AgentId);
    expect(await statusAt(bob, await itemFor(alice, bob, message.id))).toBe('accepted');
    const [ref] = await mailOf(bob, 'bert');
    expect(ref).not.toBe(message.ref);
    const stored = await bob.store().read((reader) => reader.get('message', ref as MessageRef));
    expect(stored).toMatchObject({ id: message.id, thread: ref });
    await bob.store().transact((tx) => {
      issueReceipt(tx, bob.context, { ref: ref as MessageRef, agentId: 'agent-bert' as AgentId }, 'read');
    });
    expect(await bringReceipts(bob, alice)).toEqual(['accepted']);
    expect(await sentStates(alice, message.ref)).toEqual({ 'bert@bob': 'read' });
  });

  test('to an agent that was renamed is forwarded, and the receipt names it as it was written', async () => {
    const { alice, bob } = await pair();
    await bob.store().transact((tx) => {
      const agentId = 'agent-bert' as AgentId;
      tx.put('agentName', ['bert'], { agentId, name: 'bert', retiredAtMs: bob.clock.nowMs });
      tx.put('agentName', ['robert'], { agentId, name: 'robert', retiredAtMs: null });
    });
    const message = await sendTo(alice, bob, { from: 'anna', to: ['bert', 'robert'] });
    expect(await statusAt(bob, await itemFor(alice, bob, message.id))).toBe('accepted');
    expect(await mailOf(bob, 'bert')).toEqual([message.ref]);
    expect(await bringReceipts(bob, alice)).toEqual(['accepted', 'accepted']);
    expect(await sentStates(alice, message.ref)).toEqual({ 'bert@bob': 'delivered', 'robert@bob': 'delivered' });
  });

  test('for some who are here and one who is not: the others get it, and it is kept for the one', async () => {
    const { alice, bob } = await pair();
    const message = await sendTo(alice, bob, { from: 'anna', to: ['bert', 'nobody'] });
    const item = await itemFor(alice, bob, message.id);
    for (const _time of [1, 2]) {
      expect(await statusAt(bob, item)).toBe('quarantined');
      expect(await quarantineOf(bob)).toEqual([{ reason: 'unknown-agent', recipients: ['nobody@bob'] }]);
    }
    expect(await mailOf(bob, 'bert')).toEqual([message.ref]);
    await addAgent(bob, 'nobody');
    expect(await retryQuarantine(bob.context, {})).toMatchObject({ accepted: [1], kept: [] });
    expect(await quarantineOf(bob)).toEqual([]);
    expect(await mailOf(bob, 'nobody')).toEqual([message.ref]);
    expect(await mailOf(bob, 'bert')).toEqual([message.ref]);
    await bringReceipts(bob, alice);
    expect(await outboxOf(alice)).toMatchObject([{ state: 'done' }]);
  });

  test('signed by a key that is learned later is delivered then', async () => {
    const { alice, bob } = await pair();
    const next = hostNamed('alice-next');
    const item = await forged(alice, bob, { signer: next.signer });
    expect(await statusAt(bob, item)).toBe('quarantined');
    expect(await quarantineOf(bob)).toMatchObject([{ reason: 'unknown-sender' }]);
    expect(await retryUnknownKeys(bob.context)).toMatchObject({ accepted: [], kept: [{ reason: 'unknown-sender' }] });
    await learnsKey(bob, alice, next.key);
    expect(await retryUnknownKeys(bob.context)).toMatchObject({ accepted: [1], kept: [] });
    expect(await mailOf(bob, 'bert')).toHaveLength(1);
  });

  test('signed by a key that its host gave up is delivered when the host brings it under its present key', async () => {
    const { alice, bob } = await pair();
    const next = hostNamed('alice-next');
    await learnsKey(bob, alice, next.key);
    const written = await forged(alice, bob);
    // As it was stolen with the key, by a hop of that key, over the LAN.
    expect(await statusAt(bob, written)).toBe('quarantined');
    // By a stranger: he may be the host itself under a key that is not known yet.
    expect(await statusAt(bob, { ...written, senderPubkey: carol.key })).toBe('quarantined');
    expect((await quarantineOf(bob)).map(({ reason }) => reason)).toEqual(['retired-key', 'unknown-sender']);
    expect(await mailOf(bob, 'bert')).toEqual([]);
    expect(await statusAt(bob, { ...written, senderPubkey: next.key })).toBe('accepted');
    expect(await mailOf(bob, 'bert')).toHaveLength(1);
    const late = await forged(alice, bob, { id: 'forged-2' });
    bob.clock.nowMs += 60 * 86_400_000;
    expect(await statusAt(bob, { ...late, senderPubkey: next.key })).toBe('quarantined');
  });

  test('signed and pushed under a key that its host gave up is taken from a relay, if it is not younger', async () => {
    const { alice, bob } = await pair();
    const next = hostNamed('alice-next');
    const epoch = epochNumbered(1);
    const pushed = (item: IncomingItem): IncomingItem => ({
      ...item,
      via: 'relay',
      relay: { pubkey: relay.key, epoch, seq: 7 },
    });
    const before = pushed(await forged(alice, bob));
    await learnsKey(bob, alice, next.key);
    alice.clock.nowMs += 86_400_000;
    const after = pushed(await forged(alice, bob, { id: 'forged-2' }));
    expect(await statusAt(bob, after)).toBe('quarantined');
    expect(await quarantineOf(bob)).toMatchObject([{ reason: 'retired-key' }]);
    expect(await statusAt(bob, before)).toBe('accepted');
    expect(await mailOf(bob, 'bert')).toHaveLength(1);
    // By anybody else it is not.
    const another = pushed(await forged(alice, bob, { id: 'forged-3', head: { created_at: 1 } }));
    expect(await statusAt(bob, { ...another, senderPubkey: carol.key })).toBe('quarantined');
  });

  test('sealed to a retired key opens for 60 days', async () => {
    const { alice, bob } = await pair();
    const { enc_pub: encPub, secret } = await (await import('../../../../src/host/wire/sealing.ts')).generateSealKey();
    const day = 86_400_000;
    const nowMs = bob.clock.nowMs;
    const keepRetired = (retiredAtMs: number): Promise<void> =>
      bob.store().transact((tx) => {
        const identity = tx.get('identity');
        if (!identity) throw new Error('the host has an identity');
        const retired = { encPub, secret, sinceMs: 0, retiredAtMs };
        tx.put('identity', [], { ...identity, sealKeys: [bob.sealKey, retired] });
      });
    await keepRetired(nowMs - 60 * day);
    const item = await forged(alice, bob, { encPub });
    expect(await statusAt(bob, item)).toBe('quarantined');
    expect(await quarantineOf(bob)).toMatchObject([{ reason: 'no-seal-key' }]);
    await keepRetired(nowMs - 60 * day + 1);
    expect(await statusAt(bob, item)).toBe('accepted');
  });
});

/** `there` goes on under another key, as `here` learns now. */
async function learnsKey(here: PairedContext, there: PairedContext, publicKey: PublicKey): Promise<void> {
  const { nowMs } = here.clock;
  const retired = { publicKey: there.host.key, pinnedAtMs: 0, retiredAtMs: nowMs };
  await pin(here, there, { keys: [retired, { publicKey, pinnedAtMs: nowMs, retiredAtMs: null }] });
}

interface Forgery {
  id?: string;
  signer?: Signer;
  encPub?: string;
  content?: unknown;
  /** The head of the envelope, before it is sealed and signed. */
  head?: Record<string, unknown>;
  /** The members of the envelope as it is. */
  after?: Record<string, unknown>;
}

/** An envelope from anna to bert, right but for what is changed. */
async function forged(from: PairedContext, to: PairedContext, forgery: Forgery = {}): Promise<IncomingItem> {
  const { id = 'forged-1', signer = from.host.signer, encPub = to.sealKey.encPub } = forgery;
  const head = {
    v: 1,
    type: 'envelope',
    id,
    from: `anna@${from.host.name}`,
    from_host_pubkey: signer.publicKey,
    to: [`bert@${to.host.name}`],
    to_host: to.host.name,
    subject: 'Hello',
    created_at: from.clock.nowMs,
    ...forgery.head,
  };
  const content = {
    kind: 'message',
    needs_reply: false,
    origin: null,
    refs: [],
    reply_to: null,
    thread: id,
    body: 'words',
  };
  const sealed = await sealEnvelope(
    head as EnvelopeHead,
    (forgery.content ?? content) as typeof content,
    encPub,
    signer,
  );
  return lanItem(from, 'envelope', id, canonicalBytes({ ...sealed, ...forgery.after }));
}

describe('an envelope with a wrong member is kept with its reason, and nobody gets it', () => {
  const content = {
    kind: 'message',
    needs_reply: false,
    origin: null,
    refs: [],
    reply_to: null,
    thread: 't',
    body: '',
  };
  const cases: [why: string, reason: string, forgery: Forgery][] = [
    ['another version', 'malformed', { head: { v: 2 } }],
    ['another type', 'malformed', { head: { type: 'receipt' } }],
    ['an id with a colon', 'malformed', { head: { id: 'a:b' } }],
    ['an id of 129 characters', 'malformed', { head: { id: 'x'.repeat(129) } }],
    ['no sender', 'malformed', { head: { from: 'anna' } }],
    ['a key of 31 bytes', 'malformed', { head: { from_host_pubkey: Buffer.alloc(31).toString('base64') } }],
    ['no recipients', 'malformed', { head: { to: [] } }],
    ['a role as recipient', 'malformed', { head: { to: ['role:x'] } }],
    ['everyone as recipient', 'malformed', { head: { to: ['*'] } }],
    ['a recipient twice', 'malformed', { head: { to: ['bert@bob', 'Bert@BOB'] } }],
    ['1001 recipients', 'malformed', { head: { to: Array.from({ length: 1001 }, (_, at) => `a${at}@bob`) } }],
    ['a recipient that is no text', 'malformed', { head: { to: [7] } }],
    ['a host name with a slash', 'malformed', { head: { to_host: 'bob/x' } }],
    ['no subject', 'malformed', { head: { subject: '' } }],
    ['a subject of 201 characters', 'malformed', { head: { subject: 's'.repeat(201) } }],
    ['a time below zero', 'malformed', { head: { created_at: -1 } }],
    ['a time with a fraction', 'malformed', { head: { created_at: 1.5 } }],
    ['a time that no calendar shows', 'malformed', { head: { created_at: 8.64e15 + 1 } }],
    ['hops below zero', 'malformed', { after: { hops: -1 } }],
    ['a short signature', 'malformed', { after: { sig: 'AAAA' } }],
    ['no seal', 'malformed', { after: { sealed: null } }],
    ['another algorithm', 'malformed', { after: { sealed: { key_id: 'a'.repeat(16), alg: 'none', enc: '', ct: '' } } }],
    ['another id than the item', 'id-mismatch', { head: { id: 'forged-2' } }],
    ['the key of a stranger', 'unknown-sender', { signer: carol.signer }],
    ['the name of another key', 'unknown-sender', { head: { from_host_pubkey: carol.key } }],
    [
      'a signature of something else',
      'bad-signature',
      { after: { sig: hostNamed('alice').signer.sign(Buffer.from('x')) } },
    ],
    ['another subject than was signed', 'bad-signature', { after: { subject: 'Other' } }],
    ['a member that was not signed', 'bad-signature', { after: { more: 1 } }],
    ['a sender on another host', 'wrong-from', { head: { from: 'anna@carol' } }],
    ['the voice of a host, which speaks to its own agents alone', 'wrong-from', { head: { from: 'Poste@alice' } }],
    ['another target host', 'wrong-target', { head: { to_host: 'carol' } }],
    ['a recipient on another host', 'wrong-target', { head: { to: ['bert@bob', 'bert@carol'] } }],
    ['a seal for another key', 'no-seal-key', { encPub: '3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=' }],
    ['an unknown kind', 'bad-content', { content: { ...content, kind: 'order' } }],
    ['needs_reply as a text', 'bad-content', { content: { ...content, needs_reply: 'true' } }],
    ['an unknown origin', 'bad-content', { content: { ...content, origin: 'heaven' } }],
    ['21 refs', 'bad-content', { content: { ...content, refs: Array.from({ length: 21 }, () => 'r') } }],
    ['an answer to no id', 'bad-content', { content: { ...content, reply_to: 'a b' } }],
    ['a thread of no id', 'bad-content', { content: { ...content, thread: '' } }],
    ['a body that is too long', 'bad-content', { content: { ...content, body: 'x'.repeat(262_145) } }],
    ['no body', 'bad-content', { content: { ...content, body: null } }],
    ['a list as content', 'bad-content', { content: [] }],
    ['an agent that never was', 'unknown-agent', { head: { to: ['nobody@bob'] } }],
    ['the host itself as recipient', 'unknown-agent', { head: { to: ['poste@bob'] } }],
  ];

  test.each(cases)('%s: %s', async (_why, reason, forgery) => {
    const { alice, bob } = await pair();
    expect(await statusAt(bob, await forged(alice, bob, forgery))).toBe('quarantined');
    expect(await quarantineOf(bob)).toEqual([{ reason, recipients: null }]);
    expect(await mailOf(bob, 'bert')).toEqual([]);
    expect(await outboxOf(bob)).toEqual([]);
  });

  test('members that nobody knows are kept under the signature and the seal', async () => {
    const { alice, bob } = await pair();
    expect(await statusAt(bob, await forged(alice, bob, { head: { more: { of: 'it' } } }))).toBe('accepted');
  });

  test('bounds are of characters, not of UTF-16 units or bytes', async () => {
    const { alice, bob } = await pair();
    const body = '\u{1f4ee}'.repeat(262_144);
    const item = await forged(alice, bob, {
      head: { subject: '\u{1f4ee}'.repeat(200) },
      content: { ...content, body },
    });
    expect(await statusAt(bob, item)).toBe('accepted');
  });

  test('bytes that are another form of the same value: malformed', async () => {
    const { alice, bob } = await pair();
    const item = await forged(alice, bob);
    const text = item.wire.toString('utf8');
    const duplicated = text.replace('"hops":0', '"hops":1,"hops":0');
    for (const wire of [` ${text}`, duplicated, JSON.stringify(JSON.parse(text), null, 1), '', '[]', 'null', '{}']) {
      expect(await statusAt(bob, { ...item, wire: Buffer.from(wire) })).toBe('quarantined');
    }
    expect((await quarantineOf(bob)).map(({ reason }) => reason)).toEqual(Array.from({ length: 7 }, () => 'malformed'));
  });

  test('a broken seal', async () => {
    const { alice, bob } = await pair();
    const good = JSON.parse((await forged(alice, bob)).wire.toString('utf8')) as Envelope;
    const { sig: _sig, hops, ...signed } = good;
    const sealed = { ...signed.sealed, ct: Buffer.alloc(64).toString('base64') };
    const sig = alice.host.signer.sign(canonicalBytes({ ...signed, sealed }));
    const item = lanItem(alice, 'envelope', 'forged-1', canonicalBytes({ ...signed, sealed, hops, sig }));
    expect(await statusAt(bob, item)).toBe('quarantined');
    expect(await quarantineOf(bob)).toMatchObject([{ reason: 'not-opened' }]);
  });

  test('a known id with other content', async () => {
    const { alice, bob } = await pair();
    expect(await statusAt(bob, await forged(alice, bob))).toBe('accepted');
    expect(await statusAt(bob, await forged(alice, bob))).toBe('quarantined');
    expect(await quarantineOf(bob)).toEqual([{ reason: 'id-conflict', recipients: null }]);
    expect(await mailOf(bob, 'bert')).toHaveLength(1);
  });

  test('brought by another paired host than signed it, and by one that was unpaired', async () => {
    const { alice, bob } = await pair();
    const third = await pairedContext('carol', alice.clock);
    onTestFinished(third.close);
    await pin(bob, third);
    const item = await forged(alice, bob);
    expect(await statusAt(bob, { ...item, senderPubkey: third.host.key })).toBe('quarantined');
    await pin(bob, alice, { unpairedAtMs: 1 });
    expect(await statusAt(bob, item)).toBe('quarantined');
    expect((await quarantineOf(bob)).map(({ reason }) => reason)).toEqual(['sender-mismatch', 'unpaired']);
  });
});

/** A receipt of bob's for a message of anna's, right but for `changes`. */
async function receiptWith(
  changes: Partial<Record<keyof DeliveryReceipt, unknown>>,
  signer?: Signer,
): Promise<{ alice: PairedContext; item: IncomingItem; ref: MessageRef }> {
  const { alice, bob } = await pair();
  const message = await sendTo(alice, bob, { from: 'anna', to: ['bert'] });
  await statusAt(bob, await itemFor(alice, bob, message.id));
  const [row] = await outboxOf(bob);
  const item = await itemFor(bob, alice, row?.itemId ?? '');
  const { rec } = JSON.parse(item.wire.toString('utf8')) as { rec: DeliveryReceipt };
  const changed = { ...rec, ...changes } as DeliveryReceipt;
  const sig = (signer ?? bob.host.signer).sign(canonicalBytes(changed));
  const itemId = `receipt:${changed.msg}:${changed.recipient}:${changed.seq}`;
  return { alice, item: { ...item, itemId, wire: canonicalBytes({ rec: changed, sig }) }, ref: message.ref };
}

describe('a delivery receipt', () => {
  test('right in every member is applied, and again changes nothing', async () => {
    const { alice, item, ref } = await receiptWith({});
    expect(await statusAt(alice, item)).toBe('accepted');
    expect(await statusAt(alice, item)).toBe('duplicate');
    expect(await sentStates(alice, ref)).toEqual({ 'bert@bob': 'delivered' });
  });

  const cases: [why: string, reason: string, changes: Partial<Record<keyof DeliveryReceipt, unknown>>, by?: Signer][] =
    [
      ['another version', 'malformed', { v: 2 }],
      ['another type', 'malformed', { type: 'relay-accept' }],
      ['a state that is none', 'malformed', { state: 'eaten' }],
      ['a seq with a fraction', 'malformed', { seq: 1.5 }],
      ['no time', 'malformed', { at: null }],
      ['a time that no calendar shows', 'malformed', { at: 8.64e15 + 1 }],
      ['no hash', 'malformed', { wire_hash: 'x' }],
      ['a recipient that is no address', 'malformed', { recipient: 'bert' }],
      ['the key of a stranger', 'unknown-sender', { host_pubkey: carol.key }, carol.signer],
      ['a signature of somebody else', 'bad-signature', {}, carol.signer],
      ['a message that was never sent', 'unknown-message', { msg: 'other' }],
      ['a recipient that it did not go to', 'wrong-recipient', { recipient: 'berta@bob' }],
      ['a recipient on another host', 'wrong-recipient', { recipient: 'bert@carol' }],
      ['a key that this host never had', 'wrong-target', { sender_host_pubkey: carol.key }],
      ['other bytes than were sent', 'wrong-hash', { wire_hash: 'a'.repeat(64) }],
    ];

  test.each(cases)('%s: %s', async (_why, reason, changes, by) => {
    const { alice, item, ref } = await receiptWith(changes, by);
    expect(await statusAt(alice, item)).toBe('quarantined');
    expect(await quarantineOf(alice)).toEqual([{ reason, recipients: null }]);
    expect(await sentStates(alice, ref)).toEqual({ 'bert@bob': 'pending' });
  });

  test('for what retention deleted is a duplicate; for what was never sent it is not', async () => {
    const { alice, item, ref } = await receiptWith({});
    expect(await statusAt(alice, item)).toBe('accepted');
    const keptMs = 90 * DAY_MS;
    const key: [AgentId, number, MessageRef] = ['agent-anna' as AgentId, alice.clock.nowMs, ref];
    await alice.store().transact((tx) => tx.put('sentBy', key, true));
    alice.clock.nowMs += keptMs - 1;
    expect(await sweepRetention(alice.context, keptMs)).toMatchObject({ sent: 0 });
    alice.clock.nowMs += 1;
    expect(await sweepRetention(alice.context, keptMs)).toMatchObject({ sent: 1 });
    expect(await statusAt(alice, item)).toBe('duplicate');
    expect(await quarantineOf(alice)).toEqual([]);
    expect(await sentStates(alice, ref)).toEqual({});
    // An id of a later time was never given.
    const never = messageIdFrom(alice.clock.nowMs, Buffer.alloc(10));
    expect(messageIdTimeMs(never)).toBe(alice.clock.nowMs);
    const { item: strange } = await receiptWith({ msg: never });
    expect(await statusAt(alice, strange)).toBe('quarantined');
  });

  test('receiving host rule 2: of a host that has another name since counts for what was routed to it', async () => {
    const { alice, item, ref } = await receiptWith({});
    const bobId = peerIdOf(hostNamed('bob'));
    await alice.store().transact((tx) => {
      tx.put('peer', [bobId], { ...tx.get('peer', bobId)!, hostName: 'robert' as HostName });
    });
    expect(await statusAt(alice, item)).toBe('accepted');
    expect(await sentStates(alice, ref)).toEqual({ 'bert@bob': 'delivered' });
    expect(await quarantineOf(alice)).toEqual([]);
  });

  test('for what still waits is applied, although something later was forgotten', async () => {
    const { alice, item, ref } = await receiptWith({});
    await alice.store().transact((tx) => {
      tx.put('identity', [], { ...tx.get('identity')!, sentForgottenMs: alice.clock.nowMs + 1 });
    });
    expect(await statusAt(alice, item)).toBe('accepted');
    expect(await sentStates(alice, ref)).toEqual({ 'bert@bob': 'delivered' });
  });

  test('that says what is known is applied where the row of the outbox waits for it still', async () => {
    const { alice, item } = await receiptWith({});
    expect(await statusAt(alice, item)).toBe('accepted');
    const [row] = await outboxOf(alice);
    expect(row).toMatchObject({ state: 'done', confirmed: ['bert@bob'] });
    // Whatever led there: only what is known of both is known.
    const open = { ...row!, state: 'pending' as const, confirmed: [] };
    await alice.store().transact((tx) => tx.put('outbox', [row!.rowId], open));
    expect(await statusAt(alice, item)).toBe('accepted');
    expect(await outboxOf(alice)).toMatchObject([{ state: 'done', confirmed: ['bert@bob'] }]);
  });

  test('that another paired host brought: sender-mismatch', async () => {
    const { alice, item, ref } = await receiptWith({});
    const eve = await pairedContext('eve', alice.clock);
    onTestFinished(eve.close);
    await pin(alice, eve);
    expect(await statusAt(alice, { ...item, senderPubkey: eve.host.key })).toBe('quarantined');
    expect(await quarantineOf(alice)).toEqual([{ reason: 'sender-mismatch', recipients: null }]);
    expect(await sentStates(alice, ref)).toEqual({ 'bert@bob': 'pending' });
  });

  test('signed by a key that its host gave up counts when that host brings it, for what was sent before', async () => {
    const { alice, bob } = await pair();
    const next = hostNamed('bob-next');
    const before = await sendTo(alice, bob, { from: 'anna', to: ['bert'] });
    await statusAt(bob, await itemFor(alice, bob, before.id));
    const [row] = await outboxOf(bob);
    const item = await itemFor(bob, alice, row?.itemId ?? '');
    await learnsKey(alice, bob, next.key);
    expect(await statusAt(alice, item)).toBe('quarantined');
    expect(await quarantineOf(alice)).toMatchObject([{ reason: 'retired-key' }]);
    expect(await sentStates(alice, before.ref)).toEqual({ 'bert@bob': 'pending' });
    expect(await statusAt(alice, { ...item, senderPubkey: next.key })).toBe('accepted');
    expect(await sentStates(alice, before.ref)).toEqual({ 'bert@bob': 'delivered' });

    // A message that was sent afterwards was never there when the host still had that key, whatever the receipt says.
    alice.clock.nowMs += 1;
    const after = await sendTo(alice, bob, { from: 'anna', to: ['bert'] });
    const { rec } = JSON.parse(item.wire.toString('utf8')) as { rec: DeliveryReceipt };
    const sent = await alice.store().read((reader) => outboxRowOf(reader, peerIdOf(bob.host), after.id));
    const forgedRec = { ...rec, msg: after.id, wire_hash: sent?.wireHash };
    const wire = canonicalBytes({ rec: forgedRec, sig: bob.host.signer.sign(canonicalBytes(forgedRec)) });
    const itemId = `receipt:${after.id}:${rec.recipient}:${rec.seq}`;
    for (const senderPubkey of [next.key, bob.host.key]) {
      for (const via of ['lan', 'relay'] as const) {
        expect(await statusAt(alice, { ...item, via, itemId, wire, senderPubkey })).toBe('quarantined');
      }
    }
    expect(await sentStates(alice, after.ref)).toEqual({ 'bert@bob': 'pending' });
  });

  test('under a former key counts for what was sent before its end, also when the clock was set back', async () => {
    const { alice, bob } = await pair();
    const next = hostNamed('bob-next');
    alice.clock.nowMs += 600_000;
    const before = await sendTo(alice, bob, { from: 'anna', to: ['bert'] });
    await statusAt(bob, await itemFor(alice, bob, before.id));
    const [row] = await outboxOf(bob);
    const item = { ...(await itemFor(bob, alice, row?.itemId ?? '')), senderPubkey: next.key };
    alice.clock.nowMs -= 600_000;
    const rec = hostRotation({ old_pubkey: bob.host.key, new_pubkey: next.key, iat: alice.clock.nowMs });
    const rotation = { rec, old_sig: signDocument(bob.host.signer, rec), new_sig: signDocument(next.signer, rec) };
    expect(await alice.store().transact((tx) => learnRotation(tx, alice.context, rotation))).toBe('learned');
    expect(await statusAt(alice, item)).toBe('accepted');
    expect(await sentStates(alice, before.ref)).toEqual({ 'bert@bob': 'delivered' });
  });

  test('for a key that this host had counts, and says nothing of the key that it has', async () => {
    const { alice, item } = await receiptWith({ sender_host_pubkey: carol.key });
    const bobId = peerIdOf(hostNamed('bob'));
    await alice.store().transact((tx) => {
      const identity = tx.get('identity')!;
      const former = { ...identity.keys[0]!, publicKey: carol.key, retiredAtMs: 1 };
      tx.put('identity', [], { ...identity, keys: [former, ...identity.keys] });
      tx.put('peer', [bobId], { ...tx.get('peer', bobId)!, pinnedOurKey: carol.key });
    });
    expect(await statusAt(alice, item)).toBe('accepted');
    const peer = await alice.store().read((reader) => reader.get('peer', bobId));
    expect(peer).toMatchObject({ hasConfirmed: true });
    expect(peer).not.toHaveProperty('shownOurKey');
  });

  test('for the key that this host has proves that its host knows that key', async () => {
    const { alice, item } = await receiptWith({});
    const bobId = peerIdOf(hostNamed('bob'));
    await alice.store().transact((tx) => {
      tx.put('peer', [bobId], { ...tx.get('peer', bobId)!, pinnedOurKey: carol.key });
    });
    expect(await statusAt(alice, item)).toBe('accepted');
    const peer = await alice.store().read((reader) => reader.get('peer', bobId));
    expect(peer).toMatchObject({ hasConfirmed: true, shownOurKey: alice.host.key });
  });

  test('is known by its recipient, its seq and its state together', async () => {
    const { alice, bob } = await pair();
    const message = await sendTo(alice, bob, { from: 'anna', to: ['bert', 'berta'] });
    await statusAt(bob, await itemFor(alice, bob, message.id));
    const rows = (await outboxOf(bob)).filter(({ kind }) => kind === 'receipt');
    const given = await Promise.all(rows.map((row) => itemFor(bob, alice, row.itemId)));
    const [bert, berta] = ['bert', 'berta'].map((name) => given.find(({ itemId }) => itemId.includes(`:${name}@`))!);
    const again = (item: IncomingItem, changes: Partial<DeliveryReceipt>): IncomingItem => {
      const { rec } = JSON.parse(item.wire.toString('utf8')) as { rec: DeliveryReceipt };
      const changed = { ...rec, ...changes };
      const sig = bob.host.signer.sign(canonicalBytes(changed));
      const itemId = `receipt:${changed.msg}:${changed.recipient}:${changed.seq}`;
      return { ...item, itemId, wire: canonicalBytes({ rec: changed, sig }) };
    };
    const seq = bob.clock.nowMs + 50;
    expect(await statusAt(alice, bert!)).toBe('accepted');
    expect(await statusAt(alice, berta!)).toBe('accepted');
    expect(await statusAt(alice, again(bert!, { seq }))).toBe('accepted');
    expect(await statusAt(alice, again(bert!, { seq, state: 'read' }))).toBe('accepted');
    expect(await statusAt(alice, again(bert!, { seq, state: 'read' }))).toBe('duplicate');
    expect(await statusAt(alice, berta!)).toBe('duplicate');
    expect(await sentStates(alice, message.ref)).toEqual({ 'bert@bob': 'read', 'berta@bob': 'delivered' });
  });

  test('that the item names otherwise: id-mismatch', async () => {
    const { alice, item } = await receiptWith({});
    expect(await statusAt(alice, { ...item, itemId: 'receipt:m:bert@bob:1' })).toBe('quarantined');
    expect(await quarantineOf(alice)).toMatchObject([{ reason: 'id-mismatch' }]);
  });

  test('of a higher state replaces a lower one that was not sent; seqs go up and never below the floor', async () => {
    const { alice, bob } = await pair();
    const message = await sendTo(alice, bob, { from: 'anna', to: ['bert'] });
    await statusAt(bob, await itemFor(alice, bob, message.id));
    const floor = bob.clock.nowMs + 1000;
    await bob.store().transact((tx) => {
      const identity = tx.get('identity');
      if (identity) tx.put('identity', [], { ...identity, receiptFloor: floor });
      const subject = { ref: message.ref, agentId: 'agent-bert' as AgentId };
      issueReceipt(tx, bob.context, subject, 'read');
      issueReceipt(tx, bob.context, subject, 'notified');
      issueReceipt(tx, bob.context, subject, 'read');
    });
    const rows = await outboxOf(bob);
    expect(rows.map(({ itemId }) => itemId)).toEqual([`receipt:${message.id}:bert@bob:${floor}`]);
    expect(await bringReceipts(bob, alice)).toEqual(['accepted']);
    expect(await sentStates(alice, message.ref)).toEqual({ 'bert@bob': 'read' });
  });
});

describe('an expiry notice', () => {
  test('that cannot be read, or is of a message never sent, is kept; of a forgotten one it is known', async () => {
    const { alice, bob } = await pair();
    const nowMs = alice.clock.nowMs;
    const forgotten = messageIdFrom(nowMs, Buffer.alloc(10));
    const noticeOf = (item_id: ItemId, target_pubkey: PublicKey): IncomingItem => {
      const rec = expiryNotice({ item_id, target_pubkey, accepted_at: nowMs, expired_at: nowMs + 5 });
      return {
        via: 'relay',
        relay: { pubkey: relay.key, epoch: epochNumbered(1), seq: 1 },
        kind: 'expired',
        itemId: `expired:${item_id}:${target_pubkey}`,
        wire: canonicalBytes({ rec, sig: relay.signer.sign(canonicalBytes(rec)) }),
        senderPubkey: relay.key,
      };
    };
    const reasons = async (): Promise<string[]> => (await quarantineOf(alice)).map(({ reason }) => reason);
    const notice = noticeOf(forgotten, bob.host.key);
    expect(await statusAt(alice, { ...notice, wire: Buffer.from('{}') })).toBe('quarantined');
    expect(await statusAt(alice, noticeOf(forgotten, carol.key))).toBe('quarantined');
    expect(await statusAt(alice, notice)).toBe('quarantined');
    expect(await reasons()).toEqual(['malformed', 'unknown-message', 'unknown-message']);
    await alice.store().transact((tx) => {
      tx.put('identity', [], { ...tx.get('identity')!, sentForgottenMs: nowMs });
    });
    const later = noticeOf(messageIdFrom(nowMs + 1, Buffer.alloc(10)), bob.host.key);
    expect(await statusAt(alice, later)).toBe('quarantined');
    expect(await statusAt(alice, noticeOf(messageIdFrom(nowMs, Buffer.alloc(10, 1)), bob.host.key))).toBe('duplicate');
  });

  test('of the pinned relay for a row that it accepted alerts the sender', async () => {
    const { alice, bob } = await pair();
    const message = await sendTo(alice, bob, { from: 'anna', to: ['bert'] });
    const nowMs = alice.clock.nowMs;
    const itemId = message.id;
    const rec = expiryNotice({
      item_id: itemId,
      target_pubkey: bob.host.key,
      accepted_at: nowMs,
      expired_at: nowMs + 5,
    });
    const wire = canonicalBytes({ rec, sig: relay.signer.sign(canonicalBytes(rec)) });
    const place = { pubkey: relay.key, epoch: epochNumbered(1), seq: 1 };
    const notice: IncomingItem = {
      via: 'relay',
      relay: place,
      kind: 'expired',
      itemId: `expired:${itemId}:${bob.host.key}`,
      wire,
      senderPubkey: relay.key,
    };
    await alice.store().transact((tx) => {
      const row = outboxRowOf(tx, peerIdOf(bob.host), itemId);
      const accept = {
        v: 1,
        type: 'relay-accept',
        relay_pubkey: relay.key,
        epoch: place.epoch,
        sender_pubkey: alice.host.key,
        item_id: itemId,
        targets: [],
        at: nowMs,
      } as const;
      const taken = {
        relayPubkey: relay.key,
        epoch: place.epoch,
        seq: 1,
        accept: { ...accept, targets: [] },
        sig: '',
        acceptedAtMs: nowMs,
        retentionMs: HOUR_MS,
      };
      afterAttempt(tx, alice.context, row?.rowId ?? 0, { type: 'relay-accepted', acceptance: taken, isVerified: true });
    });
    expect(await statusAt(alice, { ...notice, relay: { ...place, pubkey: carol.key } })).toBe('quarantined');
    const reasons = async (): Promise<string[]> => (await quarantineOf(alice)).map(({ reason }) => reason);
    expect(await reasons()).toEqual(['bad-signature']);
    expect(await statusAt(alice, { ...notice, via: 'lan', relay: null })).toBe('quarantined');
    // The same bytes, kept for what is wrong with them now.
    expect(await reasons()).toEqual(['unknown-sender']);
    expect(await statusAt(alice, { ...notice, itemId: `expired:other:${bob.host.key}` })).toBe('quarantined');
    expect(await statusAt(alice, { ...notice, itemId: `expired:${itemId}:${carol.key}` })).toBe('quarantined');
    expect(await reasons()).toEqual(['unknown-sender', 'id-mismatch', 'id-mismatch']);
    // What was forgotten is another message than this one, of which there is a row.
    await alice.store().transact((tx) => {
      tx.put('identity', [], { ...tx.get('identity')!, sentForgottenMs: nowMs + 1 });
    });
    // The relay keeps items for an hour, as it said, and a moment has passed.
    expect(await statusAt(alice, notice)).toBe('quarantined');
    expect(await reasons()).toContain('too-early');
    expect(await outboxOf(alice)).toMatchObject([{ state: 'relay-accepted' }]);
    alice.clock.nowMs += HOUR_MS;
    expect(await statusAt(alice, notice)).toBe('accepted');
    expect(await outboxOf(alice)).toMatchObject([{ state: 'expired' }]);
    expect(await sentStates(alice, message.ref)).toEqual({ 'bert@bob': 'undelivered' });
    const alerts = await alice.store().read(async (reader) => {
      const subjects = [];
      for await (const { row } of reader.range('entry', [ANNA])) subjects.push(reader.get('message', row.ref)?.subject);
      return subjects;
    });
    expect(alerts).toEqual(['Undelivered to bob']);
  });
});

test('a full quarantine over the LAN: good mail comes; of the rest a record is kept, and it comes later', async () => {
  const { alice, bob } = await pair();
  const bad = await forged(alice, bob, { head: { to: ['bert@bob', 'nobody@bob'] } });
  const fill = (items: number): Promise<void> =>
    bob.store().transact((tx) => tx.put('quarantineUsage', ['hosts/peer-alice'], { items, bytes: items }));
  await fill(QUARANTINE_BOUNDS.hosts.host.itemsMax);
  expect(await statusAt(bob, bad)).toBe('rejected:quarantine full');
  // The part that could be delivered is, once, however often the sender brings the whole again.
  expect(await mailOf(bob, 'bert')).toHaveLength(1);
  expect(await statusAt(bob, bad)).toBe('rejected:quarantine full');
  expect(await mailOf(bob, 'bert')).toHaveLength(1);
  expect(await quarantineOf(bob)).toEqual([{ reason: 'unknown-agent', recipients: ['nobody@bob'] }]);
  expect(await statusAt(bob, await forged(alice, bob, { id: 'good' }))).toBe('accepted');
  expect(await retryQuarantine(bob.context, {})).toMatchObject({
    kept: [{ number: 1, detail: expect.stringContaining('its bytes were not kept') as string }],
  });
  // Room again: its bytes are kept now.
  await fill(QUARANTINE_BOUNDS.hosts.host.itemsMax - 1);
  expect(await statusAt(bob, bad)).toBe('quarantined');
  await addAgent(bob, 'nobody');
  expect(await retryQuarantine(bob.context, {})).toMatchObject({ accepted: [1] });
  expect(await mailOf(bob, 'nobody')).toHaveLength(1);
});
