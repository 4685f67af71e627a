/** A receipt that a relay refuses because a rotated key signed it, given again under the key of now. */
import { expect, onTestFinished, test } from 'vitest';
import type { OutboxRow } from '../../../../src/host/core/rows.ts';
import { parseReceipt } from '../../../../src/host/wire/parse.ts';
import { receiveItems } from '../../../../src/host/inbound/receive.ts';
import { issueReceipt, signReceiptAnew } from '../../../../src/host/outbox/outgoing-items.ts';
import { pinRelay } from '../../../../src/host/relay/relay-rows.ts';
import { hostNamed, relay } from '../../../support/hosts.ts';
import { addAgent, itemFor, pairedContext, pin, sendTo } from '../../../support/paired-contexts.ts';
import { rowsOf } from '../../../support/stored-rows.ts';

/** Bob has a message of alice and said so; he goes on under another key when `rotate` is called. */
async function delivered() {
  const [alice, bob] = [await pairedContext('alice'), await pairedContext('bob')];
  onTestFinished(async () => void (await Promise.all([alice.close(), bob.close()])));
  await pin(alice, bob);
  await pin(bob, alice);
  const pinned = { url: 'http://127.0.0.1:1', pubkey: relay.key, proof: null };
  await bob.store().transact((tx) => void pinRelay(tx, bob.context, pinned));
  await addAgent(alice, 'anna');
  const agentId = await addAgent(bob, 'bert');
  const { ref, id } = await sendTo(alice, bob, { from: 'anna', to: ['bert'] });
  await receiveItems(bob.context, [await itemFor(alice, bob, id)]);
  const context = { ...bob.context, store: bob.store() };
  const anew = hostNamed('bob anew');
  const rotate = (): void => {
    const before = context.identity();
    context.identity = () => ({ ...before, signer: anew.signer });
  };
  const rows = (): Promise<OutboxRow[]> => rowsOf(context.store, 'outbox', []);
  const signAnew = (rowId: number): Promise<boolean> =>
    context.store.transact((tx) => signReceiptAnew(tx, context, rowId));
  const say = (state: 'read'): Promise<void> =>
    context.store.transact((tx) => issueReceipt(tx, context, { ref, agentId }, state));
  const recOf = async ({ rowId }: OutboxRow) => {
    const wire = await context.store.read((reader) => reader.get('outboxWire', rowId));
    return parseReceipt(wire!).rec;
  };
  return { context, anew, rotate, rows, signAnew, say, recOf };
}

test('it says the same with the next seq, waits to be sent either way, and is signed by the present key', async () => {
  const { anew, rotate, rows, signAnew, recOf } = await delivered();
  const [before] = await rows();
  const said = await recOf(before!);
  rotate();
  expect(await signAnew(before!.rowId)).toBe(true);
  const [after, ...others] = await rows();
  expect(others).toEqual([]);
  const rec = await recOf(after!);
  expect(rec).toEqual({ ...said, host_pubkey: anew.key, seq: said.seq + 1, seen: expect.anything() });
  // What it shows of a relay is bound to the key that signs it, so it is sealed anew.
  expect(rec.seen).not.toEqual(said.seen);
  expect(after).toMatchObject({
    state: 'pending',
    lanAttempts: 0,
    relayAttempts: 0,
    itemId: `receipt:${rec.msg}:${rec.recipient}:${rec.seq}`,
  });
  // What the present key signed is refused for another reason: it stays as it is.
  expect(await signAnew(after!.rowId)).toBe(false);
  expect(await rows()).toEqual([after]);
});

test('one that a later receipt outdid goes, and the later one is given once', async () => {
  const { context, rotate, rows, signAnew, say, recOf } = await delivered();
  const [first] = await rows();
  // The relay has it: it is not replaced by the next.
  await context.store.transact((tx) => tx.put('outbox', [first!.rowId], { ...first!, state: 'relay-accepted' }));
  await say('read');
  expect(await rows()).toHaveLength(2);
  rotate();
  for (const { rowId } of await rows()) expect(await signAnew(rowId)).toBe(true);
  const left = await rows();
  expect(await Promise.all(left.map(async (row) => (await recOf(row)).state))).toEqual(['read']);
});

test('the row of a message is none, and neither is one that is gone', async () => {
  const { context, rows, signAnew } = await delivered();
  const [receipt] = await rows();
  await context.store.transact((tx) => tx.put('outbox', [receipt!.rowId], { ...receipt!, kind: 'envelope' }));
  expect(await signAnew(receipt!.rowId)).toBe(false);
  expect(await signAnew(4711)).toBe(false);
});
