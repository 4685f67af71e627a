import { describe, expect, test } from 'vitest';
import { StoreFailed } from '../../../../src/relay/engine/committer.ts';
import { AppendGate } from '../../../support/append-gate.ts';
import { enrolOf, hostSeenOf, pushOf, reportLostOf, rotateEpochOf } from '../../../support/commands.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { alice, bob, carol, dave } from '../../../support/hosts.ts';
import { type TestRelay, enrolledTestRelay } from '../../../support/test-relay.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const DISK_FULL = new Error('ENOSPC');

async function relayWithOneItem(): Promise<TestRelay> {
  const relay = await enrolledTestRelay(bob, carol);
  await relay.pushOne(pushOf(alice, 'm0', [[bob, 'before']]));
  return relay;
}

/** A relay whose disk was full when m1 was pushed. */
async function relayAfterFailure(): Promise<{ relay: TestRelay; gate: AppendGate }> {
  const relay = await relayWithOneItem();
  const gate = AppendGate.closed(relay.store);
  const push = relay.push(pushOf(alice, 'm1', [[bob, 'x']]));
  await gate.arrived(1);
  gate.failOne(DISK_FULL);
  await expect(push).rejects.toBeInstanceOf(StoreFailed);
  return { relay, gate };
}

/** Says whether each promise was rejected with `StoreFailed`. */
async function failures(promises: readonly Promise<unknown>[]): Promise<boolean[]> {
  const results = await Promise.allSettled(promises);
  return results.map((result) => result.status === 'rejected' && result.reason instanceof StoreFailed);
}

describe('after a batch failed', () => {
  test('everybody who waits gets StoreFailed: those of the batch and those behind it', async () => {
    const relay = await relayWithOneItem();
    const gate = AppendGate.closed(relay.store);
    const inFlight = [relay.push(pushOf(alice, 'm1', [[bob, 'x']])), relay.enrol(enrolOf(dave))];
    await gate.arrived(1);
    const behind = [
      relay.push(pushOf(alice, 'm2', [[bob, 'x']])),
      relay.push(pushOf(alice, 'm1', [[bob, 'x']])),
      relay.push(pushOf(alice, 'm3', [[dave, 'x']])),
      relay.ack(bob, NOON_MS),
      relay.engine.heartbeat(NOON_MS),
      relay.engine.rotateEpoch(rotateEpochOf(epochNumbered(7))),
      relay.engine.durable(),
    ];
    gate.failOne(DISK_FULL);
    expect(await failures([...inFlight, ...behind])).toEqual(Array.from({ length: 9 }, () => true));
    expect(relay.failures).toHaveLength(1);
    expect(relay.failures[0]?.cause).toBe(DISK_FULL);
  });

  test('nothing is admitted, answered or appended again, and the process is told once', async () => {
    const { relay, gate } = await relayAfterFailure();
    gate.open();
    const later = [
      relay.push(pushOf(alice, 'm0', [[bob, 'before']])),
      relay.push(pushOf(alice, 'm2', [[bob, 'x']])),
      relay.push(),
      relay.enrol(enrolOf(bob)),
      relay.ack(bob, NOON_MS),
      Promise.resolve(relay.engine.noteHostSeen(hostSeenOf(bob))),
      relay.engine.lost.report(reportLostOf(bob, NOON_MS)),
      relay.engine.heartbeat(NOON_MS),
      relay.engine.durable(),
    ];
    expect(await failures(later)).toEqual(Array.from({ length: 9 }, () => true));
    expect(gate.batches).toHaveLength(1);
    expect(relay.failures).toHaveLength(1);
  });

  test('what was durable before is still shown, and nothing of the failed batch', async () => {
    const { relay } = await relayAfterFailure();
    expect(await relay.wires(bob)).toEqual(['before']);
    expect(relay.engine.head(bob.key).headSeq).toBe(NOON_MS);
  });

  test('a push that waits for room, or comes to a full batch, fails instead of waiting for good', async () => {
    const relay = await relayWithOneItem();
    const gate = AppendGate.closed(relay.store);
    const wire = Buffer.alloc(500_000);
    const inFlight = relay.push(pushOf(alice, 'first', [[carol, 'x']]));
    await gate.arrived(1);
    const filling = Array.from({ length: 17 }, (_none, at) => relay.push(pushOf(alice, `big${at}`, [[bob, wire]])));
    const waiting = relay.push(pushOf(alice, 'waiting', [[bob, 'x']]));
    gate.failOne(DISK_FULL);
    const late = relay.push(pushOf(alice, 'late', [[bob, 'x']]));
    expect(await failures([inFlight, ...filling, waiting, late])).toEqual(Array.from({ length: 20 }, () => true));
  });

  test('a store opened anew goes on after what was durable', async () => {
    const { relay } = await relayAfterFailure();
    await relay.reopen();
    expect(relay.notices).toEqual([]);
    expect(await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]))).toEqual({
      verdict: 'accepted',
      seqs: [NOON_MS + 1],
    });
    expect(await relay.wires(bob)).toEqual(['before', 'x']);
  });
});

/** No share row can be read, so that an ack cannot be reduced; bob's index is in memory. */
async function relayWithoutShares(): Promise<TestRelay> {
  const relay = await relayWithOneItem();
  await relay.reopen();
  await relay.ack(bob, 1);
  const { store } = relay;
  const get = store.get.bind(store);
  store.get = (table, key) => {
    if (table === 'share' && key.startsWith(bob.key)) throw new Error('EIO');
    return get(table, key);
  };
  return relay;
}

describe('when an admission cannot be reduced, for another reason than the rows of one queue', () => {
  test('the batch that holds half of it is never written', async () => {
    const relay = await relayWithoutShares();
    const { lastLsn } = relay.store;
    const gate = new AppendGate(relay.store);
    const good = relay.push(pushOf(alice, 'm1', [[carol, 'x']]));
    const broken = relay.ack(bob, NOON_MS);
    expect(await failures([good, broken])).toEqual([true, true]);
    await relay.reopen();
    expect(gate.batches).toEqual([]);
    expect(relay.store.lastLsn).toBe(lastLsn);
    expect(relay.failures).toHaveLength(1);
    expect(await relay.queue(carol)).toEqual([]);
  });

  test('those who wait for the batch in flight are not left waiting', async () => {
    const relay = await relayWithoutShares();
    const gate = AppendGate.closed(relay.store);
    const inFlight = relay.push(pushOf(alice, 'm1', [[carol, 'x']]));
    await gate.arrived(1);
    const broken = relay.ack(bob, NOON_MS);
    gate.open();
    expect(await failures([inFlight, broken])).toEqual([true, true]);
    expect(relay.failures).toHaveLength(1);
  });
});
