/** "POST /v2/relay/items", rules 2 to 7. Rule 1 is the sender's. */
import { describe, expect, test } from 'vitest';
import { AppendGate } from '../support/append-gate.ts';
import { collected } from '../support/collected.ts';
import { pushOf } from '../support/commands.ts';
import { alice, bob, carol, dave } from '../support/hosts.ts';
import { expectReplayed } from '../support/replay.ts';
import { settled } from '../support/settled.ts';
import { NOON_MS } from '../support/test-clock.ts';
import { type TestRelay, enrolledTestRelay, openTestRelay } from '../support/test-relay.ts';

/** Everything the relay has written: a push that changes nothing leaves it as it is. */
async function written(relay: TestRelay): Promise<unknown> {
  return [relay.store.lastLsn, await collected(relay.store.rawRows())];
}

test('items rule 2: a repeated target is rejected:duplicate target', async () => {
  const relay = await enrolledTestRelay(bob, carol);
  const before = await written(relay);
  const repeated = pushOf(alice, 'm1', [
    [bob, 'x'],
    [carol, 'x'],
    [bob, 'x'],
  ]);
  expect((await relay.pushOne(repeated)).verdict).toBe('rejected:duplicate target');
  expect(await written(relay)).toEqual(before);
});

describe('items rule 3: every target is validated before anything is written', () => {
  test.each([
    ['not enrolled', {}, [dave, 'x'], 'rejected:unknown target'],
    ['over its queue', { max_queue_items: 1 }, [carol, 'x'], 'rejected:quota:queue_items'],
    ['over the sender share', { max_sender_items: 1 }, [carol, 'x'], 'rejected:quota:sender_items'],
    ['too large', { max_item_bytes: 4 }, [carol, 'large'], 'rejected:too large'],
  ] as const)(
    'items rule 3: one target that is %s rejects the whole item and nothing is stored',
    async (_what, limits, bad, verdict) => {
      const relay = await openTestRelay({ limits, hosts: [bob, carol] });
      await relay.pushOne(pushOf(alice, 'full', [[carol, 'x']]));
      const before = await written(relay);
      expect((await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x'], bad]))).verdict).toBe(verdict);
      expect((await relay.pushOne(pushOf(alice, 'm1', [bad, [bob, 'x']]))).verdict).toBe(verdict);
      expect(await written(relay)).toEqual(before);
    },
  );

  test('items rule 3: an item for three hosts is stored for all three at once', async () => {
    const relay = await enrolledTestRelay(bob, carol, dave);
    const gate = new AppendGate(relay.store);
    await relay.pushOne(
      pushOf(alice, 'm1', [
        [bob, 'b'],
        [carol, 'c'],
        [dave, 'd'],
      ]),
    );
    expect(gate.batches.map(({ entries, payloads }) => [entries.length, payloads.length])).toEqual([[1, 3]]);
    expect(await Promise.all([bob, carol, dave].map((host) => relay.wires(host)))).toEqual([['b'], ['c'], ['d']]);
  });
});

test('items rule 4: what is not a sealed envelope or a signed receipt is rejected, and nothing is stored', async () => {
  const relay = await enrolledTestRelay(bob);
  const before = await written(relay);
  for (const wireVerdict of ['not sealed', 'id mismatch', 'bad receipt'] as const) {
    const push = pushOf(alice, 'm1', [[bob, 'x']], { wireVerdict });
    expect((await relay.pushOne(push)).verdict).toBe(`rejected:${wireVerdict}`);
  }
  expect(await written(relay)).toEqual(before);
});

test('items rule 5: an absent item is inserted with its dedup row and a seq', async () => {
  const relay = await enrolledTestRelay(bob);
  expect(await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]))).toEqual({ verdict: 'accepted', seqs: [NOON_MS] });
  expect(relay.store.get('dedup', `${alice.key}${bob.key}m1`)).toMatchObject({ seq: NOON_MS, expired: false });
  expect(await relay.queue(bob)).toMatchObject([{ seq: NOON_MS, itemId: 'm1', senderPubkey: alice.key }]);
});

test('items rule 5: the same bytes again are a duplicate with the first seq, also after ack and restart', async () => {
  const relay = await enrolledTestRelay(bob);
  const push = pushOf(alice, 'm1', [[bob, 'x']]);
  await relay.pushOne(push);
  relay.clock.move(1000);
  const before = await written(relay);
  expect(await relay.pushOne(push)).toEqual({ verdict: 'duplicate', seqs: [NOON_MS] });
  expect(await written(relay)).toEqual(before);
  await relay.ack(bob, NOON_MS);
  await relay.reopen();
  expect(await relay.pushOne(push)).toEqual({ verdict: 'duplicate', seqs: [NOON_MS] });
  expect(await relay.queue(bob)).toEqual([]);
});

test('items rule 5: same sender, item and target, other bytes: rejected:conflict, which changes nothing', async () => {
  const relay = await enrolledTestRelay(bob);
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  const before = await written(relay);
  expect((await relay.pushOne(pushOf(alice, 'm1', [[bob, 'y']]))).verdict).toBe('rejected:conflict');
  expect((await relay.pushOne(pushOf(alice, 'm1', [[bob, '']]))).verdict).toBe('rejected:conflict');
  expect(await written(relay)).toEqual(before);
  expect(await relay.wires(bob)).toEqual(['x']);
});

test('items rule 6: a success is answered only after the transaction has committed', async () => {
  const relay = await enrolledTestRelay(bob);
  const gate = AppendGate.closed(relay.store);
  const accepted = relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  await gate.arrived(1);
  const duplicate = relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  expect(await settled({ accepted, duplicate })).toEqual([]);
  gate.open();
  expect(await accepted).toEqual({ verdict: 'accepted', seqs: [NOON_MS] });
  expect(await duplicate).toEqual({ verdict: 'duplicate', seqs: [NOON_MS] });
});

test('items rule 7: a quota failure rejects the whole item, and a later retry of its bytes is accepted', async () => {
  const relay = await openTestRelay({ limits: { max_queue_items: 1 }, hosts: [bob, carol] });
  await relay.pushOne(pushOf(alice, 'full', [[bob, 'x']]));
  const item = pushOf(alice, 'm1', [
    [carol, 'c'],
    [bob, 'b'],
  ]);
  expect((await relay.pushOne(item)).verdict).toBe('rejected:quota:queue_items');
  expect(await relay.queue(carol)).toEqual([]);
  await relay.ack(bob, NOON_MS);
  expect((await relay.pushOne(item)).verdict).toBe('accepted');
  await expectReplayed(relay.store);
});
