import { expect, onTestFinished, test, vi } from 'vitest';
import { noteText, openCheckpoint } from '../../../../src/protocol/checkpoint.ts';
import type { ItemId } from '../../../../src/protocol/names.ts';
import { AppendGate } from '../../../support/append-gate.ts';
import { pushOf } from '../../../support/commands.ts';
import { alice, bob, carol, relay as relayHost } from '../../../support/hosts.ts';
import { type TestRelay, enrolledTestRelay } from '../../../support/test-relay.ts';

const item = { itemId: 'm1' as ItemId, senders: [alice.key], targets: [bob.key] };

async function enrolledRelay(): Promise<TestRelay> {
  const relay = await enrolledTestRelay(alice, bob, carol);
  return relay;
}

const sizeOf = ({ engine }: TestRelay): number | undefined =>
  openCheckpoint(engine.log.checkpoint() ?? '', relayHost.key)?.size;

test('nothing is proven of a batch that is on its way', async () => {
  const relay = await enrolledRelay();
  const before = sizeOf(relay);
  const gate = AppendGate.closed(relay.store);
  const pushed = relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  await gate.arrived(1);
  expect([sizeOf(relay), await relay.engine.log.item(item)]).toEqual([before, 'unknown']);
  gate.open();
  await pushed;
  expect(sizeOf(relay)).toBe((before ?? 0) + 1);
  expect(await relay.engine.log.item(item)).toMatchObject({ index: before });
});

test('nothing is proven of a batch that LevelDB shows and the store never took for durable', async () => {
  const relay = await enrolledRelay();
  const before = sizeOf(relay);
  relay.store.tree.grown = () => {
    throw new Error('EIO');
  };
  await expect(relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]))).rejects.toThrow('the store failed');
  expect(relay.store.get('dedup', alice.key + bob.key + item.itemId)).toBeDefined();
  expect([sizeOf(relay), await relay.engine.log.item(item)]).toEqual([before, 'unknown']);
});

test('a head that was signed is not signed again while the log grows, nor for proofs under it', async () => {
  const relay = await enrolledRelay();
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  const { log } = relay.engine;
  const size = sizeOf(relay) ?? 0;
  const signed = vi.spyOn(relayHost.signer, 'sign');
  onTestFinished(() => signed.mockRestore());
  const first = log.checkpoint();
  for (const itemId of ['m2', 'm3', 'm4']) {
    await relay.pushOne(pushOf(alice, itemId, [[bob, 'x']]));
    expect(await log.item({ ...item, size })).toMatchObject({ checkpoint: first });
    expect(log.checkpointAt(size)).toBe(first);
  }
  const earlier = log.checkpointAt(size - 1) ?? '';
  const texts = new Set(signed.mock.calls.map(([text]) => Buffer.from(text).toString()));
  expect([first ?? '', earlier].map((note) => texts.has(noteText(note)))).toEqual([false, true]);
});

test('an item whose record is gone is pruned, to its sender alone', async () => {
  const relay = await enrolledRelay();
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  relay.store.record = () => Promise.resolve(undefined);
  expect(await relay.engine.log.item(item)).toBe('pruned');
  expect(await relay.engine.log.item({ ...item, senders: [carol.key] })).toBe('unknown');
});

test('a record that is not the one of the item is shown to nobody', async () => {
  const relay = await enrolledRelay();
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  await relay.pushOne(pushOf(carol, 'm1', [[bob, 'y']]));
  const { store } = relay;
  const row = store.get('dedup', carol.key + bob.key + item.itemId);
  const get = store.get.bind(store);
  store.get = ((table: string, key: string) =>
    table === 'dedup' && key.startsWith(alice.key)
      ? { ...row, senderPubkey: alice.key }
      : get(table as 'dedup', key)) as never;
  await expect(relay.engine.log.item(item)).rejects.toThrow('invariant');
});

test('the own pair of keys comes before the others of the lineages', async () => {
  const relay = await enrolledRelay();
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  await relay.pushOne(pushOf(carol, 'm1', [[bob, 'y']]));
  const proofs = [alice, carol].map(({ key }) => relay.engine.log.item({ ...item, senders: [key] }));
  const [ofAlice, ofCarol] = await Promise.all(proofs);
  expect(ofAlice).not.toEqual(ofCarol);
  expect(await relay.engine.log.item({ ...item, senders: [carol.key, alice.key] })).toEqual(ofCarol);
  expect(await relay.engine.log.item({ ...item, senders: [alice.key, carol.key] })).toEqual(ofAlice);
});
