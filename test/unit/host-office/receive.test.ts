import { describe, expect, onTestFinished, test } from 'vitest';
import { afterAttempt } from '../../../src/host/office/outbox.ts';
import { outboxRowOf } from '../../../src/host/office/outbox-rows.ts';
import type { IncomingItem } from '../../../src/host/office/incoming.ts';
import { QUARANTINE_BOUNDS, QUARANTINE_SENDER_BOUNDS } from '../../../src/host/office/quarantine-rows.ts';
import { retryQuarantine, retryUnknownKeys } from '../../../src/host/office/quarantine.ts';
import { receiveItems } from '../../../src/host/office/receive.ts';
import { issueReceipt } from '../../../src/host/office/receipts.ts';
import { type Envelope, type EnvelopeHead, sealEnvelope } from '../../../src/host/office/sealing.ts';
import type { AgentId, MessageRef, OutboxRow } from '../../../src/host/core/rows.ts';
import { canonicalBytes } from '../../../src/protocol/canonical-json.ts';
import { type DeliveryReceipt, expiryNotice } from '../../../src/protocol/documents.ts';
import type { Signer } from '../../../src/protocol/ed25519.ts';
import { epochNumbered } from '../../support/epochs.ts';
import { carol, hostNamed, relay } from '../../support/hosts.ts';
import {
  type PairedOffice,
  addAgent,
  itemFor,
  lanItem,
  mailOf,
  occupy,
  officeOf,
  peerIdOf,
  pin,
  sendTo,
} from '../../support/paired-offices.ts';

const ANNA = 'agent-anna' as AgentId;

/** alice, where anna lives, and bob, where bert and berta live. */
async function pair(): Promise<{ alice: PairedOffice; bob: PairedOffice }> {
  const alice = await officeOf('alice');
  onTestFinished(alice.close);
  const bob = await officeOf('bob', alice.clock);
  onTestFinished(bob.close);
  await pin(alice, bob);
  await pin(bob, alice);
  await addAgent(alice, 'anna');
  await addAgent(bob, 'bert');
  await addAgent(bob, 'berta');
  return { alice, bob };
}

async function statusAt(there: PairedOffice, item: IncomingItem): Promise<string> {
  const [received] = await receiveItems(there.office, [item]);
  return received?.status === 'rejected' ? `rejected:${received.code}` : (received?.status ?? 'nothing');
}

function quarantineOf(there: PairedOffice): Promise<{ reason: string; recipients: string[] | null }[]> {
  return there.store().read(async (reader) => {
    const found = [];
    for await (const { row } of reader.range('quarantine', [])) {
      found.push({ reason: row.reason, recipients: row.recipients });
    }
    return found;
  });
}

async function outboxOf(here: PairedOffice): Promise<OutboxRow[]> {
  return here.store().read(async (reader) => {
    const rows = [];
    for await (const { row } of reader.range('outbox', [])) rows.push(row);
    return rows;
  });
}

/** Brings every receipt that waits in `from`'s outbox to `to`. */
async function bringReceipts(from: PairedOffice, to: PairedOffice): Promise<string[]> {
  const statuses: string[] = [];
  for (const row of await outboxOf(from)) {
    if (row.kind !== 'receipt' || row.state !== 'pending') continue;
    statuses.push(await statusAt(to, await itemFor(from, to, row.itemId)));
    await from.store().transact((tx) => void afterAttempt(tx, from.office, row.rowId, { type: 'lan-accepted' }));
  }
  return statuses;
}

function sentStates(here: PairedOffice, ref: MessageRef): Promise<Record<string, string>> {
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
    await bob.store().transact((tx) => void afterAttempt(tx, bob.office, first?.rowId ?? 0, { type: 'lan-accepted' }));
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
      issueReceipt(tx, bob.office, { ref: ref as MessageRef, agentId: 'agent-bert' as AgentId }, 'read');
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
    expect(await retryQuarantine(bob.office, {})).toMatchObject({ accepted: [1], kept: [] });
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
    expect(await retryUnknownKeys(bob.office)).toMatchObject({ accepted: [], kept: [{ reason: 'unknown-sender' }] });
    const key = { publicKey: next.key, pinnedAtMs: 0, retiredAtMs: null };
    await pin(bob, alice, { keys: [{ publicKey: alice.host.key, pinnedAtMs: 0, retiredAtMs: 1 }, key] });
    expect(await retryUnknownKeys(bob.office)).toMatchObject({ accepted: [1], kept: [] });
    expect(await mailOf(bob, 'bert')).toHaveLength(1);
    // And what the retired key signed is good still.
    expect(await statusAt(bob, await forged(alice, bob, { id: 'forged-2' }))).toBe('accepted');
  });

  test('sealed to a retired key opens for 60 days', async () => {
    const { alice, bob } = await pair();
    const { enc_pub: encPub, secret } = await (await import('../../../src/host/office/sealing.ts')).generateSealKey();
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

interface Forgery {
  id?: string;
  signer?: Signer;
  encPub?: string;
  content?: unknown;
  /** Of the envelope, before it is sealed and signed. */
  head?: Record<string, unknown>;
  /** Of the envelope as it is. */
  after?: Record<string, unknown>;
}

/** An envelope from anna to bert, right but for what is changed. */
async function forged(from: PairedOffice, to: PairedOffice, forgery: Forgery = {}): Promise<IncomingItem> {
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
    ['another target host', 'wrong-target', { head: { to_host: 'carol' } }],
    ['a recipient on another host', 'wrong-target', { head: { to: ['bert@bob', 'bert@carol'] } }],
    ['a seal for another key', 'no-seal-key', { encPub: '3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=' }],
    ['an unknown kind', 'bad-content', { content: { ...content, kind: 'order' } }],
    ['needs_reply as a text', 'bad-content', { content: { ...content, needs_reply: 'true' } }],
    ['an unknown origin', 'bad-content', { content: { ...content, origin: 'heaven' } }],
    ['21 refs', 'bad-content', { content: { ...content, refs: Array.from({ length: 21 }, () => 'r') } }],
    ['an empty ref', 'bad-content', { content: { ...content, refs: [''] } }],
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
    const third = await officeOf('carol', alice.clock);
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
): Promise<{ alice: PairedOffice; item: IncomingItem; ref: MessageRef }> {
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

  test('that the item names otherwise: id-mismatch', async () => {
    const { alice, item } = await receiptWith({});
    expect(await statusAt(alice, { ...item, itemId: 'receipt:m:bert@bob:1' })).toBe('quarantined');
    expect(await quarantineOf(alice)).toMatchObject([{ reason: 'id-mismatch' }]);
  });

  test('of a higher state takes the place of a lower one that was not sent; seqs go up and never below the floor', async () => {
    const { alice, bob } = await pair();
    const message = await sendTo(alice, bob, { from: 'anna', to: ['bert'] });
    await statusAt(bob, await itemFor(alice, bob, message.id));
    const floor = bob.clock.nowMs + 1000;
    await bob.store().transact((tx) => {
      const identity = tx.get('identity');
      if (identity) tx.put('identity', [], { ...identity, receiptFloor: floor });
      const subject = { ref: message.ref, agentId: 'agent-bert' as AgentId };
      issueReceipt(tx, bob.office, subject, 'read');
      issueReceipt(tx, bob.office, subject, 'notified');
      issueReceipt(tx, bob.office, subject, 'read');
    });
    const rows = await outboxOf(bob);
    expect(rows.map(({ itemId }) => itemId)).toEqual([`receipt:${message.id}:bert@bob:${floor}`]);
    expect(await bringReceipts(bob, alice)).toEqual(['accepted']);
    expect(await sentStates(alice, message.ref)).toEqual({ 'bert@bob': 'read' });
  });
});

describe('an expiry notice', () => {
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
        retentionMs: 10,
      };
      afterAttempt(tx, alice.office, row?.rowId ?? 0, { type: 'relay-accepted', acceptance: taken, isVerified: true });
    });
    expect(await statusAt(alice, { ...notice, relay: { ...place, pubkey: carol.key } })).toBe('quarantined');
    expect(await statusAt(alice, { ...notice, via: 'lan', relay: null })).toBe('quarantined');
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

test('a full quarantine: what would have to be kept is refused, and what is good still comes', async () => {
  const { alice, bob } = await pair();
  const bad = await forged(alice, bob, { head: { to: ['bert@bob', 'nobody@bob'] } });
  const fill = (scope: string, items: number): Promise<void> =>
    bob.store().transact((tx) => tx.put('quarantineUsage', [scope], { items, bytes: items }));
  await fill('peer:peer-alice', QUARANTINE_SENDER_BOUNDS.itemsMax);
  expect(await statusAt(bob, bad)).toBe('rejected:quarantine full');
  await fill('peer:peer-alice', 0);
  await fill('all', QUARANTINE_BOUNDS.itemsMax);
  expect(await statusAt(bob, bad)).toBe('rejected:quarantine full');
  // Not even the part that could be delivered: the sender tries the whole again.
  expect(await mailOf(bob, 'bert')).toEqual([]);
  expect(await statusAt(bob, await forged(alice, bob, { id: 'good' }))).toBe('accepted');
  await fill('all', QUARANTINE_BOUNDS.itemsMax - 1);
  expect(await statusAt(bob, bad)).toBe('quarantined');
});
