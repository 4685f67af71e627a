import { expect, test } from 'vitest';
import { COLLECTED_ROWS_MAX } from '../../../../src/relay/store/collect.ts';
import { RUN_ROWS_MAX } from '../../../../src/relay/store/item-run.ts';
import { PREFIX, prefixRange } from '../../../../src/relay/store/keys.ts';
import { AppendGate } from '../../../support/append-gate.ts';
import { accountEnrolOf, pushOf } from '../../../support/commands.ts';
import { alice, bob, carol } from '../../../support/hosts.ts';
import { withRawLevel } from '../../../support/raw-level.ts';
import { settled } from '../../../support/settled.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { type TestRelay, enrolledTestRelay, openTestRelay } from '../../../support/test-relay.ts';

/** Eight slices of the collection. */
const MANY = 8 * COLLECTED_ROWS_MAX;

/** `count` small items of alice's for bob, in requests of 200. */
async function pushMany(relay: TestRelay, count: number): Promise<void> {
  for (let from = 0; from < count; from += 200) {
    const ids = Array.from({ length: Math.min(200, count - from) }, (_none, at) => `m${from + at}`);
    await relay.push(...ids.map((id) => pushOf(alice, id, [[bob, id]])));
  }
}

test('an ack frees every quota that its items filled', async () => {
  const relay = await openTestRelay({
    limits: { max_queue_items: 2, max_sender_items: 2, max_owner_items: 2, max_queue_bytes: 4, max_sender_bytes: 4 },
  });
  await relay.enrol(accountEnrolOf(bob, 'acme'));
  const items = ['m1', 'm2', 'm3'].map((id) => pushOf(alice, id, [[bob, 'xx']]));
  await relay.push(...items.slice(0, 2));
  expect((await relay.pushOne(items[2]!)).verdict).toBe('rejected:quota:queue_items');
  await relay.ack(bob, NOON_MS);
  expect(await relay.pushOne(items[2]!)).toEqual({ verdict: 'accepted', seqs: [NOON_MS + 2] });
  await relay.ack(bob, NOON_MS + 2);
  expect(relay.store.get('share', bob.key + alice.key)).toBeUndefined();
  expect(relay.store.get('account', 'acme')).toBeUndefined();
  expect(relay.store.get('sender', alice.key)).toEqual({ dedupRows: 3 });
});

test('an ack of thousands of items writes little at once, and so does what follows it', async () => {
  const relay = await openTestRelay({ limits: { max_sender_items: MANY }, hosts: [bob, carol] });
  await pushMany(relay, MANY);
  await relay.reopen();
  const { headSeq } = relay.engine.head(bob.key);
  const { batches } = new AppendGate(relay.store);
  const ack = await relay.ack(bob, headSeq);
  expect(ack).toEqual({ type: 'Acked', ackedThrough: headSeq, deleted: MANY, headSeq });
  expect(batches.map(({ entries, changes }) => [entries.length, [...changes].length < 10])).toEqual([[1, true]]);
  // Others are served while the rows are collected.
  for (let number = 0; relay.store.collector.isPending; number++) {
    await relay.pushOne(pushOf(alice, `c${number}`, [[carol, 'x']]));
  }
  const collected = batches.map((batch) => batch.collected?.items.length ?? 0);
  // A slice ends with a run.
  expect(Math.max(...collected)).toBeGreaterThanOrEqual(COLLECTED_ROWS_MAX);
  expect(Math.max(...collected)).toBeLessThan(COLLECTED_ROWS_MAX + RUN_ROWS_MAX);
  expect(collected.reduce((sum, rows) => sum + rows, 0)).toBe(MANY);
  // A push waits for two slices at most: the one in flight and its own.
  expect((await relay.queue(carol)).length).toBeGreaterThanOrEqual(MANY / (COLLECTED_ROWS_MAX + RUN_ROWS_MAX) / 2 - 1);
});

test('an ack is answered without waiting for its rows to be collected', async () => {
  const relay = await enrolledTestRelay(bob);
  await pushMany(relay, 1200);
  await relay.ack(bob, 0);
  const gate = new AppendGate(relay.store);
  const ack = await gate.holdAfter(() => relay.ack(bob, relay.engine.head(bob.key).headSeq));
  expect(ack).toMatchObject({ deleted: 1200 });
  expect(gate.batches[1]?.collected?.items.length).toBeGreaterThan(0);
  gate.open();
});

test('close finishes the batch in flight, collects no further and leaves the rest to the next start', async () => {
  const relay = await enrolledTestRelay(bob);
  await pushMany(relay, 1600);
  await relay.ack(bob, 0);
  const gate = new AppendGate(relay.store);
  await gate.holdAfter(() => relay.ack(bob, relay.engine.head(bob.key).headSeq));
  const closed = relay.close();
  expect(await settled({ closed })).toEqual([]);
  gate.open();
  await closed;
  expect(gate.batches).toHaveLength(2);
  expect(relay.failures).toEqual([]);
  const left = await withRawLevel(relay.folder, (level) => level.keys(prefixRange(PREFIX.queue)).all());
  expect(left.length).toBeGreaterThan(0);
  await relay.open();
  await relay.engine.heartbeat(relay.clock.nowMs);
  while (relay.store.collector.isPending) await relay.engine.durable();
  expect(await relay.queue(bob)).toEqual([]);
});
