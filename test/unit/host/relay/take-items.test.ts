import { expect, onTestFinished, test, vi } from 'vitest';
import type { IncomingItem } from '../../../../src/host/inbound/verify.ts';
import { wireOf } from '../../../../src/host/outbox/outbox.ts';
import { sealSuite } from '../../../../src/host/mail/seal-suite.ts';
import type { HostStore } from '../../../../src/host/store/host-store.ts';
import { takeItems } from '../../../../src/host/relay/pulled-items.ts';
import type { Epoch } from '../../../../src/protocol/epoch.ts';
import { relay } from '../../../support/hosts.ts';
import { RelayContext, pinEachOther } from '../../../support/relay-contexts.ts';

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
  const stopping = new AbortController().signal;
  const done = (_tx: unknown, count: number): void => void counts.push(count);
  expect(await takeItems(items, { context: bob.context, done, stopping })).toBe(COUNT);
  expect(whileOpen).toEqual(items.map(() => 0));
  expect(counts).toEqual([32, COUNT]);
  expect(await bob.mailOf('bert')).toHaveLength(COUNT);
});
