/**
 * What queues in runs (store/item-run.ts) must bear: how often a run is looked for and written anew, whatever is asked.
 *
 * Attack 15: cursors of v1, quotas, `acked_through` and sequence numbers are what they were. That is said by the tests
 * of those, in spec/, http/ and unit/: every relay in them writes runs.
 */
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { DEFAULT_LIMITS, retentionMs } from '../../../../src/protocol/limits.ts';
import { PREFIX, firstKeyOf, prefixRange, queueKey } from '../../../../src/relay/store/keys.ts';
import { CUT_RUN_WAITS_MS } from '../../../../src/relay/store/collect.ts';
import { QueueRuns } from '../../../../src/relay/store/queue-runs.ts';
import { verified } from '../../../support/audits.ts';
import { ackOf, pushOf, rotateOf } from '../../../support/commands.ts';
import { type TestHost, alice, bob, carol, dave } from '../../../support/hosts.ts';
import { type WatchedWrites, packed, watchedWrites, collectAll } from '../../../support/packed-queues.ts';
import { expectReplayed } from '../../../support/replay.ts';
import { SharedTestRelay } from '../../../support/shared-test-relay.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { TurnWork } from '../../../support/turn-work.ts';
import { type TestRelay, type TestRelayOptions, openTestRelay, outcomeOf } from '../../../support/test-relay.ts';

/** `count` items for `target` that come a millisecond after one another, in runs of `length`. */
async function packedRelay(
  target: TestHost,
  count: number,
  length: number,
  options: TestRelayOptions = {},
): Promise<{ relay: TestRelay; seqs: number[] }> {
  const relay = await openTestRelay({ ...options, hosts: [alice, bob, dave] });
  const pushes: Promise<unknown>[] = [];
  for (let at = 0; at < count; at++) {
    pushes.push(relay.pushOne(pushOf(alice, `m${at}`, [[target, `wire ${at}`]])));
    relay.clock.move(1);
  }
  await Promise.all(pushes);
  await packed(relay, () => length);
  return { relay, seqs: (await relay.queue(target)).map(({ seq }) => seq) };
}

const underPrefix = (keys: readonly Buffer[], prefix: number): Buffer[] => keys.filter(([first]) => first === prefix);

/** How many rows and wire runs of `target` were put and deleted. */
function written({ puts, dels }: WatchedWrites, target: TestHost): number[] {
  const of = (keys: readonly Buffer[], prefix: number): number =>
    underPrefix(keys, prefix).filter((key) => firstKeyOf(key) === target.key).length;
  const put = puts.map(([key]) => key);
  return [of(put, PREFIX.queue), of(dels, PREFIX.queue), of(put, PREFIX.payload), of(dels, PREFIX.payload)];
}

/** The host acks all that it has, and nothing is left of it on the disk. */
async function expectAckEmpties(relay: TestRelay, host: TestHost): Promise<void> {
  await relay.ack(host, relay.engine.head(host.key).headSeq);
  await collectAll(relay);
  await expectEmptied(relay);
}

/** Nothing of queues is stored, and nothing else is wrong. */
async function expectEmptied(relay: TestRelay): Promise<void> {
  const left = await relay.atRest(async (level) => [
    ...(await level.keys(prefixRange(PREFIX.queue)).all()),
    ...(await level.keys(prefixRange(PREFIX.payload)).all()),
  ]);
  expect(left).toEqual([]);
  expect((await verified(relay.folder)).findings).toEqual([]);
}

describe('attack 1: a request of items that are known and wait', () => {
  test('asks once a run, not once an item', async () => {
    const { relay } = await packedRelay(bob, 60, 20);
    await relay.reopen();
    const watched = watchedWrites(relay.store.level);
    const again = Array.from({ length: 60 }, (_none, at) => pushOf(alice, `m${at}`, [[bob, `wire ${at}`]]));
    const verdicts = (await relay.push(...again)).map((outcome) => outcomeOf(outcome).verdict);
    expect(new Set(verdicts)).toEqual(new Set(['duplicate']));
    expect(watched.looks).toBe(3);
  });
});

describe('attack 4: items of one run that expire milliseconds apart', () => {
  test('go with one delete of their run, though each has an entry of its own', async () => {
    const { relay } = await packedRelay(bob, 256, 256);
    relay.clock.move(retentionMs(DEFAULT_LIMITS));
    const watched = watchedWrites(relay.store.level);
    await relay.expire();
    expect(written(watched, bob)).toEqual([0, 1, 0, 1]);
    expect(watched.looks).toBe(1);
    expect(await relay.queue(alice)).toHaveLength(256);
    await expectReplayed(relay.store);
    await expectAckEmpties(relay, alice);
  });

  test('and are not all due are written anew once', async () => {
    const { relay } = await packedRelay(bob, 100, 100);
    relay.clock.move(retentionMs(DEFAULT_LIMITS) - 40);
    const watched = watchedWrites(relay.store.level);
    await relay.expire();
    expect(written(watched, bob)).toEqual([1, 0, 1, 0]);
    expect(await relay.wires(bob)).toEqual(Array.from({ length: 39 }, (_none, at) => `wire ${61 + at}`));
    await expectReplayed(relay.store);
  });

  test('are found again, with their entries, when a stop came between their events', async () => {
    const { relay } = await packedRelay(bob, 256, 256, { monotonicMs: slowClock() });
    relay.clock.move(retentionMs(DEFAULT_LIMITS));
    const aborted = { signal: { aborted: false } };
    let events = 0;
    relay.committed = ({ entries }) => {
      events += entries.filter(({ event }) => event.type === 'ItemsExpired').length;
      aborted.signal.aborted = true;
    };
    const sweep = relay.engine.expiry.expire(() => relay.clock.nowMs, aborted.signal);
    await relay.engine.close();
    await sweep.catch(() => undefined);
    expect(events).toBeGreaterThan(0);
    await relay.reopen();
    await relay.sweep();
    expect(await relay.queue(bob)).toEqual([]);
    expect(new Set((await relay.queue(alice)).map(({ itemId }) => itemId)).size).toBe(256);
    expect(await relay.queue(alice)).toHaveLength(256);
  });
});

/** Every look takes so long that each slice of work is over at once. */
function slowClock(): () => number {
  let ms = 0;
  return () => (ms += 3);
}

/** Items of bob are found to be lost together. */
async function lose(relay: TestRelay, seqs: readonly number[]): Promise<void> {
  const { lost, epoch: freshEpoch } = relay.engine;
  const places = seqs.map((seq) => ({ targetPubkey: bob.key, seq }));
  await lost.find(places);
  const { nowMs } = relay.clock;
  await Promise.all(places.map((place) => lost.report({ type: 'ReportLostItem', ...place, freshEpoch, nowMs })));
}

describe('attack 4: items of one run that are lost', () => {
  test('and found together share one rewrite', async () => {
    const { relay, seqs } = await packedRelay(bob, 100, 100);
    await relay.reopen();
    const watched = watchedWrites(relay.store.level);
    await lose(relay, seqs.slice(10, 60));
    expect(written(watched, bob)).toEqual([1, 0, 1, 0]);
    expect(watched.looks).toBe(1);
    expect(await relay.wires(bob)).toHaveLength(50);
    await expectReplayed(relay.store);
  });

  test('change many runs with one batch, a few in a turn of the event loop', async () => {
    const { relay, seqs } = await packedRelay(bob, 100, 1);
    const work = new TurnWork(0);
    watchedWrites(relay.store.level, ([prefix]) => {
      if (prefix === PREFIX.queue) work.add('run', 1);
    });
    await lose(relay, seqs);
    work.stop();
    expect(work.all('run')).toBe(100);
    expect(work.mostInOneTurn('run')).toBeLessThanOrEqual(2 * 8);
  });
});

describe('attack 5: a queue in runs that is rotated again and again', () => {
  test('moves its rows, whole runs at once, and none of its bytes', async () => {
    const { relay } = await packedRelay(bob, 300, 60);
    const watched = watchedWrites(relay.store.level);
    const wires = await relay.wires(bob);
    for (const [from, to] of [
      [bob, carol],
      [carol, dave],
    ] as const) {
      await relay.rotate(rotateOf(from, to, { nowMs: relay.clock.nowMs, iatMs: relay.clock.nowMs }));
      expect(await relay.wires(to)).toEqual(wires);
    }
    expect(written(watched, bob)).toEqual([0, 5, 0, 0]);
    expect(written(watched, carol)).toEqual([5, 5, 0, 0]);
    expect(written(watched, dave)).toEqual([5, 0, 0, 0]);
    await expectReplayed(relay.store);
    await expectAckEmpties(relay, dave);
  });

  test('leaves what was acked before by the half rule, and the bytes of what moved stay', async () => {
    const { relay, seqs } = await packedRelay(bob, 50, 50);
    await relay.ack(bob, seqs[9]!);
    await collectAll(relay);
    const watched = watchedWrites(relay.store.level);
    await relay.rotate(rotateOf(bob, carol));
    expect(written(watched, bob)).toEqual([1, 0, 0, 0]);
    // The rows that were acked are all that is left in their run.
    await relay.reopen();
    await relay.store.findUncollected();
    await collectAll(relay);
    expect(await relay.wires(carol)).toEqual(Array.from({ length: 40 }, (_none, at) => `wire ${10 + at}`));
    await expectAckEmpties(relay, carol);
  });

  test('an ack of the old key that was on its way takes no bytes of what moved', async () => {
    const { relay, seqs } = await packedRelay(bob, 50, 50);
    await relay.ack(bob, seqs[9]!);
    await collectAll(relay);
    const through = relay.engine.head(bob.key).headSeq;
    const [, acked] = await Promise.all([
      relay.rotate(rotateOf(bob, carol)),
      relay.engine.acks.ack({ ...ackOf(bob, through), epoch: relay.engine.epoch }),
    ]);
    expect(acked).toMatchObject({ type: 'Acked' });
    await collectAll(relay);
    expect(await relay.wires(carol)).toEqual(Array.from({ length: 40 }, (_none, at) => `wire ${10 + at}`));
    await relay.close();
    expect((await verified(relay.folder)).findings).toEqual([]);
  });
});

test('a follower looks for the rows that a rotation moved together, and not run by run', async () => {
  const relay = new SharedTestRelay(await temporaryFolder(), 2, {});
  await relay.open();
  onTestFinished(() => relay.close());
  await relay.enrolAll(alice, bob);
  for (let run = 0; run < 30; run++)
    await relay.push(...['a', 'b', 'c'].map((id) => pushOf(alice, `${id}${run}`, [[bob, id]])));
  await relay.close();
  for (const folder of relay.folders) await relay.followed(folder);
  await relay.open();
  await relay.rotate(rotateOf(bob, carol));
  await relay.close();
  const looks = vi.spyOn(QueueRuns.prototype, 'find');
  onTestFinished(() => looks.mockRestore());
  for (const folder of relay.folders) await relay.followed(folder);
  // Each event of a move is one look.
  expect(looks.mock.calls.length).toBeGreaterThan(0);
  expect(looks.mock.calls.length).toBeLessThan(8);
  await relay.open();
  expect(await relay.wires(carol)).toHaveLength(90);
});

describe('attack 6: a host that acks through the middle of its runs', () => {
  test('item by item has less than twice its run written anew', async () => {
    const { relay, seqs } = await packedRelay(bob, 32, 32);
    const runBytes = await queueBytes(relay);
    const watched = watchedWrites(relay.store.level);
    for (const seq of seqs) {
      await relay.ack(bob, seq);
      await collectAll(relay);
    }
    const rewritten = watched.puts.filter(([[prefix]]) => prefix === PREFIX.queue || prefix === PREFIX.payload);
    const bytes = rewritten.reduce((sum, [, value]) => sum + value.length, 0);
    expect(rewritten.length).toBeGreaterThan(0);
    expect(bytes).toBeLessThan(2 * runBytes);
    await expectEmptied(relay);
  });

  test('has them written anew after ten minutes without an ack, and not before', async () => {
    let monotonicMs = 0;
    const { relay, seqs } = await packedRelay(bob, 64, 64, { monotonicMs: () => monotonicMs });
    const watched = watchedWrites(relay.store.level);
    await relay.ack(bob, seqs[9]!);
    await collectAll(relay);
    await relay.engine.heartbeat(relay.clock.nowMs);
    monotonicMs += CUT_RUN_WAITS_MS - 1;
    // Another ack: the time begins anew.
    await relay.ack(bob, seqs[11]!);
    await collectAll(relay);
    // The time begins with the first heartbeat that finds it waiting.
    await relay.engine.heartbeat(relay.clock.nowMs);
    monotonicMs += CUT_RUN_WAITS_MS - 1;
    await collectAll(relay);
    expect(written(watched, bob)).toEqual([0, 0, 0, 0]);
    expect(relay.store.collector.isPending).toBe(false);
    monotonicMs += 1;
    await collectAll(relay);
    expect(written(watched, bob)).toEqual([1, 0, 1, 0]);
    expect(await relay.wires(bob)).toHaveLength(52);
  });

  test('finds them again after a restart: until they are written anew the mark stands before them', async () => {
    let monotonicMs = 0;
    const { relay, seqs } = await packedRelay(bob, 96, 32, { monotonicMs: () => monotonicMs });
    await relay.ack(bob, seqs[41]!);
    await collectAll(relay);
    await relay.reopen();
    const watched = watchedWrites(relay.store.level);
    await collectAll(relay);
    monotonicMs += CUT_RUN_WAITS_MS;
    await collectAll(relay);
    expect(written(watched, bob)).toEqual([1, 0, 1, 0]);
    const keys = await relay.atRest((level) => level.keys(prefixRange(PREFIX.queue)).all());
    expect(keys).toEqual([seqs[63]!, seqs[95]!].map((seq) => queueKey(bob.key, seq)));
    expect((await verified(relay.folder)).findings).toEqual([]);
  });
});

/** What rows and wire bytes of all queues take. */
async function queueBytes(relay: TestRelay): Promise<number> {
  const range = { gte: prefixRange(PREFIX.queue).gte, lt: prefixRange(PREFIX.payload).lt };
  const values = await relay.store.level.values(range).all();
  return values.reduce((sum, { length }) => sum + length, 0);
}
