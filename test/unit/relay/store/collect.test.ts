import { describe, expect, test } from 'vitest';
import { DEFAULT_LIMITS, retentionMs } from '../../../../src/protocol/limits.ts';
import { COLLECTED_ROWS_MAX } from '../../../../src/relay/store/collect.ts';
import { RUN_ROWS_MAX } from '../../../../src/relay/store/item-run.ts';
import { PREFIX, queueKey } from '../../../../src/relay/store/keys.ts';
import { AppendGate } from '../../../support/append-gate.ts';
import { pushOf } from '../../../support/commands.ts';
import { type TestHost, alice, bob, carol } from '../../../support/hosts.ts';
import { withRawLevel } from '../../../support/raw-level.ts';
import { type TestRelay, enrolledTestRelay } from '../../../support/test-relay.ts';
import { breakRow, itemKeys, rowPairOf } from '../../../support/stored-items.ts';
import { collectAll } from '../../../support/packed-queues.ts';

/** `count` items for `target`, in requests of 200, and their sequence numbers. */
async function pushMany(relay: TestRelay, target: TestHost, count: number): Promise<number[]> {
  for (let from = 0; from < count; from += 200) {
    const ids = Array.from({ length: Math.min(200, count - from) }, (_none, at) => `${target.name}${from + at}`);
    await relay.push(...ids.map((id) => pushOf(alice, id, [[target, id]])));
  }
  return (await relay.queue(target)).map(({ seq }) => seq);
}

/** Bob acks, and the relay ends before anything is collected. */
async function closedAfterAck(relay: TestRelay, through: number): Promise<AppendGate> {
  const gate = AppendGate.closed(relay.store);
  const acked = relay.ack(bob, through);
  await gate.arrived(1);
  const closed = relay.close();
  gate.open();
  await Promise.all([acked, closed]);
  return gate;
}

/** Returns how many keys the closed store holds under a prefix, rows and wire bytes of items counted one by one. */
async function keysUnder(relay: TestRelay, ...prefixes: readonly number[]): Promise<number[]> {
  const counts = await relay.atRest(async (level) => {
    const keys = await Promise.all(prefixes.map((prefix) => itemKeys(level, prefix)));
    return keys.map(({ length }) => length);
  });
  await relay.open();
  return counts;
}

test('the deleted wire bytes of acked and of expired items are counted', async () => {
  const relay = await enrolledTestRelay(bob);
  const seqs = await pushMany(relay, bob, 10);
  const sizes = (await relay.wires(bob)).map((wire) => Buffer.byteLength(wire!));
  await relay.ack(bob, seqs[6]!);
  await collectAll(relay);
  const acked = sizes.slice(0, 7).reduce((sum, bytes) => sum + bytes);
  expect(relay.store.collector.collectedBytes).toBe(acked);
  relay.clock.move(retentionMs(DEFAULT_LIMITS) + 1);
  await relay.expire();
  await relay.engine.durable();
  expect(relay.store.collector.collectedBytes).toBe(acked + sizes.slice(7).reduce((sum, bytes) => sum + bytes));
});

test('acked rows and their wire bytes are deleted, and nothing else is', async () => {
  const relay = await enrolledTestRelay(bob, carol);
  const seqs = await pushMany(relay, bob, 10);
  await pushMany(relay, carol, 3);
  expect(await keysUnder(relay, PREFIX.queue, PREFIX.payload, PREFIX.dedup)).toEqual([13, 13, 13]);
  await relay.ack(bob, seqs[6]!);
  await collectAll(relay);
  expect(await keysUnder(relay, PREFIX.queue, PREFIX.payload, PREFIX.dedup)).toEqual([6, 6, 13]);
  expect(await relay.wires(bob)).toEqual(['bob7', 'bob8', 'bob9']);
  expect(await relay.wires(carol)).toHaveLength(3);
});

test('an acked row that cannot be read is deleted like the others', async () => {
  const relay = await enrolledTestRelay(bob);
  const seqs = await pushMany(relay, bob, 3);
  await closedAfterAck(relay, seqs[2]!);
  await withRawLevel(relay.folder, (level) => breakRow(level, bob.key, seqs[1]!));
  await relay.open();
  await collectAll(relay);
  expect(relay.failures).toEqual([]);
  expect(await keysUnder(relay, PREFIX.queue, PREFIX.payload)).toEqual([0, 0]);
});

test('a slice ends with the run in which it has 500 rows', async () => {
  const relay = await enrolledTestRelay(bob);
  const seqs = await pushMany(relay, bob, 1300);
  const gate = new AppendGate(relay.store);
  await relay.ack(bob, seqs.at(-1)!);
  await collectAll(relay);
  const deleted = gate.batches.flatMap(({ collected }) => (collected ? [collected.items] : []));
  const rows = deleted.map((items) => items.length);
  expect(rows.reduce((sum, count) => sum + count, 0)).toBe(1300);
  expect(rows.slice(0, -1).every((count) => count >= COLLECTED_ROWS_MAX)).toBe(true);
  expect(Math.max(...rows)).toBeLessThan(COLLECTED_ROWS_MAX + RUN_ROWS_MAX);
  expect(await keysUnder(relay, PREFIX.queue, PREFIX.payload)).toEqual([0, 0]);
});

test('queues take turns', async () => {
  const relay = await enrolledTestRelay(bob, carol);
  const ofBob = await pushMany(relay, bob, 1200);
  const ofCarol = await pushMany(relay, carol, 1200);
  await Promise.all([relay.ack(bob, 1), relay.ack(carol, 1)]);
  const gate = new AppendGate(relay.store);
  await Promise.all([relay.ack(bob, ofBob.at(-1)!), relay.ack(carol, ofCarol.at(-1)!)]);
  await collectAll(relay);
  const turns = gate.batches.flatMap(({ collected }) => (collected ? [collected.targetPubkey === bob.key] : []));
  expect(turns.slice(0, 4)).toEqual([true, false, true, false]);
});

test('commits go on between slices, and a slice rides with the batch that is due', async () => {
  const relay = await enrolledTestRelay(bob, carol);
  const seqs = await pushMany(relay, bob, 1200);
  await relay.ack(bob, 1);
  const gate = AppendGate.closed(relay.store);
  const ack = relay.ack(bob, seqs.at(-1)!);
  await gate.arrived(1);
  const push = relay.pushOne(pushOf(alice, 'c', [[carol, 'x']]));
  gate.letOnePass();
  await ack;
  await gate.arrived(2);
  expect(gate.batches[1]?.entries).toHaveLength(1);
  expect(gate.batches[1]?.collected?.targetPubkey).toBe(bob.key);
  gate.open();
  expect((await push).verdict).toBe('accepted');
  await collectAll(relay);
});

test('a slice begins where the last one ended, not among its tombstones', async () => {
  const relay = await enrolledTestRelay(bob);
  const seqs = await pushMany(relay, bob, 4);
  await relay.ack(bob, seqs[1]!);
  await collectAll(relay);
  await relay.close();
  // A row below what is collected: a scan from the beginning meets it.
  await withRawLevel(relay.folder, async (level) => {
    const [, run] = await rowPairOf(level, bob.key, seqs[2]!);
    await level.put(queueKey(bob.key, seqs[0]!), run);
  });
  await relay.open();
  const gate = new AppendGate(relay.store);
  await relay.ack(bob, seqs[3]!);
  await collectAll(relay);
  const deleted = gate.batches.flatMap(({ collected }) => collected?.items ?? []).map(({ seq }) => seq);
  expect(new Set(deleted)).toEqual(new Set([seqs[2], seqs[3]]));
});

describe('a stop in the middle', () => {
  test('leaves the rest, which the next start collects', async () => {
    const relay = await enrolledTestRelay(bob);
    const seqs = await pushMany(relay, bob, 1200);
    await relay.ack(bob, 1);
    const gate = new AppendGate(relay.store);
    await gate.holdAfter(() => relay.ack(bob, seqs.at(-1)!));
    const closed = relay.close();
    gate.open();
    await closed;
    const left = await withRawLevel(relay.folder, (level) => itemKeys(level, PREFIX.queue));
    expect(left.length).toBeGreaterThan(1200 - COLLECTED_ROWS_MAX - RUN_ROWS_MAX);
    expect(left.length).toBeLessThanOrEqual(1200 - COLLECTED_ROWS_MAX);
    await relay.open();
    await collectAll(relay);
    expect(await keysUnder(relay, PREFIX.queue, PREFIX.payload)).toEqual([0, 0]);
  });

  test('before the first slice is found again by the target row', async () => {
    const relay = await enrolledTestRelay(bob);
    const seqs = await pushMany(relay, bob, 3);
    await relay.ack(bob, 1);
    const gate = await closedAfterAck(relay, seqs.at(-1)!);
    expect(gate.batches.every(({ collected }) => collected === undefined)).toBe(true);
    const left = await withRawLevel(relay.folder, (level) => itemKeys(level, PREFIX.queue));
    expect(left).toHaveLength(3);
    await relay.open();
    await collectAll(relay);
    expect(await keysUnder(relay, PREFIX.queue, PREFIX.payload)).toEqual([0, 0]);
  });

  test('after the last slice leaves nothing to look for', async () => {
    const relay = await enrolledTestRelay(bob);
    const seqs = await pushMany(relay, bob, 3);
    await relay.ack(bob, seqs.at(-1)!);
    await collectAll(relay);
    await relay.reopen();
    expect(relay.store.collector.isPending).toBe(false);
  });
});

test('a queue that is acked again while it is collected is collected to the end', async () => {
  const relay = await enrolledTestRelay(bob);
  const seqs = await pushMany(relay, bob, 1100);
  await relay.ack(bob, 1);
  const gate = new AppendGate(relay.store);
  await gate.holdAfter(() => relay.ack(bob, seqs[549]!));
  const second = relay.ack(bob, seqs.at(-1)!);
  gate.open();
  await second;
  await collectAll(relay);
  expect(await keysUnder(relay, PREFIX.queue, PREFIX.payload)).toEqual([0, 0]);
});
