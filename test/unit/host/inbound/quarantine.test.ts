import { expect, test } from 'vitest';
import {
  discardQuarantined,
  listQuarantine,
  retryQuarantine,
  showQuarantined,
} from '../../../../src/host/inbound/quarantine.ts';
import { receiveItems } from '../../../../src/host/inbound/receive.ts';
import {
  type PairedContext,
  addAgent,
  itemFor,
  lanItem,
  mailOf,
  pairedContexts,
  sendTo,
} from '../../../support/paired-contexts.ts';

/** bob has two items of alice's: one for an agent that is not there, one that is no envelope. */
async function kept(): Promise<{ alice: PairedContext; bob: PairedContext; ref: string }> {
  const { alice, bob } = await pairedContexts();
  await addAgent(alice, 'anna');
  const { id, ref } = await sendTo(alice, bob, { from: 'anna', to: ['nobody'] });
  const garbage = lanItem(alice, 'envelope', 'garbage', Buffer.from('garbage'));
  await receiveItems(bob.context, [await itemFor(alice, bob, id), garbage]);
  return { alice, bob, ref };
}

test('is listed, newest first, by host, reason and page, with what it holds and may hold', async () => {
  const { bob } = await kept();
  const all = await listQuarantine(bob.context, {});
  expect(all).toMatchObject({ total_items: 2, next_before: null });
  expect(all.rooms).toMatchObject([
    { room: 'hosts', items: 2, items_max: 10_000 },
    { room: 'relays', items: 0 },
    { items: 0 },
  ]);
  expect(all.items).toMatchObject([
    { number: 2, reason: 'malformed', host: 'alice', via: 'lan', item_id: 'garbage', bytes: 7, recipients: null },
    { number: 1, reason: 'unknown-agent', detail: expect.stringMatching(/nobody@bob/) as string },
  ]);
  const numbersOf = async (input: Parameters<typeof listQuarantine>[1]): Promise<number[]> =>
    (await listQuarantine(bob.context, input)).items.map(({ number }) => number);
  expect(await numbersOf({ reason: 'malformed' })).toEqual([2]);
  expect(await numbersOf({ host: 'Alice' })).toEqual([2, 1]);
  expect(await numbersOf({ host: 'carol' })).toEqual([]);
  expect(await numbersOf({ via: 'relay' })).toEqual([]);
  expect(await listQuarantine(bob.context, { limit: 1 })).toMatchObject({ items: [{ number: 2 }], next_before: 2 });
  expect(await numbersOf({ before: 2 })).toEqual([1]);
});

test('shows the bytes as they came', async () => {
  const { bob } = await kept();
  expect(await showQuarantined(bob.context, { number: 2 })).toMatchObject({
    item: { number: 2 },
    wire_b64: Buffer.from('garbage').toString('base64'),
  });
  expect(await showQuarantined(bob.context, { number: 3 })).toMatchObject({ code: 'NO_SUCH_ROW' });
});

test('is run again: what may come in now comes in, the rest stays', async () => {
  const { bob, ref } = await kept();
  expect(await retryQuarantine(bob.context, {})).toMatchObject({
    accepted: [],
    kept: [
      { number: 1, reason: 'unknown-agent' },
      { number: 2, reason: 'malformed' },
    ],
  });
  await addAgent(bob, 'nobody');
  expect(await retryQuarantine(bob.context, { numbers: [1, 7] })).toEqual({ accepted: [1], kept: [], not_found: [7] });
  expect(await mailOf(bob, 'nobody')).toEqual([ref]);
  expect(await listQuarantine(bob.context, {})).toMatchObject({ total_items: 1, total_bytes: 7 });
});

test('is discarded for good, and counted', async () => {
  const { bob } = await kept();
  expect(await discardQuarantined(bob.context, { numbers: [2, 2, 9] })).toEqual({ discarded: [2], not_found: [9] });
  expect(await discardQuarantined(bob.context, { numbers: [1] })).toEqual({ discarded: [1], not_found: [] });
  expect(await listQuarantine(bob.context, {})).toMatchObject({ items: [], total_items: 0, total_bytes: 0 });
  await bob.store().read(async (reader) => {
    for (const table of ['quarantineWire', 'quarantineItem', 'quarantineUsage', 'quarantineOldest'] as const) {
      for await (const { key } of reader.range(table, [])) expect(key).toBeUndefined();
    }
  });
});

test('holds an item once, however often it comes', async () => {
  const { alice, bob } = await kept();
  const garbage = lanItem(alice, 'envelope', 'garbage', Buffer.from('garbage'));
  expect(await receiveItems(bob.context, [garbage, garbage])).toEqual([
    { status: 'quarantined' },
    { status: 'quarantined' },
  ]);
  expect(await listQuarantine(bob.context, {})).toMatchObject({ total_items: 2 });
});
