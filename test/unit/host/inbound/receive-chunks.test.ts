import { expect, onTestFinished, test, vi } from 'vitest';
import type { IncomingItem } from '../../../../src/host/inbound/verify.ts';
import { wireOf } from '../../../../src/host/outbox/outbox.ts';
import { sealSuite } from '../../../../src/host/wire/seal-suite.ts';
import type { HostStore } from '../../../../src/host/store/host-store.ts';
import { receiveItems } from '../../../../src/host/inbound/receive.ts';
import type { Epoch } from '../../../../src/protocol/names.ts';
import { relay } from '../../../support/hosts.ts';
import { RelayContext, pinEachOther } from '../../../support/relay-contexts.ts';
import { onEvent } from '../../../support/on-event.ts';

const COUNT = 40;

async function waiting(): Promise<{ bob: RelayContext; items: IncomingItem[] }> {
  const alice = await RelayContext.open('alice');
  const bob = await RelayContext.open('bob');
  await pinEachOther(alice, bob);
  await alice.addAgent('anna');
  await bob.addAgent('bert');
  await Promise.all(Array.from({ length: COUNT }, () => alice.sendTo(bob, 'anna', ['bert'])));
  const items = await alice.store.read(async (reader) => {
    const found: IncomingItem[] = [];
    for await (const { row } of reader.range('outbox', [])) {
      const place = { pubkey: relay.key, epoch: 'E' as Epoch, seq: row.rowId };
      const { kind, itemId } = row;
      found.push({
        via: 'relay',
        relay: place,
        kind,
        itemId,
        senderPubkey: alice.key,
        wire: wireOf(reader, row.rowId),
      });
    }
    return found;
  });
  return { bob, items };
}

test('seals are opened once each, and never while a transaction is open', async () => {
  const { bob, items } = await waiting();
  let open = 0;
  const { store } = bob;
  const transact = store.transact.bind(store);
  const watched: HostStore['transact'] = (work) =>
    transact(async (tx) => {
      open++;
      try {
        return await work(tx);
      } finally {
        open--;
      }
    });
  store.transact = watched;
  const whileOpen: number[] = [];
  const createRecipientContext = sealSuite.createRecipientContext.bind(sealSuite);
  const spy = vi.spyOn(sealSuite, 'createRecipientContext').mockImplementation((parameters) => {
    whileOpen.push(open);
    return createRecipientContext(parameters);
  });
  onTestFinished(() => spy.mockRestore());
  const counts: number[] = [];
  const done = (_tx: unknown, count: number): void => void counts.push(count);
  expect(await receiveItems(bob.context, items, { done })).toHaveLength(COUNT);
  expect(whileOpen).toEqual(items.map(() => 0));
  expect(counts).toEqual([32, COUNT]);
  expect(await bob.mailOf('bert')).toHaveLength(COUNT);
});

test('a stop comes between two transactions: what came before it is received, and nothing of the rest', async () => {
  const { bob, items } = await waiting();
  let asked = 0;
  const received = await receiveItems(bob.context, items, { goesOn: () => ++asked < 2 });
  expect(received.map(({ status }) => status)).toEqual(Array.from({ length: 32 }, () => 'accepted'));
  expect(await bob.mailOf('bert')).toHaveLength(32);
  expect(await bob.store.read((reader) => reader.get('counter', 'outbox'))).toBe(32);
});

test('the receipts of a chunk may leave before all of the items are received', async () => {
  const { bob, items } = await waiting();
  const stored: number[] = [];
  let receipts = 0;
  onEvent(bob.context, ({ type }) => {
    if (type === 'outbox-changed') receipts++;
  });
  await receiveItems(bob.context, items, { goesOn: () => stored.push(receipts) > 0 });
  expect(stored).toEqual([0, 32]);
});

test('nothing is received of nothing, and the store is not asked', async () => {
  const bob = await RelayContext.open('bob');
  const read = vi.spyOn(bob.context.store, 'read');
  expect(await receiveItems(bob.context, [])).toEqual([]);
  expect(read).not.toHaveBeenCalled();
});
