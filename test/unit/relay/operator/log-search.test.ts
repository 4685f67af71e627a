/** The log as a timeline: its pages, its filters, and that a long log holds nobody up. */
import { expect, onTestFinished, test } from 'vitest';
import { type LogBack, type LogQuery, searchLog } from '../../../../src/relay/operator/log-search.ts';
import { traceItem } from '../../../../src/relay/operator/item-trace.ts';
import type { LogEntry } from '../../../../src/relay/core/event.ts';
import { pushOf, rotateOf } from '../../../support/commands.ts';
import { alice, bob, carol, hostNamed } from '../../../support/hosts.ts';
import { type TestRelay, enrolledTestRelay, openTestRelay } from '../../../support/test-relay.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { TurnWork } from '../../../support/turn-work.ts';

const EVERYTHING: LogQuery = {
  beforeLsn: Number.MAX_SAFE_INTEGER,
  afterLsn: 0,
  sinceMs: 0,
  untilMs: Number.MAX_SAFE_INTEGER,
};

function optionsOf(log: LogBack) {
  const never = {
    lastPull: () => undefined,
    isWaiting: () => false,
    queuedAt: () => undefined,
    rotatedAtMs: () => undefined,
  };
  return { log, nameOf: () => 'named', monotonicMs: () => performance.now(), ...never };
}

async function filled(items: number): Promise<TestRelay> {
  const relay = await enrolledTestRelay(alice, bob, carol);
  for (let at = 0; at < items; at++) {
    relay.clock.move(1000);
    await relay.pushOne(pushOf(alice, `item-${at}`, [[at % 2 === 0 ? bob : carol, 'wire']]));
  }
  return relay;
}

test('pages go back to the first record without a gap or a repetition', async () => {
  const { store } = await filled(120);
  const lsns: number[] = [];
  let pages = 0;
  for (let beforeLsn = Number.MAX_SAFE_INTEGER; beforeLsn > 1; pages++) {
    const page = await searchLog({ ...EVERYTHING, beforeLsn }, optionsOf(store));
    lsns.push(...page.events.map(({ lsn }) => lsn));
    expect(page.log_position).toBe(124);
    beforeLsn = page.searched_down_to;
  }
  expect(pages).toBe(3);
  expect(lsns).toEqual(Array.from({ length: 124 }, (_none, at) => 124 - at));
});

test.each([0, 1])('nothing stands before record %i', async (beforeLsn) => {
  const { store } = await filled(2);

  const page = await searchLog({ ...EVERYTHING, beforeLsn }, optionsOf(store));

  expect(page).toEqual({ events: [], searched_down_to: 1, searched_down_at: null, log_position: 6 });
});

test('filters by kind, host, item and time fit what they say and nothing else', async () => {
  const { store } = await filled(6);
  const found = async (query: Partial<LogQuery>): Promise<(string | null)[]> => {
    const { events } = await searchLog({ ...EVERYTHING, ...query }, optionsOf(store));
    return events.map(({ type, item_id }) => item_id ?? type);
  };
  expect(await found({ type: 'HostEnrolled' })).toEqual(['HostEnrolled', 'HostEnrolled', 'HostEnrolled']);
  expect(await found({ type: 'Nothing' })).toEqual([]);
  expect(await found({ keys: new Set([bob.key]) })).toEqual(['item-4', 'item-2', 'item-0', 'HostEnrolled']);
  expect(await found({ itemId: 'item-3' })).toEqual(['item-3']);
  expect(await found({ sinceMs: NOON_MS + 5000 })).toEqual(['item-5', 'item-4']);
  expect(await found({ untilMs: NOON_MS + 1000, type: 'ItemAccepted' })).toEqual(['item-0']);
  expect(await found({ afterLsn: 9 })).toEqual(['item-5']);
});

test('one request looks at so many records and says where to go on', async () => {
  const { lsn: _lsn, event }: LogEntry = { lsn: 1, event: { type: 'HostSeen', hostPubkey: alice.key, atMs: 5 } };
  let runs = 0;
  async function* readBack(beforeLsn: number): AsyncGenerator<LogEntry[]> {
    for (let lsn = Math.min(beforeLsn, 100_001) - 1; lsn > 0; lsn -= 200, runs++) {
      yield Array.from({ length: 200 }, (_none, at) => ({ lsn: lsn - at, event }));
    }
  }
  async function* read(fromLsn: number): AsyncGenerator<LogEntry> {
    for (let lsn = fromLsn; lsn <= 100_000; lsn++) yield { lsn, event };
  }
  const log: LogBack = { firstLsn: 1, lastLsn: 100_000, readBack, read, entry: async (lsn) => ({ lsn, event }) };
  const page = await searchLog({ ...EVERYTHING, type: 'Nothing' }, optionsOf(log));
  expect(page).toEqual({ events: [], searched_down_to: 80_001, searched_down_at: 5, log_position: 100_000 });
  expect(runs).toBeLessThanOrEqual(100);
});

test('an item is traced over a rotation to its ack, and no other record is an item', async () => {
  const relay = await filled(1);
  const { store } = relay;
  const next = hostNamed('bob-next');
  await relay.rotate(rotateOf(bob, next));
  const [row] = await relay.queue(next);
  const states = async (): Promise<unknown> => {
    const trace = await traceItem(5, optionsOf(store));
    return trace?.targets.map(({ state, steps }) => [state, steps.map(({ what }) => what)]);
  };
  expect(await states()).toEqual([['waiting', ['accepted', 'moved']]]);
  await relay.ack(next, row?.seq ?? 0);
  expect(await states()).toEqual([['acked', ['accepted', 'moved', 'acked']]]);
  for (const lsn of [0, 1, 6, 1000]) expect(await traceItem(lsn, optionsOf(store))).toBeUndefined();
});

test('nothing is read of an item that waits where it was put; a pull is said while it waits', async () => {
  const { store } = await filled(3);
  let read = 0;
  const log: LogBack = {
    firstLsn: 1,
    lastLsn: store.lastLsn,
    readBack: (beforeLsn) => store.readBack(beforeLsn),
    entry: (lsn) => store.entry(lsn),
    read: async function* counted(fromLsn) {
      for await (const entry of store.read(fromLsn)) {
        read++;
        yield entry;
      }
    },
  };
  const options = { ...optionsOf(log), isWaiting: () => true, lastPull: () => ({ atMs: 9, through: NOON_MS * 2 }) };
  const trace = await traceItem(5, options);
  expect(trace).toMatchObject({ searched_up_to: 7, log_position: 7, targets: [{ state: 'waiting' }] });
  expect(trace?.targets[0]?.steps.map(({ what }) => what)).toEqual(['accepted', 'pulled']);
  expect(read).toBe(1);
});

test('an item that nobody called for is traced to its expiry', async () => {
  const relay = await filled(1);
  relay.clock.move(15 * 86_400_000);
  await relay.expire();
  const trace = await traceItem(5, optionsOf(relay.store));
  expect(trace).toMatchObject({ item_id: 'item-0', targets: [{ state: 'expired' }] });
});

test('a long log holds nobody up, wherever it is looked at', async () => {
  const relay = await openTestRelay({
    limits: { max_queue_items: 100_000, max_sender_items: 100_000 },
    hosts: [alice, bob],
  });
  for (let from = 0; from < 6000; from += 1000) {
    const items = Array.from({ length: 1000 }, (_none, at) => pushOf(alice, `item-${from + at}`, [[bob, 'wire']]));
    await relay.push(...items);
  }
  const { store } = relay;
  // A stretch is a hundred records, and what is left of a run of them.
  const work = new TurnWork(0.05);
  let longestRun = 1;
  onTestFinished(() => work.stop());
  const log: LogBack = {
    firstLsn: store.firstLsn,
    lastLsn: store.lastLsn,
    entry: (lsn) => store.entry(lsn),
    readBack: (beforeLsn) =>
      work.counted('searched', store.readBack(beforeLsn), (run) => {
        longestRun = Math.max(longestRun, run.length);
        return run.length;
      }),
    read: (fromLsn) => work.counted('traced', store.read(fromLsn), () => 1),
  };
  const options = { ...optionsOf(log), monotonicMs: work.monotonicMs };
  expect(await searchLog({ ...EVERYTHING, type: 'Nothing' }, options)).toMatchObject({ events: [] });
  expect(await traceItem(4, options)).toMatchObject({ searched_up_to: store.lastLsn });
  for (const kind of ['searched', 'traced']) {
    expect(work.all(kind)).toBeGreaterThanOrEqual(6000);
    expect(work.mostInOneTurn(kind)).toBeLessThanOrEqual(2 * (100 + longestRun));
  }
});
