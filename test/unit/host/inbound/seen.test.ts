/** Tests what hosts show each other of a relay in mail and in delivery receipts. */
import * as fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { receiveItems } from '../../../../src/host/inbound/receive.ts';
import type { HeldHome } from '../../../../src/host/core/home-documents.ts';
import type { AgentId, MessageRow, OutboxRow, SealKey } from '../../../../src/host/core/rows.ts';
import { afterAttempt } from '../../../../src/host/outbox/outbox.ts';
import { issueReceipt } from '../../../../src/host/outbox/outgoing-items.ts';
import {
  marksToSay,
  sealForReceipts,
  seenForPeer,
  seenForReceipt,
  takeSeen,
} from '../../../../src/host/outbox/seen.ts';
import { evidenceIn, putDismissed, trustIn } from '../../../../src/host/outbox/trust-rows.ts';
import { pinRelay } from '../../../../src/host/relay/relay-rows.ts';
import { parseContent, parseEnvelope, parseReceipt } from '../../../../src/host/wire/parse.ts';
import { openSeal, sealEnvelope, type SealedContent } from '../../../../src/host/wire/sealing.ts';
import { openInReceipt, SEEN_SEAL } from '../../../../src/host/outbox/receipt-seals.ts';
import { parseJsonBounded, RECEIPT_JSON_BOUNDS } from '../../../../src/protocol/json.ts';
import { canonicalBytes, type DeliveryReceipt, signDocument } from '../../../../src/protocol/documents.ts';
import { DEFAULT_LIMITS } from '../../../../src/protocol/limits.ts';
import { markOf, parseSeen, type SeenEntry } from '../../../../src/protocol/seen.ts';
import { hostNamed, relay } from '../../../support/hosts.ts';
import {
  addAgent,
  itemFor,
  lanItem,
  mailOf,
  type PairedContext,
  pairedContext,
  pairedContexts,
  peerIdOf,
  pin,
  sendTo,
} from '../../../support/paired-contexts.ts';
import { forkedEntry, looked, seenEntry } from '../../../support/relay-notes.ts';

const BERT = 'agent-bert' as AgentId;

/** Both use the relay, and know it of each other: alice, where anna lives, and bob, where bert lives. */
async function pair(): Promise<{ alice: PairedContext; bob: PairedContext }> {
  const { alice, bob } = await pairedContexts();
  await addAgent(alice, 'anna');
  await addAgent(bob, 'bert');
  for (const [host, other] of [
    [alice, bob],
    [bob, alice],
  ] as const) {
    const pinned = { url: 'http://127.0.0.1:1', pubkey: relay.key, proof: null };
    await host.store().transact((tx) => void pinRelay(tx, host.context, pinned));
    await pin(host, other, { atRelay: relay.key });
  }
  return { alice, bob };
}

/** The notes that this host has heard of peers and not joined yet. */
async function heardAt(host: PairedContext): Promise<{ peerId: string; note: string }[]> {
  const { pending } = await host.store().read((reader) => trustIn(reader, relay.key));
  return pending.map(({ peerId, note }) => ({ peerId, note }));
}

function write(alice: PairedContext, bob: PairedContext, body = 'Guten Tag'): Promise<MessageRow> {
  return sendTo(alice, bob, { from: 'anna', to: ['bert'], body });
}

/** Brings a message from alice to bob, and answers its status there. */
async function bring(alice: PairedContext, bob: PairedContext, { id }: MessageRow): Promise<string | undefined> {
  return (await receiveItems(bob.context, [await itemFor(alice, bob, id)]))[0]?.status;
}

async function contentFor(alice: PairedContext, bob: PairedContext, { id }: MessageRow): Promise<SealedContent> {
  const { envelope, members } = parseEnvelope((await itemFor(alice, bob, id)).wire);
  return parseContent(await openSeal(envelope, bob.sealKey, members));
}

function receiptsOf(bob: PairedContext): Promise<{ row: OutboxRow; wire: Buffer; rec: DeliveryReceipt }[]> {
  return bob.store().read(async (reader) => {
    const found = [];
    for await (const { row } of reader.range('outbox', [])) {
      const wire = reader.get('outboxWire', row.rowId);
      if (row.kind === 'receipt' && wire) found.push({ row, wire, rec: parseReceipt(wire).rec });
    }
    return found;
  });
}

/** The receipt of bob that waits, taken to alice, and what she makes of it. */
async function bringReceipt(alice: PairedContext, bob: PairedContext): Promise<string | undefined> {
  const [receipt] = await receiptsOf(bob);
  const item = await itemFor(bob, alice, receipt!.row.itemId);
  const [received] = await receiveItems(alice.context, [item]);
  await bob.store().transact((tx) => void afterAttempt(tx, bob.context, receipt!.row.rowId, { type: 'lan-accepted' }));
  return received?.status;
}

function say(bob: PairedContext, { ref }: MessageRow, state: 'notified' | 'read'): Promise<void> {
  return bob.store().transact((tx) => issueReceipt(tx, bob.context, { ref, agentId: BERT }, state));
}

async function shownBy({ rec }: { rec: DeliveryReceipt }, key: SealKey): Promise<SeenEntry[]> {
  return parseSeen([await openInReceipt(SEEN_SEAL, rec.seen, rec, [key])]);
}

describe('1, sealed content', () => {
  test('a message shows the newest note, and its receiver hears it with the message', async () => {
    const { alice, bob } = await pair();
    await looked(alice.context, 17);
    const message = await write(alice, bob);
    expect((await contentFor(alice, bob, message)).seen).toEqual([seenEntry(17)]);
    expect(await bring(alice, bob, message)).toBe('accepted');
    expect(await heardAt(bob)).toEqual([{ peerId: peerIdOf(alice.host), note: seenEntry(17).checkpoint }]);
  });

  test('without a note the content is what it was before', async () => {
    const { alice, bob } = await pair();
    const names = Object.keys(await contentFor(alice, bob, await write(alice, bob)));
    expect(names).toEqual(['body', 'kind', 'needs_reply', 'origin', 'refs', 'reply_to', 'thread']);
  });

  test('every other message to a peer has one of the notes that contradict each other, in turn', async () => {
    const { alice, bob } = await pair();
    await looked(alice.context, 17, [1, 2]);
    const shown = [];
    for (let nth = 0; nth < 6; nth++) shown.push((await contentFor(alice, bob, await write(alice, bob))).seen);
    expect(shown).toEqual([17, 1, 17, 2, 17, 1].map((size) => [seenEntry(size)]));
  });

  test('a message that a relay would take only without it goes without it', async () => {
    const { alice, bob } = await pair();
    // Six bytes in JSON, which are eight in base64.
    const bodyOf = async (length: number) => write(alice, bob, '\u001f'.repeat(length));
    const sizeOf = async ({ id }: MessageRow): Promise<number> => (await itemFor(alice, bob, id)).wire.length;
    const largest = 60_000 + Math.floor((DEFAULT_LIMITS.max_item_bytes - (await sizeOf(await bodyOf(60_000)))) / 8);
    const before = await sizeOf(await bodyOf(largest));
    expect(DEFAULT_LIMITS.max_item_bytes - before).toBeLessThan(8);
    await looked(alice.context, 17);
    const message = await bodyOf(largest);
    expect(await sizeOf(message)).toBe(before);
    expect((await contentFor(alice, bob, message)).seen).toBeUndefined();
    expect((await contentFor(alice, bob, await bodyOf(largest - 200))).seen).toEqual([seenEntry(17)]);
    await show(alice, bob, seenEntry(18));
    expect(await sizeOf(await bodyOf(largest))).toBe(before);
  });
});

/** The host is shown this by the other one, as over the LAN. */
function show(host: PairedContext, by: PairedContext, ...entries: SeenEntry[]): Promise<void> {
  return host.store().transact((tx) => takeSeen(tx, host.context, peerIdOf(by.host), { entries, heard: [] }));
}

describe('2, delivery receipts', () => {
  test("`delivered` shows the newest note, sealed for the sender's host, which hears it", async () => {
    const { alice, bob } = await pair();
    await looked(bob.context, 17);
    await bring(alice, bob, await write(alice, bob));
    const [receipt] = await receiptsOf(bob);
    expect(await shownBy(receipt!, alice.sealKey)).toEqual([seenEntry(17)]);
    expect(await bringReceipt(alice, bob)).toBe('accepted');
    expect(await heardAt(alice)).toEqual([{ peerId: peerIdOf(bob.host), note: seenEntry(17).checkpoint }]);
  });

  test('before there is a note it has the same size, and without a relay it is absent', async () => {
    const { alice, bob } = await pair();
    const sizes = new Set<number>();
    await bring(alice, bob, await write(alice, bob));
    await looked(bob.context, 17);
    await bring(alice, bob, await write(alice, bob));
    for (const { wire } of await receiptsOf(bob)) sizes.add(wire.length);
    expect([...sizes]).toHaveLength(1);
    await bob.store().transact((tx) => tx.delete('relay', []));
    await bring(alice, bob, await write(alice, bob));
    const receipts = await receiptsOf(bob);
    expect(receipts.map(({ rec }) => Object.hasOwn(rec, 'seen'))).toEqual([true, true, false]);
  });

  test('it is sealed once a look, and a receipt that was written is never sealed again', async () => {
    const { alice, bob } = await pair();
    await looked(bob.context, 17);
    for (let nth = 0; nth < 2; nth++) await bring(alice, bob, await write(alice, bob));
    const first = await receiptsOf(bob);
    expect(new Set(first.map(({ rec }) => JSON.stringify(rec.seen))).size).toBe(1);
    await looked(bob.context, 18);
    await bring(alice, bob, await write(alice, bob));
    const all = await receiptsOf(bob);
    expect(all.slice(0, 2)).toEqual(first);
    expect(await shownBy(all[2]!, alice.sealKey)).toEqual([seenEntry(18)]);
  });

  test('while there are notes that contradict each other, one of them is shown after every other look', async () => {
    const { alice, bob } = await pair();
    const shown = [];
    for (const size of [11, 12, 13, 14, 15]) {
      await looked(bob.context, size, [1, 2]);
      for (let nth = 0; nth < 2; nth++) await bring(alice, bob, await write(alice, bob));
      shown.push(await shownBy((await receiptsOf(bob)).at(-1)!, alice.sealKey));
    }
    expect(shown).toEqual([11, 1, 13, 2, 15].map((size) => [seenEntry(size)]));
  });

  test('one in the place of a receipt that was not sent has it, also after a start; a later one has none', async () => {
    const { alice, bob } = await pair();
    await looked(bob.context, 17);
    const message = await write(alice, bob);
    await bring(alice, bob, message);
    await say(bob, message, 'notified');
    const [notified] = await receiptsOf(bob);
    expect(notified!.rec.state).toBe('notified');
    expect(await shownBy(notified!, alice.sealKey)).toEqual([seenEntry(17)]);
    // As in a daemon that was started anew, before mail of alice came.
    const anew = { ...bob.context, store: bob.store() };
    await bob.store().transact((tx) => issueReceipt(tx, anew, { ref: message.ref, agentId: BERT }, 'read'));
    const [read] = await receiptsOf(bob);
    expect(read!.rec).toMatchObject({ state: 'read', seen: notified!.rec.seen });
    expect(await bringReceipt(alice, bob)).toBe('accepted');
    await bob.store().transact((tx) => issueReceipt(tx, bob.context, { ref: message.ref, agentId: BERT }, 'acked'));
    const [acked] = await receiptsOf(bob);
    expect(acked!.rec.state).toBe('acked');
    expect(acked!.rec).not.toHaveProperty('seen');
  });

  test('to a host whose key nothing can be sealed to, the receipt says the rest', async () => {
    const { alice, bob } = await pair();
    await looked(bob.context, 17);
    const encPub = Buffer.alloc(32).toString('base64');
    await pin(bob, alice, { encKey: { hostPubkey: alice.host.key, encPub, at: 0, sig: '' } });
    expect(await bring(alice, bob, await write(alice, bob))).toBe('accepted');
    expect((await receiptsOf(bob))[0]!.rec).not.toHaveProperty('seen');
    expect(await bringReceipt(alice, bob)).toBe('accepted');
  });

  test('what could not be sealed is tried again a minute later', async () => {
    const { alice, bob } = await pair();
    await looked(bob.context, 17);
    const encPub = Buffer.alloc(32).toString('base64');
    await pin(bob, alice, { encKey: { hostPubkey: alice.host.key, encPub, at: 0, sig: '' } });
    let [nowMs, tried] = [0, 0];
    const context = { ...bob.context, monotonicMs: () => nowMs, log: () => void tried++ };
    const triedAt = async (ms: number): Promise<number> => {
      nowMs = ms;
      await bob.store().read((reader) => {
        const peer = reader.get('peer', peerIdOf(alice.host));
        return peer && sealForReceipts(reader, context, peer, alice.host.key);
      });
      return tried;
    };
    expect([await triedAt(0), await triedAt(59_999), await triedAt(60_000)]).toEqual([1, 1, 2]);
  });
});

const [ofAlice, ofBob] = [seenEntry(17), seenEntry(16)];

/** Alice has looked at 17 leaves, and bob at 16. */
async function bothLooked(): Promise<{ alice: PairedContext; bob: PairedContext }> {
  const { alice, bob } = await pair();
  await looked(alice.context, 17);
  await looked(bob.context, 16);
  return { alice, bob };
}

/** Alice writes, bob gets it, and she his receipt: what each of both shows and says that its host has heard. */
async function exchange(alice: PairedContext, bob: PairedContext, isOlder = false) {
  const message = await write(alice, bob);
  const { seen, heard } = await contentFor(alice, bob, message);
  expect(await bring(alice, bob, message)).toBe('accepted');
  const [receipt] = await receiptsOf(bob);
  const { rec, row } = receipt!;
  const { heard: marks, ...rest } = rec;
  const wire = canonicalBytes({ rec: rest, sig: signDocument(bob.host.signer, rest) });
  if (isOlder) await bob.store().transact((tx) => tx.put('outboxWire', [row.rowId], wire));
  expect(await bringReceipt(alice, bob)).toBe('accepted');
  const told = { ...(rec.seen !== undefined && { seen: await shownBy(receipt!, alice.sealKey) }) };
  return [
    { ...(seen !== undefined && { seen }), ...(heard !== undefined && { heard }) },
    { ...told, ...(marks !== undefined && { heard: marks }) },
  ];
}

describe('3, what a host has heard it says, and that is shown no more', () => {
  test('in mail and in receipts, once for each time that it came, until the next look', async () => {
    const { alice, bob } = await bothLooked();
    const [a, b] = [{ seen: [ofAlice] }, { seen: [ofBob] }];
    const [aIsHeard, bIsHeard] = [{ heard: [markOf(ofAlice)] }, { heard: [markOf(ofBob)] }];
    expect(await exchange(alice, bob)).toEqual([a, b]);
    expect(await exchange(alice, bob)).toEqual([{ ...a, ...bIsHeard }, aIsHeard]);
    expect(await exchange(alice, bob)).toEqual([{}, aIsHeard]);
    expect(await exchange(alice, bob)).toEqual([{}, {}]);
    await looked(alice.context, 18);
    expect(await exchange(alice, bob)).toEqual([{ seen: [seenEntry(18)] }, {}]);
    expect(await exchange(alice, bob)).toEqual([{ seen: [seenEntry(18)] }, { heard: [markOf(seenEntry(18))] }]);
    await looked(bob.context, 19);
    const known = { heard: [markOf(seenEntry(18))] };
    expect(await exchange(alice, bob)).toEqual([{}, { seen: [seenEntry(19)], ...known }]);
    expect(await exchange(alice, bob)).toEqual([{ heard: [markOf(seenEntry(19))] }, {}]);
    expect(await exchange(alice, bob)).toEqual([{}, {}]);
  });

  test('a host of before, which says nothing, is shown it in every message and receipt', async () => {
    const { alice, bob } = await bothLooked();
    for (let nth = 0; nth < 5; nth++) expect((await exchange(alice, bob, true))[0]).toMatchObject({ seen: [ofAlice] });
    const older = await pair();
    await looked(older.bob.context, 16);
    for (let nth = 0; nth < 3; nth++) {
      // Alice forgets what she heard before she writes.
      marksToSay(older.alice.context, peerIdOf(older.bob.host));
      expect((await exchange(older.alice, older.bob))[1]).toEqual({ seen: [ofBob] });
    }
  });

  test('evidence that comes between looks is told by the next receipt, heard notes are not told again', async () => {
    const { alice, bob } = await bothLooked();
    await looked(bob.context, 16, [1]);
    const shown = async () => (await exchange(alice, bob))[1]?.seen;
    expect([await shown(), await shown()]).toEqual([[ofBob], [ofBob]]);
    // A reader that began before is told what there was then, and leaves nothing behind.
    const before = await bob.store().read(async (reader) => {
      await show(bob, alice, forkedEntry(16));
      return seenForPeer(reader, bob.context, reader.get('peer', peerIdOf(alice.host))!, 3);
    });
    expect(before).toEqual([seenEntry(1)]);
    expect([await shown(), await shown()]).toEqual([[seenEntry(1)], [seenEntry(1)]]);
    const all = await bob.store().read((reader) => evidenceIn(reader, relay.key));
    await bob.store().transact((tx) => all.forEach((row) => putDismissed(tx, bob.context, row)));
    expect(await shown()).toBeUndefined();
  });

  test('after a start it is shown once more', async () => {
    const { alice, bob } = await bothLooked();
    for (let nth = 0; nth < 4; nth++) await exchange(alice, bob);
    await alice.reopen();
    expect((await exchange(alice, bob))[0]).toEqual({ seen: [ofAlice] });
  });

  test('another mark, as of an entry of before, changes nothing, nor does one that another host says', async () => {
    const { alice, bob } = await bothLooked();
    const carol = await pairedContext('carol');
    onTestFinished(() => carol.close());
    await pin(alice, carol, { atRelay: relay.key });
    const say = (by: PairedContext, ...heard: string[]): Promise<void> =>
      alice.store().transact((tx) => takeSeen(tx, alice.context, peerIdOf(by.host), { entries: [], heard }));
    await say(bob, markOf(seenEntry(15)));
    await say(carol, markOf(ofAlice));
    expect((await contentFor(alice, bob, await write(alice, bob))).seen).toEqual([ofAlice]);
    await say(bob, markOf(seenEntry(15)), markOf(ofAlice));
    expect((await contentFor(alice, bob, await write(alice, bob))).seen).toBeUndefined();
  });

  test('notes that contradict each other are shown on and on', async () => {
    const { alice, bob } = await pair();
    await looked(alice.context, 17, [1, 2]);
    const shown = [];
    for (let nth = 0; nth < 6; nth++) shown.push((await exchange(alice, bob))[0]!['seen']);
    expect(shown).toEqual([17, 1, 17, 2, 17, 1].map((size) => [seenEntry(size)]));
    await looked(bob.context, 17, [1]);
    for (let nth = 0; nth < 3; nth++) expect((await exchange(alice, bob))[1]).toHaveProperty('seen');
  });

  test('evidence that comes between two looks is told at once, also to a host that has heard the note', async () => {
    const { alice, bob } = await bothLooked();
    for (let nth = 0; nth < 3; nth++) await exchange(alice, bob);
    expect((await contentFor(alice, bob, await write(alice, bob))).seen).toBeUndefined();
    await show(alice, bob, forkedEntry(17));
    expect((await contentFor(alice, bob, await write(alice, bob))).seen).toEqual([ofAlice]);
  });

  test('what was not stored, or found no room, was not heard', async () => {
    const { alice, bob } = await pair();
    const failing = bob.store().transact(async (tx) => {
      await takeSeen(tx, bob.context, peerIdOf(alice.host), { entries: [ofAlice], heard: [] });
      throw new Error('no room');
    });
    await expect(failing).rejects.toThrow('no room');
    expect(marksToSay(bob.context, peerIdOf(alice.host))).toBeUndefined();
    await show(bob, alice, ofAlice);
    await show(bob, alice, ofBob);
    expect(marksToSay(bob.context, peerIdOf(alice.host))).toEqual([markOf(ofAlice)]);
  });

  test('a receipt in the place of one that was not sent says it too', async () => {
    const { alice, bob } = await bothLooked();
    await show(bob, alice, ofAlice);
    const message = await write(alice, bob);
    await bring(alice, bob, message);
    marksToSay(bob.context, peerIdOf(alice.host));
    await say(bob, message, 'notified');
    expect((await receiptsOf(bob)).map(({ rec }) => [rec.state, rec.heard])).toEqual([['notified', [markOf(ofAlice)]]]);
    // Beside what was heard since.
    await show(bob, alice, seenEntry(18));
    await say(bob, message, 'read');
    expect((await receiptsOf(bob))[0]?.rec.heard).toEqual([markOf(seenEntry(18)), markOf(ofAlice)]);
  });
});

describe('several relays that both use', () => {
  const [second, third] = [hostNamed('second-relay'), hostNamed('third-relay')];

  /** Both use three relays, and the third is not known to know the other. Alice takes her mail at the second first. */
  async function several(): Promise<{ alice: PairedContext; bob: PairedContext }> {
    const { alice, bob } = await pair();
    for (const [host, other] of [
      [alice, bob],
      [bob, alice],
    ] as const) {
      await host.store().transact((tx) => {
        const row = tx.get('relay')!;
        for (const [at, { key: pubkey }] of [second, third].entries())
          tx.put('relayMore', [pubkey], { ...row, pubkey, rank: at + 1, role: 'home' });
      });
      await pin(host, other, { atRelay: relay.key, alsoAt: [second.key] });
      for (const [at, one] of [relay, second, third].entries()) await looked(host.context, 17 + at, [], one);
    }
    const relays = [second, relay].map(({ key }) => ({ relay_pubkey: key, url: 'https://relay.example' }));
    await bob.store().transact((tx) => {
      const held = { relays, seq: 1 } as unknown as HeldHome;
      tx.put('peerHome', [peerIdOf(alice.host)], { held });
    });
    return { alice, bob };
  }

  test('a message shows two of them, first the one that its receiver prefers, and both are heard', async () => {
    const { alice, bob } = await several();
    await addAgent(alice, 'anna');
    const answer = await sendTo(bob, alice, { from: 'bert', to: ['anna'], body: 'Ja' });
    const { seen } = await contentFor(bob, alice, answer);
    expect(seen).toEqual([seenEntry(18, second), seenEntry(17)]);
    // Its own notes are the same, so that nothing of them is left to be joined.
    await looked(alice.context, 3, [], second);
    expect((await receiveItems(alice.context, [await itemFor(bob, alice, answer.id)]))[0]?.status).toBe('accepted');
    const { pending } = await alice.store().read((reader) => trustIn(reader, second.key));
    expect(pending.map(({ note }) => note)).toEqual([seenEntry(18, second).checkpoint]);
  });

  test('of two, a message shows the one that its receiver has not heard', async () => {
    const { alice, bob } = await several();
    const say = (...heard: string[]): Promise<void> =>
      bob.store().transact((tx) => takeSeen(tx, bob.context, peerIdOf(alice.host), { entries: [], heard }));
    const shown = async () =>
      (await contentFor(bob, alice, await sendTo(bob, alice, { from: 'bert', to: ['anna'] }))).seen;
    await say(markOf(seenEntry(18, second)));
    expect(await shown()).toEqual([seenEntry(17)]);
    await say(markOf(seenEntry(17)));
    expect(await shown()).toBeUndefined();
    await looked(bob.context, 20, [], second);
    expect(await shown()).toEqual([seenEntry(20, second)]);
    await show(bob, alice, seenEntry(3, second), seenEntry(3));
    expect(marksToSay(bob.context, peerIdOf(alice.host))).toEqual([markOf(seenEntry(3, second)), markOf(seenEntry(3))]);
  });

  test.each([
    ['the relay that brought the message', relay.key, seenEntry(17)],
    ['the one that the sender prefers, when another way brought it', undefined, seenEntry(18, second)],
    ['that one too when a relay brought it that is not known to know the sender', third.key, seenEntry(18, second)],
  ])('a receipt shows %s', async (_which, over, shown) => {
    const { alice, bob } = await several();
    const { key: to } = alice.host;
    const parties = { host_pubkey: bob.host.key, sender_host_pubkey: to };
    const sealed = await bob.store().read(async (reader) => {
      const peer = reader.get('peer', peerIdOf(alice.host))!;
      for (const one of [relay.key, second.key, undefined, third.key])
        await sealForReceipts(reader, bob.context, peer, to, one);
      expect(sealForReceipts(reader, bob.context, peer, to, over)).toBeUndefined();
      return seenForReceipt(reader, bob.context, peer, parties, { over });
    });
    const rec = { ...parties, seen: sealed };
    expect(parseSeen([await openInReceipt(SEEN_SEAL, sealed, rec, [alice.sealKey])])).toEqual([shown]);
  });
});

describe('a `seen` or `heard` that says nothing costs neither mail nor receipt', () => {
  // Beside it a receipt has two levels, and some thirty values, of what it may have.
  const bounds = { ...RECEIPT_JSON_BOUNDS, depthMax: RECEIPT_JSON_BOUNDS.depthMax - 2, valuesMax: 75 };
  const anything = fc
    .oneof(
      fc.jsonValue(),
      fc.array(fc.record({ relay: fc.jsonValue(), checkpoint: fc.string(), knew: fc.string() }, { requiredKeys: [] })),
    )
    .filter((seen) => parseJsonBounded(Buffer.from(JSON.stringify(seen)), bounds) !== undefined);

  test('property: whatever stands in a message, it is delivered', async () => {
    const { alice, bob } = await pair();
    const message = await write(alice, bob);
    const { envelope } = parseEnvelope((await itemFor(alice, bob, message.id)).wire);
    const { hops: _hops, sealed: _sealed, sig: _sig, ...head } = envelope;
    const content = await contentFor(alice, bob, message);
    let count = 0;
    await fc.assert(
      fc.asyncProperty(anything, anything, async (seen, heard) => {
        const id = `m${count++}`;
        const told = JSON.parse(JSON.stringify({ seen, heard })) as object;
        const sealed = await sealEnvelope(
          { ...head, id },
          { ...content, thread: id, ...told },
          bob.sealKey.encPub,
          alice.host.signer,
        );
        const item = lanItem(alice, 'envelope', id, canonicalBytes(sealed));
        expect(await receiveItems(bob.context, [item])).toEqual([{ status: 'accepted' }]);
      }),
      { numRuns: 40 },
    );
    expect(await mailOf(bob, 'bert')).toHaveLength(count);
    expect(await heardAt(bob)).toEqual([]);
  });

  test('property: whatever stands in a receipt, or nothing as from a host of before, it counts', async () => {
    const { alice, bob } = await pair();
    await fc.assert(
      fc.asyncProperty(fc.option(anything, { nil: undefined }), anything, async (seen, heard) => {
        const message = await write(alice, bob);
        await bring(alice, bob, message);
        const [receipt] = await receiptsOf(bob);
        const { seen: _sealed, ...rest } = receipt!.rec;
        const shown = seen === undefined ? {} : (JSON.parse(JSON.stringify({ seen, heard })) as object);
        const rec = { ...rest, ...shown };
        const wire = canonicalBytes({ rec, sig: signDocument(bob.host.signer, rec) });
        const item = lanItem(bob, 'receipt', receipt!.row.itemId, wire);
        expect(await receiveItems(alice.context, [item])).toEqual([{ status: 'accepted' }]);
        const { rowId } = receipt!.row;
        await bob.store().transact((tx) => void afterAttempt(tx, bob.context, rowId, { type: 'lan-accepted' }));
      }),
      { numRuns: 30 },
    );
    expect(await heardAt(alice)).toEqual([]);
  });
});
