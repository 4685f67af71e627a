import { expect, test } from 'vitest';
import { BATCH_CHANGES_MAX, BATCH_PAYLOAD_BYTES_MAX } from '../../../../src/relay/engine/open-batch.ts';
import type { LogBatch } from '../../../../src/relay/store/durable-log.ts';
import { AppendGate } from '../../../support/append-gate.ts';
import { pushOf } from '../../../support/commands.ts';
import { alice, bob, carol } from '../../../support/hosts.ts';
import { enrolledTestRelay, openTestRelay, outcomeOf } from '../../../support/test-relay.ts';

const payloadBytes = (batch: LogBatch): number => batch.payloads.reduce((sum, { wire }) => sum + wire.length, 0);
const changes = (batch: LogBatch): number => [...batch.changes].length;

test('a batch takes payloads up to its bound and one item more; what waits goes into the next', async () => {
  const relay = await enrolledTestRelay(bob, carol);
  const gate = AppendGate.closed(relay.store);
  const first = relay.pushOne(pushOf(alice, 'first', [[carol, 'x']]));
  await gate.arrived(1);
  const wire = Buffer.alloc(524_288);
  const pushes = Array.from({ length: 40 }, (_none, at) => relay.pushOne(pushOf(alice, `m${at}`, [[bob, wire]])));
  gate.open();
  const verdicts = (await Promise.all([first, ...pushes])).map(({ verdict }) => verdict);
  expect(new Set(verdicts)).toEqual(new Set(['accepted']));
  expect(gate.batches.length).toBeGreaterThanOrEqual(4);
  for (const batch of gate.batches) expect(payloadBytes(batch)).toBeLessThan(BATCH_PAYLOAD_BYTES_MAX + wire.length);
  expect((await relay.queue(bob)).map(({ itemId }) => itemId)).toEqual(
    Array.from({ length: 40 }, (_n, at) => `m${at}`),
  );
});

test('a batch takes rows up to its bound and one item more, also from many requests at once', async () => {
  const relay = await openTestRelay({ limits: { max_sender_items: 10_000 }, hosts: [bob, carol] });
  const gate = AppendGate.closed(relay.store);
  const first = relay.pushOne(pushOf(alice, 'first', [[carol, 'x']]));
  await gate.arrived(1);
  // Two rows an item, queue and dedup: more than two batches full.
  const itemCount = BATCH_CHANGES_MAX + 400;
  const requests = Array.from({ length: Math.ceil(itemCount / 200) }, (_none, request) =>
    relay.push(...Array.from({ length: 200 }, (_n, at) => pushOf(alice, `m${request}-${at}`, [[bob, 'x']]))),
  );
  gate.open();
  const outcomes = (await Promise.all(requests)).flat();
  await first;
  expect(new Set(outcomes.map((outcome) => outcomeOf(outcome).verdict))).toEqual(new Set(['accepted']));
  // One item of one target changes five rows at most: queue, target, dedup, sender, share.
  for (const batch of gate.batches) expect(changes(batch)).toBeLessThan(BATCH_CHANGES_MAX + 5);
  expect(await relay.queue(bob)).toHaveLength(outcomes.length);
});

test('a request keeps its order while it waits for room', async () => {
  const relay = await enrolledTestRelay(bob);
  const wire = Buffer.alloc(400_000);
  const ids = Array.from({ length: 50 }, (_none, at) => `m${at}`);
  await relay.push(...ids.map((id) => pushOf(alice, id, [[bob, wire]])));
  expect((await relay.queue(bob)).map(({ itemId }) => itemId)).toEqual(ids);
});
