/** "POST /v2/relay/ack". Its rules have no numbers. */
import { expect, test } from 'vitest';
import { pushOf } from '../support/commands.ts';
import { epochNumbered } from '../support/epochs.ts';
import { alice, bob, carol } from '../support/hosts.ts';
import { NOON_MS } from '../support/test-clock.ts';
import { type TestRelay, enrolledTestRelay } from '../support/test-relay.ts';

/** Three items wait for bob and one for carol. */
async function waiting(): Promise<TestRelay> {
  const relay = await enrolledTestRelay(bob, carol);
  await relay.push(...['m0', 'm1', 'm2'].map((id) => pushOf(alice, id, [[bob, id]])));
  await relay.pushOne(pushOf(alice, 'm0', [[carol, 'for carol']]));
  return relay;
}

test('ack: deletes the items with seq <= through for the caller and records acked_through', async () => {
  const relay = await waiting();
  expect(await relay.ack(bob, NOON_MS + 1)).toEqual({
    type: 'Acked',
    ackedThrough: NOON_MS + 1,
    deleted: 2,
    headSeq: NOON_MS + 2,
  });
  expect(await relay.wires(bob)).toEqual(['m2']);
  expect(await relay.wires(carol)).toEqual(['for carol']);
  expect(relay.engine.head(bob.key).ackedThrough).toBe(NOON_MS + 1);
});

test('ack: a through beyond the head is BAD_ACK and deletes nothing', async () => {
  const relay = await waiting();
  const answer = await relay.ack(bob, NOON_MS + 3);
  expect(answer).toMatchObject({ type: 'Refusal', code: 'BAD_ACK', members: { head_seq: NOON_MS + 2 } });
  expect(await relay.queue(bob)).toHaveLength(3);
  expect(relay.engine.head(bob.key).ackedThrough).toBe(0);
});

test('ack: the same ack again, or an older one, changes nothing', async () => {
  const relay = await waiting();
  await relay.ack(bob, NOON_MS + 1);
  const logEnd = relay.store.lastLsn;
  for (const through of [NOON_MS + 1, NOON_MS, 0]) {
    expect(await relay.ack(bob, through)).toMatchObject({ ackedThrough: NOON_MS + 1, deleted: 0 });
  }
  expect(relay.store.lastLsn).toBe(logEnd);
  expect(await relay.wires(bob)).toEqual(['m2']);
});

test('ack: one that releases nothing answers what is recorded', async () => {
  const relay = await waiting();
  await relay.ack(bob, NOON_MS + 2);
  relay.clock.move(5000);
  await relay.pushOne(pushOf(alice, 'm9', [[bob, 'x']]));
  // Below the item that waits, and above what was acked.
  const acked = await relay.ack(bob, NOON_MS + 4000);
  expect(acked).toEqual({ type: 'Acked', ackedThrough: NOON_MS + 2, deleted: 0, headSeq: NOON_MS + 5000 });
  expect(relay.engine.head(bob.key)).toMatchObject({ ackedThrough: NOON_MS + 2 });
});

test('ack: in another epoch it is refused with the current one, whatever its through; it deletes nothing', async () => {
  const relay = await waiting();
  // A store that was set back has a lower head: the host must learn of the epoch, and not of its through.
  for (const through of [0, NOON_MS + 1, NOON_MS + 3]) {
    const answer = await relay.ack(bob, through, { epoch: epochNumbered(200) });
    expect(answer).toMatchObject({ code: 'EPOCH_CHANGED', members: { epoch: relay.engine.epoch } });
  }
  expect(await relay.queue(bob)).toHaveLength(3);
});

test('ack: the dedup row is kept: the same item again is a duplicate, not a new delivery', async () => {
  const relay = await waiting();
  await relay.ack(bob, NOON_MS + 2);
  const again = await relay.pushOne(pushOf(alice, 'm1', [[bob, 'm1']]));
  expect(again).toEqual({ verdict: 'duplicate', seqs: [NOON_MS + 1] });
  expect(await relay.queue(bob)).toEqual([]);
});
