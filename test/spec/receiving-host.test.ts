import { sha256Hex } from '../../src/protocol/encodings.ts';
import { expect, test } from 'vitest';
import { isoSecond } from '../../src/protocol/time.ts';
import { issueReceipt } from '../../src/host/outbox/outgoing-items.ts';
import { listQuarantine } from '../../src/host/inbound/quarantine.ts';
import { receiveItems } from '../../src/host/inbound/receive.ts';
import type { AgentId, MessageRef, SentRecipient } from '../../src/host/core/rows.ts';
import type { IncomingItem } from '../../src/host/inbound/verify.ts';
import { epochNumbered } from '../support/epochs.ts';
import { hostNamed, relay } from '../support/hosts.ts';
import {
  type PairedContext,
  addAgent,
  itemFor,
  lanItem,
  mailOf,
  pairedContexts,
  peerIdOf,
  pin,
  sendTo,
} from '../support/paired-contexts.ts';
import { rowsOf } from '../support/stored-rows.ts';

interface World {
  alice: PairedContext;
  bob: PairedContext;
}

async function world(): Promise<World> {
  const { alice, bob } = await pairedContexts();
  await addAgent(alice, 'anna');
  await addAgent(bob, 'bert');
  return { alice, bob };
}

/** The item as it is pulled from the relay. */
function pulled(item: IncomingItem, seq = 1): IncomingItem {
  return { ...item, via: 'relay', relay: { pubkey: relay.key, epoch: epochNumbered(1), seq } };
}

async function statusesAt({ context }: PairedContext, ...items: IncomingItem[]): Promise<string[]> {
  return (await receiveItems(context, items)).map(({ status }) => status);
}

/** The receipts that wait at bob, as items, lowest seq first. */
async function receiptsOf({ alice, bob }: World): Promise<IncomingItem[]> {
  const rows = await rowsOf(bob.store(), 'outbox', []);
  return Promise.all(rows.map(({ itemId }) => itemFor(bob, alice, itemId)));
}

function recipientsOf({ alice }: World, ref: MessageRef): Promise<SentRecipient[]> {
  return alice.store().read((reader) => reader.get('sent', ref)?.recipients ?? []);
}

test('receiving host rule 2: an envelope from the relay goes the same way in as one from the LAN', async () => {
  const w = await world();
  const { id, ref } = await sendTo(w.alice, w.bob, { from: 'anna', to: ['bert'] });
  const item = await itemFor(w.alice, w.bob, id);
  expect(await statusesAt(w.bob, pulled(item), item)).toEqual(['accepted', 'duplicate']);
  expect(await mailOf(w.bob, 'bert')).toEqual([ref]);
});

test('receiving host rule 2: a receipt is checked against the pinned and retired keys of its host', async () => {
  const w = await world();
  const { id, ref } = await sendTo(w.alice, w.bob, { from: 'anna', to: ['bert'] });
  await statusesAt(w.bob, await itemFor(w.alice, w.bob, id));
  const [receipt] = (await receiptsOf(w)).map((item) => pulled(item));
  const next = { publicKey: hostNamed('bob-next').key, pinnedAtMs: 1, retiredAtMs: null };
  await pin(w.alice, w.bob, { keys: [next] });
  expect(await statusesAt(w.alice, receipt!)).toEqual(['quarantined']);
  await pin(w.alice, w.bob, {
    keys: [{ publicKey: w.bob.host.key, pinnedAtMs: 0, retiredAtMs: w.alice.clock.nowMs }, next],
  });
  expect(await statusesAt(w.alice, receipt!)).toEqual(['accepted']);
  expect(await recipientsOf(w, ref)).toMatchObject([{ state: 'delivered' }]);
  expect((await listQuarantine(w.alice.context, {})).items).toEqual([]);
});

test('receiving host rule 3: what was accepted is a duplicate ever after, and changes nothing', async () => {
  const w = await world();
  const { id } = await sendTo(w.alice, w.bob, { from: 'anna', to: ['bert'] });
  const item = await itemFor(w.alice, w.bob, id);
  expect(await statusesAt(w.bob, item, pulled(item, 1), pulled(item, 2))).toEqual([
    'accepted',
    'duplicate',
    'duplicate',
  ]);
  await w.bob.reopen();
  expect(await statusesAt(w.bob, pulled(item, 3))).toEqual(['duplicate']);
  expect(await mailOf(w.bob, 'bert')).toHaveLength(1);
});

test('receiving host rule 4: what is rejected is in the quarantine record, with everything that it names', async () => {
  const w = await world();
  const stranger = {
    ...lanItem(w.alice, 'envelope', 'm1', Buffer.from('no envelope')),
    senderPubkey: hostNamed('eve').key,
  };
  expect(await statusesAt(w.bob, pulled(stranger, 7))).toEqual(['quarantined']);
  const { items } = await listQuarantine(w.bob.context, {});
  expect(items).toEqual([
    {
      number: 1,
      via: 'relay',
      relay: { pubkey: relay.key, epoch: epochNumbered(1), seq: 7 },
      kind: 'envelope',
      item_id: 'm1',
      sender_pubkey: hostNamed('eve').key,
      host: null,
      recipients: null,
      reason: 'malformed',
      detail: 'it is no JSON object',
      at: isoSecond(w.bob.clock.nowMs),
      bytes: 11,
      wire_hash: sha256Hex(stranger.wire),
      has_bytes: true,
      room: 'relays',
    },
  ]);
});

test('delivery receipt states: applied by state rank, then seq, so that order and repeats do no harm', async () => {
  const w = await world();
  const { id, ref } = await sendTo(w.alice, w.bob, { from: 'anna', to: ['bert'] });
  await statusesAt(w.bob, await itemFor(w.alice, w.bob, id));
  const [delivered] = await receiptsOf(w);
  await w.bob.store().transact((tx) => {
    issueReceipt(tx, w.bob.context, { ref, agentId: 'agent-bert' as AgentId }, 'read');
  });
  const [read] = await receiptsOf(w);
  expect(await statusesAt(w.alice, read!)).toEqual(['accepted']);
  const known = await recipientsOf(w, ref);
  expect(known).toMatchObject([{ state: 'read' }]);
  await statusesAt(w.alice, delivered!, read!, delivered!);
  expect(await recipientsOf(w, ref)).toEqual(known);
  expect(await w.alice.store().read((reader) => reader.get('outboxItem', peerIdOf(w.bob.host), id))).toBe(1);
});
