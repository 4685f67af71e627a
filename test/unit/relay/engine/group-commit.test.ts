import { describe, expect, test } from 'vitest';
import { StoreFailed } from '../../../../src/relay/engine/committer.ts';
import type { Encoding } from '../../../../src/relay/store/encoding.ts';
import { AppendGate } from '../../../support/append-gate.ts';
import { ackOf, enrolOf, pushOf, rotateEpochOf } from '../../../support/commands.ts';
import { deferred } from '../../../support/deferred.ts';
import { eventually } from '../../../support/eventually.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { alice, bob, carol } from '../../../support/hosts.ts';
import { settled } from '../../../support/settled.ts';
import { type TestRelay, enrolledTestRelay, openTestRelay, outcomeOf } from '../../../support/test-relay.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

test('commands that arrive during a sync share the next batch', async () => {
  const relay = await enrolledTestRelay(bob);
  const gate = AppendGate.closed(relay.store);
  const first = relay.pushOne(pushOf(alice, 'm1', [[bob, '1']]));
  await gate.arrived(1);
  const rest = ['m2', 'm3', 'm4'].map((id) => relay.pushOne(pushOf(alice, id, [[bob, id]])));
  const enrolment = relay.enrol(enrolOf(carol));
  gate.open();
  await Promise.all([first, enrolment, ...rest]);
  expect(gate.batches.map(({ entries }) => entries.length)).toEqual([1, 4]);
  expect(await relay.wires(bob)).toEqual(['1', 'm2', 'm3', 'm4']);
});

test('commands that arrive together share the first batch too', async () => {
  const relay = await enrolledTestRelay(bob);
  const gate = new AppendGate(relay.store);
  await Promise.all(['m1', 'm2', 'm3'].map((id) => relay.pushOne(pushOf(alice, id, [[bob, id]]))));
  expect(gate.batches.map(({ entries }) => entries.length)).toEqual([3]);
});

test('one batch is in flight at a time, and the log has no gap', async () => {
  const relay = await enrolledTestRelay(bob);
  const gate = AppendGate.closed(relay.store);
  const pushes = [];
  for (let number = 1; number <= 3; number++) {
    pushes.push(relay.pushOne(pushOf(alice, `m${number}`, [[bob, 'x']])));
    await gate.arrived(number);
    expect(gate.batches).toHaveLength(number);
    if (number < 3) {
      const next = relay.pushOne(pushOf(carol, `n${number}`, [[bob, 'x']]));
      pushes.push(next);
      gate.letOnePass();
    }
  }
  gate.open();
  await Promise.all(pushes);
  const lsns = gate.batches.flatMap(({ entries }) => entries.map(({ lsn }) => lsn));
  expect(lsns).toEqual(Array.from({ length: 5 }, (_none, at) => at + 3));
});

test('nobody is answered before the batch is durable, whatever was asked', async () => {
  const relay = await enrolledTestRelay(bob);
  const gate = AppendGate.closed(relay.store);
  const asked = {
    push: relay.push(pushOf(alice, 'm1', [[bob, 'x']])),
    rejectedPush: relay.push(pushOf(alice, 'm2', [[carol, 'x']])),
    enrolment: relay.enrol(enrolOf(carol)),
    refusedEnrolment: relay.enrol(enrolOf(alice, { answer: { ok: false } })),
    ackOfNothing: relay.ack(bob, 0),
    badAck: relay.ack(bob, NOON_MS + 1000),
    heartbeat: relay.engine.heartbeat(NOON_MS),
    rotation: relay.engine.rotateEpoch(rotateEpochOf(epochNumbered(7))),
    durable: relay.engine.durable(),
  };
  await gate.arrived(1);
  expect(await settled(asked)).toEqual([]);
  gate.open();
  await Promise.all(Object.values(asked));
  expect(relay.engine.epoch).toBe(epochNumbered(7));
});

test('a duplicate of an item that is not durable yet waits for it and is answered its seq', async () => {
  const relay = await enrolledTestRelay(bob);
  const gate = AppendGate.closed(relay.store);
  const original = relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  await gate.arrived(1);
  relay.clock.move(1000);
  const duplicate = relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  const conflict = relay.pushOne(pushOf(alice, 'm1', [[bob, 'y']]));
  expect(await settled({ original, duplicate, conflict })).toEqual([]);
  gate.open();
  expect(await original).toEqual({ verdict: 'accepted', seqs: [NOON_MS] });
  expect(await duplicate).toEqual({ verdict: 'duplicate', seqs: [NOON_MS] });
  expect(await conflict).toEqual({ verdict: 'rejected:conflict', seqs: [] });
  expect(gate.batches).toHaveLength(1);
});

test('one request that repeats an item stores it once', async () => {
  const relay = await enrolledTestRelay(bob);
  const item = pushOf(alice, 'm1', [[bob, 'x']]);
  const outcomes = await relay.push(item, item, pushOf(alice, 'm1', [[bob, 'y']]));
  expect(outcomes.map((outcome) => outcomeOf(outcome).verdict)).toEqual(['accepted', 'duplicate', 'rejected:conflict']);
  expect(await relay.wires(bob)).toEqual(['x']);
});

test('what is admitted but not durable counts: quotas, seqs, names, epochs and acks', async () => {
  const relay = await openTestRelay({ limits: { max_sender_items: 2 }, hosts: [bob] });
  const gate = AppendGate.closed(relay.store);
  const [m1, m2, m3] = ['m1', 'm2', 'm3'].map((id) => relay.pushOne(pushOf(alice, id, [[bob, id]])));
  const rotation = relay.engine.rotateEpoch(rotateEpochOf(epochNumbered(7)));
  const staleAck = relay.engine.acks.ack(ackOf(bob, NOON_MS));
  gate.open();
  expect(await m1).toEqual({ verdict: 'accepted', seqs: [NOON_MS] });
  expect(await m2).toEqual({ verdict: 'accepted', seqs: [NOON_MS + 1] });
  expect(await m3).toEqual({ verdict: 'rejected:quota:sender_items', seqs: [] });
  await rotation;
  expect(await staleAck).toMatchObject({ code: 'EPOCH_CHANGED', members: { epoch: epochNumbered(7) } });
});

test('an ack of an item that is not durable yet takes effect with it', async () => {
  const relay = await enrolledTestRelay(bob);
  // The index of bob's queue is in memory from here on.
  await relay.ack(bob, 0);
  const gate = AppendGate.closed(relay.store);
  const pushed = relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  await gate.arrived(1);
  const acked = relay.ack(bob, NOON_MS);
  const again = relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  gate.open();
  expect((await pushed).verdict).toBe('accepted');
  expect(await acked).toEqual({ type: 'Acked', ackedThrough: NOON_MS, deleted: 1, headSeq: NOON_MS });
  expect(await again).toEqual({ verdict: 'duplicate', seqs: [NOON_MS] });
  expect(await relay.queue(bob)).toEqual([]);
});

test('an answer prepared during the sync is given out after it, with the epoch that the item is in', async () => {
  const relay = await enrolledTestRelay(bob);
  const gate = AppendGate.closed(relay.store);
  let prepared = '';
  const push = relay.engine.pushes.push([pushOf(alice, 'm1', [[bob, 'x']])], (outcomes, epoch) => {
    prepared = epoch;
    return outcomes.length;
  });
  await gate.arrived(1);
  expect(prepared).toBe(relay.engine.epoch);
  expect(await settled({ push })).toEqual([]);
  gate.open();
  expect(await push).toMatchObject({ type: 'Pushed', answer: 1 });
});

/** A relay that writes m0 and does not learn of it yet, and 300 items that came meanwhile. */
async function encodingAhead(): Promise<{
  relay: TestRelay;
  /** The batches that the store made ahead of their time, and those that it was given of them. */
  made: (Encoding | undefined)[];
  given: (Encoding | undefined)[];
  waiting: { first: Promise<unknown>; behind: Promise<unknown> };
  /** Tells the store how that write ended. */
  ends: (error?: Error) => void;
}> {
  const relay = await openTestRelay({ limits: { max_sender_items: 10_000 }, hosts: [bob] });
  const [append, encodeAhead] = [relay.store.append.bind(relay.store), relay.store.encodeAhead.bind(relay.store)];
  const made: (Encoding | undefined)[] = [];
  const given: (Encoding | undefined)[] = [];
  const written = deferred();
  let failure: Error | undefined;
  relay.store.append = async (batch, ahead) => {
    given.push(ahead);
    await append(batch, ahead);
    await written.promise;
    if (failure) throw failure;
  };
  const isMade = deferred();
  relay.store.encodeAhead = async (batch) => {
    made.push(await encodeAhead(batch));
    isMade.resolve();
    return made.at(-1);
  };
  const first = relay.push(pushOf(alice, 'm0', [[bob, 'x']]));
  await eventually(
    async () => given.length,
    (count) => count === 1,
  );
  const behind = relay.push(...Array.from({ length: 300 }, (_none, at) => pushOf(alice, `m${at + 1}`, [[bob, 'y']])));
  await isMade.promise;
  const ends = (error?: Error): void => {
    failure = error;
    written.resolve();
  };
  return { relay, made, given, waiting: { first, behind }, ends };
}

describe('a batch that is large while another is being written', () => {
  test('is encoded meanwhile, is seen by who comes later, and answered when it is durable itself', async () => {
    const { relay, made, given, waiting, ends } = await encodingAhead();
    expect(made).toEqual([expect.objectContaining({ lastLsn: relay.store.lastLsn + made.length * 300 })]);
    const duplicate = relay.pushOne(pushOf(alice, 'm300', [[bob, 'y']]));
    const durable = relay.engine.durable();
    expect(await settled({ ...waiting, duplicate, durable })).toEqual([]);
    ends();
    await waiting.first;
    expect(await duplicate).toEqual({ verdict: 'duplicate', seqs: [NOON_MS + 300] });
    await Promise.all([waiting.behind, durable]);
    expect(given).toEqual([undefined, made[0]]);
    expect((await relay.queue(bob)).map(({ itemId }) => itemId)).toEqual(
      Array.from({ length: 301 }, (_none, at) => `m${at}`),
    );
  });

  test('is never written when that other batch fails', async () => {
    const { relay, given, waiting, ends } = await encodingAhead();
    const open = relay.push(pushOf(alice, 'open', [[bob, 'z']]));
    ends(new Error('EIO'));
    for (const waits of await Promise.allSettled([waiting.first, waiting.behind, open]))
      expect(waits).toMatchObject({ status: 'rejected', reason: expect.any(StoreFailed) });
    await expect(relay.engine.close()).resolves.toBeUndefined();
    expect(given).toHaveLength(1);
  });
});
