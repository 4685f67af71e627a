/** How the documents of home relays travel in mail and in receipts, and what each host keeps of the other's. */
import { describe, expect, test } from 'vitest';
import type { HomeDocumentRow, SaidHome } from '../../../../src/host/core/home-documents.ts';
import type { AgentId, MessageRow, OutboxRow } from '../../../../src/host/core/rows.ts';
import { receiveItems } from '../../../../src/host/inbound/receive.ts';
import type { IncomingItem } from '../../../../src/host/inbound/verify.ts';
import { homeFor, homeOf, ownHome, peerHomes, takeHome } from '../../../../src/host/outbox/homes.ts';
import { issueReceipt } from '../../../../src/host/outbox/outgoing-items.ts';
import { unpair } from '../../../../src/host/peers/peers.ts';
import { parseContent, parseEnvelope, parseReceipt } from '../../../../src/host/wire/parse.ts';
import { HOME_SEAL, openInReceipt } from '../../../../src/host/outbox/receipt-seals.ts';
import { openSeal, type SealedContent } from '../../../../src/host/wire/sealing.ts';
import { type DeliveryReceipt, type HomeRelay, signedRecordJson } from '../../../../src/protocol/documents.ts';
import { signHomeRelays } from '../../../../src/protocol/home-relays.ts';
import { DEFAULT_LIMITS, HOUR_MS } from '../../../../src/protocol/limits.ts';
import { found } from '../../../support/found.ts';
import { HOME_RELAYS, useRelays as useRelaysIn } from '../../../support/home-relays.ts';
import { carol } from '../../../support/hosts.ts';
import {
  addAgent,
  itemFor,
  type PairedContext,
  pairedContexts,
  peerIdOf,
  sendTo,
} from '../../../support/paired-contexts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const RELAYS = HOME_RELAYS;
type UseRelays = [relays: readonly HomeRelay[], guest?: boolean];
const BERT = 'agent-bert' as AgentId;

async function pair(): Promise<{ alice: PairedContext; bob: PairedContext }> {
  const hosts = await pairedContexts();
  await addAgent(hosts.alice, 'anna');
  await addAgent(hosts.bob, 'bert');
  return hosts;
}

function useRelays(host: PairedContext, ...given: UseRelays): Promise<HomeDocumentRow | undefined> {
  return useRelaysIn(host.context, ...given);
}

function write(alice: PairedContext, bob: PairedContext, body?: string): Promise<MessageRow> {
  return sendTo(alice, bob, { from: 'anna', to: ['bert'], ...(body !== undefined && { body }) });
}

async function contentFor(alice: PairedContext, bob: PairedContext, { id }: MessageRow): Promise<SealedContent> {
  const { envelope, members } = parseEnvelope((await itemFor(alice, bob, id)).wire);
  return parseContent(await openSeal(envelope, bob.sealKey, members));
}

async function bring(alice: PairedContext, bob: PairedContext, { id }: MessageRow): Promise<string | undefined> {
  return (await receiveItems(bob.context, [await itemFor(alice, bob, id)]))[0]?.status;
}

interface SentReceipt {
  row: OutboxRow;
  wire: Buffer;
  rec: DeliveryReceipt;
}

/** The receipts of bob that wait. */
function receiptsOf(bob: PairedContext): Promise<SentReceipt[]> {
  return bob.store().read(async (reader) => {
    const sent: SentReceipt[] = [];
    for await (const { row } of reader.range('outbox', [])) {
      const wire = reader.get('outboxWire', row.rowId);
      if (row.kind === 'receipt' && wire) sent.push({ row, wire, rec: parseReceipt(wire).rec });
    }
    return sent;
  });
}

/** A message of alice, and the receipt of bob for it: what each of them says. An older program says nothing. */
async function exchange(
  alice: PairedContext,
  bob: PairedContext,
  isOlder = false,
): Promise<{ mail: unknown; receipt: unknown }> {
  const message = await write(alice, bob);
  const { home: mail } = await contentFor(alice, bob, message);
  expect(await bring(alice, bob, message)).toBe('accepted');
  const { rec, row } = found(
    (await receiptsOf(bob)).find((sent) => sent.rec.msg === message.id),
    'each message has a receipt',
  );
  const item = await itemFor(bob, alice, row.itemId);
  const { home: _home, ...without } = rec;
  if (isOlder) item.wire = Buffer.from(signedRecordJson(bob.host.signer, without), 'utf8');
  expect((await receiveItems(alice.context, [item]))[0]?.status).toBe('accepted');
  return { mail, receipt: await openInReceipt(HOME_SEAL, rec.home, rec, [alice.sealKey]) };
}

function heldBy(host: PairedContext, other: PairedContext) {
  return host.store().read((reader) => reader.get('peerHome', peerIdOf(other.host)));
}

async function warnings(host: PairedContext, act: () => Promise<unknown>): Promise<unknown[]> {
  const lines: unknown[] = [];
  host.context.log = (_level, message, facts) => void lines.push([message, facts]);
  await act();
  return lines;
}

describe('this host signs which relays are its homes', () => {
  test('never with one relay, and from the second on for ever', async () => {
    const { alice } = await pair();
    expect(await useRelays(alice, RELAYS.slice(0, 1))).toBeUndefined();
    const two = await useRelays(alice, RELAYS.slice(0, 2));
    expect(two).toMatchObject({ madeAtMs: NOON_MS, doc: { seq: NOON_MS, relays: RELAYS.slice(0, 2) } });
    expect(alice.told).toContainEqual({ type: 'home-changed' });
    expect(await useRelays(alice, RELAYS.slice(0, 2))).toEqual(two);
    expect((await useRelays(alice, RELAYS.slice(1, 2)))?.doc).toMatchObject({ seq: NOON_MS + 1, relays: [RELAYS[1]] });
    expect((await useRelays(alice, []))?.doc).toMatchObject({ seq: NOON_MS + 2, relays: [] });
  });

  test('a guest is in no document, and neither is an address that a document may not have', async () => {
    const { alice } = await pair();
    expect((await useRelays(alice, RELAYS, true))?.doc.relays).toEqual(RELAYS.slice(0, 2));
    const long = { relay_pubkey: RELAYS[1].relay_pubkey, url: `https://${'a'.repeat(260)}.example` };
    const said = await warnings(alice, () => useRelays(alice, [RELAYS[0], long]));
    expect((await alice.store().read(ownHome))?.doc.relays).toEqual(RELAYS.slice(0, 1));
    expect(said).toEqual([[expect.stringContaining('too long'), { url: long.url }]]);
  });
});

test('with one relay each, nothing new is said or stored', async () => {
  const { alice, bob } = await pair();
  await useRelays(alice, RELAYS.slice(0, 1));
  const message = await write(alice, bob);
  expect(Object.keys(await contentFor(alice, bob, message))).toEqual([
    'body',
    'kind',
    'needs_reply',
    'origin',
    'refs',
    'reply_to',
    'thread',
  ]);
  expect(await exchange(alice, bob)).toEqual({ mail: undefined, receipt: undefined });
  for (const host of [alice, bob]) expect(await host.store().read(peerHomes)).toEqual([]);
});

describe('in mail and receipts', () => {
  test('the receipt for the first message echoes its document, which is not said again', async () => {
    const { alice, bob } = await pair();
    const own = await useRelays(alice, RELAYS.slice(0, 2));
    const { doc, sig } = own!;
    expect(await exchange(alice, bob)).toEqual({ mail: { doc, sig }, receipt: { known: doc.seq } });
    expect(await bob.store().read((reader) => homeOf(reader, peerIdOf(alice.host)))).toEqual(RELAYS.slice(0, 2));
    expect(await heldBy(bob, alice)).toMatchObject({ held: { via: 'lan', learnedAtMs: NOON_MS, sig } });
    expect(await alice.store().read(peerHomes)).toMatchObject([{ row: { knownOurs: doc.seq }, knowsOurs: true }]);
    expect(await exchange(alice, bob)).toEqual({ mail: undefined, receipt: { known: doc.seq } });
    const next = await useRelays(alice, RELAYS);
    expect(await alice.store().read(peerHomes)).toMatchObject([{ knowsOurs: false }]);
    expect(await exchange(alice, bob)).toEqual({
      mail: { doc: next?.doc, sig: next?.sig },
      receipt: { known: next?.doc.seq },
    });
  });

  test('a receipt brings the document of its host, in its larger size', async () => {
    const { alice, bob } = await pair();
    const own = await useRelays(bob, RELAYS.slice(0, 2));
    const { doc, sig } = own!;
    expect(await exchange(alice, bob)).toEqual({ mail: undefined, receipt: { doc, sig } });
    const [{ rec }] = (await receiptsOf(bob)) as [SentReceipt];
    expect(Buffer.from((rec.home as { ct: string }).ct, 'base64')).toHaveLength(2_192);
    expect(await alice.store().read((reader) => homeOf(reader, peerIdOf(bob.host)))).toEqual(RELAYS.slice(0, 2));
    // The next message echoes it, so the receipt for it says nothing any more.
    expect(await exchange(alice, bob)).toEqual({ mail: { known: doc.seq }, receipt: undefined });
  });

  test('mail that a relay would take only without it goes without it, and tells nothing', async () => {
    const { alice, bob } = await pair();
    // Six bytes in JSON, which are eight in base64.
    const bodyOf = (length: number): Promise<MessageRow> => write(alice, bob, '\u001f'.repeat(length));
    const small = (await itemFor(alice, bob, (await bodyOf(60_000)).id)).wire.length;
    await useRelays(alice, RELAYS.slice(0, 2));
    const message = await bodyOf(60_000 + Math.floor((DEFAULT_LIMITS.max_item_bytes - small) / 8));
    expect((await contentFor(alice, bob, message)).home).toBeUndefined();
    expect(await heldBy(alice, bob)).toBeUndefined();
    expect((await contentFor(alice, bob, await write(alice, bob))).home).toBeDefined();
    expect(await heldBy(alice, bob)).toMatchObject({ told: { unanswered: 0 } });
  });

  test('20 messages that an older program confirms, and then it rides no more', async () => {
    const { alice, bob } = await pair();
    const own = await useRelays(alice, RELAYS.slice(0, 2));
    const mails = [];
    for (let nth = 0; nth < 21; nth++) mails.push((await exchange(alice, bob, true)).mail !== undefined);
    expect(mails).toEqual([...Array.from({ length: 20 }, () => true), false]);
    alice.clock.nowMs += 25 * HOUR_MS;
    const { doc, sig } = own!;
    expect((await exchange(alice, bob, true)).mail).toEqual({ doc, sig });
    expect((await exchange(alice, bob, true)).mail).toBeUndefined();
  });

  test('a receipt that was written keeps its bytes', async () => {
    const { alice, bob } = await pair();
    const own = await useRelays(bob, RELAYS.slice(0, 2));
    const message = await write(alice, bob);
    await bring(alice, bob, message);
    const [first] = await receiptsOf(bob);
    const next = await useRelays(bob, RELAYS);
    expect((await receiptsOf(bob))[0]?.wire).toEqual(first?.wire);
    // Nothing was sealed of the new document: the receipt shows what the one before did.
    await bob.store().transact((tx) => issueReceipt(tx, bob.context, { ref: message.ref, agentId: BERT }, 'read'));
    const [read] = await receiptsOf(bob);
    expect(read?.rec).toMatchObject({ state: 'read', home: first?.rec.home });
    const opened = async (sent: SentReceipt | undefined): Promise<SaidHome> =>
      (await openInReceipt(HOME_SEAL, sent?.rec.home, sent!.rec, [alice.sealKey])) as SaidHome;
    expect((await opened(read)).doc).toEqual(own?.doc);
    await bring(alice, bob, await write(alice, bob));
    expect((await opened((await receiptsOf(bob))[1])).doc).toEqual(next?.doc);
  });

  test('one content is sealed once for all receipts', async () => {
    const { alice, bob } = await pair();
    await useRelays(bob, RELAYS.slice(0, 2));
    for (let nth = 0; nth < 3; nth++) await bring(alice, bob, await write(alice, bob));
    const homes = (await receiptsOf(bob)).map(({ rec }) => (rec.home as { ct: string }).ct);
    expect(homes).toHaveLength(3);
    expect(new Set(homes).size).toBe(1);
  });
});

describe('what is not read', () => {
  test('a duplicate', async () => {
    const { alice, bob } = await pair();
    await useRelays(alice, RELAYS.slice(0, 2));
    const message = await write(alice, bob);
    const item = await itemFor(alice, bob, message.id);
    await receiveItems(bob.context, [item]);
    await bob.store().transact((tx) => tx.delete('peerHome', [peerIdOf(alice.host)]));
    expect((await receiveItems(bob.context, [item]))[0]?.status).toBe('duplicate');
    expect(await heldBy(bob, alice)).toBeUndefined();
  });

  test('mail that goes into quarantine', async () => {
    const { alice, bob } = await pair();
    await useRelays(alice, RELAYS.slice(0, 2));
    const message = await sendTo(alice, bob, { from: 'anna', to: ['nobody'] });
    expect(await bring(alice, bob, message)).toBe('quarantined');
    expect(await heldBy(bob, alice)).toBeUndefined();
  });

  test('what a host says that was unpaired; unpairing drops what it said before', async () => {
    const { alice, bob } = await pair();
    await useRelays(alice, RELAYS.slice(0, 2));
    await exchange(alice, bob);
    await unpair(bob.context, alice.host.name);
    expect(await heldBy(bob, alice)).toBeUndefined();
    const signed = signHomeRelays(alice.host.signer, { seq: NOON_MS + 9, relays: [] });
    const shown = { home: signed, via: 'lan', by: { type: 'lan' } } as const;
    await bob.store().transact((tx) => takeHome(tx, bob.context, peerIdOf(alice.host), shown));
    expect(await heldBy(bob, alice)).toBeUndefined();
  });
});

test('a bad document costs itself, and one line of the log a day', async () => {
  const { alice, bob } = await pair();
  const { doc } = signHomeRelays(alice.host.signer, { seq: 1, relays: [] });
  const { sig } = signHomeRelays(alice.host.signer, { seq: 2, relays: [] });
  await alice.store().transact((tx) => tx.put('homeDocument', [], { doc, sig, madeAtMs: NOON_MS }));
  const lines = await warnings(bob, async () => {
    for (let nth = 0; nth < 3; nth++) expect(await bring(alice, bob, await write(alice, bob))).toBe('accepted');
  });
  expect(lines).toEqual([
    [expect.stringContaining('does not count'), { host: 'alice', reason: 'host_pubkey did not sign it' }],
  ]);
  expect(await bob.store().read((reader) => homeOf(reader, peerIdOf(alice.host)))).toBeUndefined();
});

test('what a relay brings is held with the relay that brought it', async () => {
  const { alice, bob } = await pair();
  await useRelays(alice, RELAYS.slice(0, 2));
  const message = await write(alice, bob);
  const lan = await itemFor(alice, bob, message.id);
  const item = { ...lan, via: 'relay', relay: { pubkey: carol.key, epoch: 'E', seq: 1 } } as unknown as IncomingItem;
  expect((await receiveItems(bob.context, [item]))[0]?.status).toBe('accepted');
  expect(await heldBy(bob, alice)).toMatchObject({ held: { via: carol.key } });
});

describe('a host that was set back to a copy', () => {
  test('is shown a later document of its own, and signs one that is ahead of it', async () => {
    const { alice, bob } = await pair();
    const old = await useRelays(alice, RELAYS.slice(0, 2));
    alice.clock.nowMs += HOUR_MS;
    const later = await useRelays(alice, RELAYS);
    await exchange(alice, bob);
    // A day later alice is as before, and knows nothing of it.
    alice.clock.nowMs += 24 * HOUR_MS;
    await alice.store().transact((tx) => {
      tx.put('homeDocument', [], old!);
      tx.delete('peerHome', [peerIdOf(bob.host)]);
      tx.delete('relayMore', [RELAYS[2].relay_pubkey]);
    });
    await exchange(alice, bob);
    const [{ row, knowsOurs }] = (await alice.store().read(peerHomes)) as [Awaited<ReturnType<typeof peerHomes>>[0]];
    expect(row.later).toEqual({ seq: later?.doc.seq, atMs: alice.clock.nowMs, via: 'lan' });
    expect(knowsOurs).toBe(false);
    const anew = await alice.store().read(ownHome);
    expect(anew?.doc).toMatchObject({ seq: alice.clock.nowMs, relays: RELAYS.slice(0, 2) });
    expect(await exchange(alice, bob)).toMatchObject({ mail: { doc: anew?.doc }, receipt: { known: anew?.doc.seq } });
  });

  test('and one that had none in the copy signs which relay it has', async () => {
    const { alice, bob } = await pair();
    await useRelays(alice, RELAYS.slice(0, 1));
    const shown = { home: { known: NOON_MS + 5 }, via: carol.key, by: { type: 'message' } } as const;
    await alice.store().transact((tx) => takeHome(tx, alice.context, peerIdOf(bob.host), shown));
    expect((await alice.store().read(ownHome))?.doc).toMatchObject({ seq: NOON_MS + 6, relays: RELAYS.slice(0, 1) });
    expect(await alice.store().read((reader) => homeFor(reader, alice.context, peerIdOf(bob.host)))).toMatchObject({
      doc: { seq: NOON_MS + 6 },
    });
  });
});
