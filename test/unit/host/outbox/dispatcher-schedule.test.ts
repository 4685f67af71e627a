/** Tests what leaves when, and over which transport: the test plays both carriers and the clock. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import type { OutboxEvent } from '../../../../src/host/core/outbox-event.ts';
import { failsOverLan, wayOfMail } from '../../../../src/host/core/transport-choice.ts';
import { noteAnswered } from '../../../../src/host/peers/peers.ts';
import { markReached } from '../../../../src/host/outbox/outbox.ts';
import type { OutboxRow, PeerRow } from '../../../../src/host/core/rows.ts';
import { relay } from '../../../support/hosts.ts';
import {
  DispatcherWorld,
  RELAY_FACTS,
  type Request,
  everyRow,
  takenByRelay,
} from '../../../support/scripted-carriers.ts';
import { deferred } from '../../../support/deferred.ts';
import { CONTEXT_START_MS } from '../../../support/test-context.ts';

const UNKNOWN_TARGET = { type: 'relay-refused', relayPubkey: relay.key, code: 'unknown target' } as const;
const NO_ANSWER = { type: 'lan-failed', reason: 'no answer' } as const;

const shown = (requests: readonly Request[]): [string, string, number[]][] =>
  requests.map(({ way, peer, rows }) => [way, peer.hostName, rows.map(({ rowId }) => rowId)]);

/** Nobody answers over the LAN. */
function unreached(request: Request): void {
  request.answer({ ...everyRow(request, NO_ANSWER), lan: 'unreached' });
}

function only(world: DispatcherWorld): Request {
  const [request, ...others] = world.requests;
  if (!request || others.length > 0) throw new Error(`${world.requests.length} requests are under way`);
  return request;
}

/**
 * A world with the paired host bob; rows wait for him, one unless they are named, and everything has begun that can.
 */
async function mailForBob({
  facts = null,
  peer = {},
  rows = [{}],
}: {
  facts?: DispatcherWorld['facts'];
  peer?: Partial<PeerRow>;
  rows?: Partial<OutboxRow>[];
} = {}): Promise<{ world: DispatcherWorld; bob: PeerRow }> {
  const world = await DispatcherWorld.open();
  world.facts = facts;
  const bob = await world.addPeer('bob', peer);
  for (const changes of rows) await world.queue(bob, changes);
  await world.settled();
  return { world, bob };
}

test('a host that hangs holds up no other host', async () => {
  const world = await DispatcherWorld.open();
  const [bob, carol] = [await world.addPeer('bob'), await world.addPeer('carol')];
  await world.queue(bob);
  await world.settled();
  await world.queue(carol);
  await world.settled();
  expect(shown(world.requests)).toEqual([
    ['lan', 'bob', [1]],
    ['lan', 'carol', [2]],
  ]);
});

test('a relay that hangs holds up no mail for a host that the LAN reaches', async () => {
  const world = await DispatcherWorld.open();
  world.facts = 'unknown';
  const bob = await world.addPeer('bob');
  const nowMs = world.context.nowMs();
  // Nobody confirmed it, so it may go over the relay too.
  await world.queue(bob, { state: 'lan-accepted', lanAcceptedAtMs: nowMs - 300_000 });
  await world.settled();
  expect([world.asked.length, world.requests]).toEqual([1, []]);
  await world.queue(bob);
  await world.settled();
  expect(shown(world.requests)).toEqual([['lan', 'bob', [2]]]);
  world.facts = RELAY_FACTS;
  world.asked[0]?.();
  await world.settled();
  expect(shown(world.requests)).toEqual([
    ['lan', 'bob', [2]],
    ['relay', 'bob', [1]],
  ]);
});

test('a message behind one of which the relay is being asked waits with it', async () => {
  const { world } = await mailForBob({ facts: 'unknown', rows: [{ lanAttempts: 2 }, {}] });
  expect([world.asked.length, world.requests]).toEqual([1, []]);
  world.facts = null;
  world.asked[0]?.();
  await world.settled();
  expect(shown(world.requests)).toEqual([['lan', 'bob', [1, 2]]]);
});

test('order: for two seconds a later message does not pass one under way over the other transport', async () => {
  const { world } = await mailForBob({ facts: RELAY_FACTS, rows: [{ lanAttempts: 2 }, {}] });
  expect(shown(world.requests)).toEqual([['relay', 'bob', [1]]]);
  await world.pass(1_999);
  expect(shown(world.requests)).toEqual([['relay', 'bob', [1]]]);
  await world.pass(1);
  expect(shown(world.requests)).toEqual([
    ['relay', 'bob', [1]],
    ['lan', 'bob', [2]],
  ]);
});

test('order: it goes at once when the earlier one was taken', async () => {
  const { world } = await mailForBob({ facts: RELAY_FACTS, rows: [{ lanAttempts: 2 }, {}] });
  const first = only(world);
  first.answer(everyRow(first, takenByRelay(RELAY_FACTS, world.context.nowMs())));
  await world.settled();
  expect(shown(world.requests)).toEqual([['lan', 'bob', [2]]]);
});

test('nothing is polled: between two tries there is one timer, and the store is not read', async () => {
  const world = await DispatcherWorld.open();
  const bob = await world.addPeer('bob');
  await world.addPeer('carol');
  await world.queue(bob);
  await world.settled();
  const first = only(world);
  first.answer(everyRow(first, { type: 'lan-accepted' }));
  await world.settled();
  const read = vi.spyOn(world.context.store, 'read');
  await world.pass(60_000);
  await world.pass(60_000);
  await world.pass(60_000);
  expect([read.mock.calls.length, vi.getTimerCount()]).toEqual([0, 1]);
  // After five minutes nobody has confirmed it.
  await world.pass(120_000);
  expect(shown(world.requests)).toEqual([['lan', 'bob', [1]]]);
});

test('a clock that was set ahead is noticed within a minute', async () => {
  const { world } = await mailForBob();
  only(world).answer(everyRow(only(world), { type: 'lan-accepted' }));
  await world.settled();
  const steadyMs = world.context.clock.nowMs;
  world.context.monotonicMs = () => steadyMs + 60_000;
  world.context.clock.nowMs += 300_000;
  vi.advanceTimersByTime(60_000);
  await world.settled();
  expect(shown(world.requests)).toEqual([['lan', 'bob', [1]]]);
});

test('a silent host costs one request for all that is due, and the next try comes by itself', async () => {
  const world = await DispatcherWorld.open();
  const bob = await world.addPeer('bob');
  await world.queueMany(bob, 3);
  await world.settled();
  const first = only(world);
  first.answer(everyRow(first, NO_ANSWER));
  await world.settled();
  expect(world.requests).toEqual([]);
  expect((await world.rowsOf(bob)).map(({ lanAttempts }) => lanAttempts)).toEqual([1, 1, 1]);
  await world.pass(5_000);
  expect(shown(world.requests)).toEqual([['lan', 'bob', [1, 2, 3]]]);
});

test('mail for a host that left the LAN goes over the relay after two tries, a tenth of a second apart', async () => {
  const { world, bob } = await mailForBob({ facts: RELAY_FACTS });
  unreached(only(world));
  await world.settled();
  expect(world.requests).toEqual([]);
  await world.pass(100);
  expect(shown(world.requests)).toEqual([['lan', 'bob', [1]]]);
  unreached(only(world));
  await world.settled();
  await world.pass(100);
  expect(shown(world.requests)).toEqual([['relay', 'bob', [1]]]);
  // The next message does not try the LAN first.
  await world.queue(bob);
  only(world).answer(everyRow(only(world), takenByRelay(RELAY_FACTS, world.context.nowMs())));
  await world.settled();
  expect(shown(world.requests)).toEqual([['relay', 'bob', [2]]]);
});

test('a row that can go nowhere waits until the relay knows its host, which is asked about once a minute', async () => {
  const { world, bob } = await mailForBob({
    facts: { ...RELAY_FACTS, isTargetEnrolled: false },
    peer: { address: null },
  });
  const [put] = await world.rowsOf(bob);
  expect(put?.nextAtMs).toBeGreaterThan(world.context.nowMs() + 60_000);
  world.facts = 'unknown';
  await world.pass(60_000);
  expect([world.asked.length, world.requests]).toEqual([1, []]);
});

test('while the relay asks to be left alone nothing is pushed, and then at once', async () => {
  const world = await DispatcherWorld.open();
  world.facts = RELAY_FACTS;
  world.relayPauseMs = 30_000;
  const bob = await world.addPeer('bob', { address: null });
  await world.queue(bob);
  await world.settled();
  await world.pass(29_000);
  expect(world.requests).toEqual([]);
  world.relayPauseMs = 0;
  await world.pass(1_000);
  expect(shown(world.requests)).toEqual([['relay', 'bob', [1]]]);
});

test('stop: a look that is under way starts nothing more', async () => {
  const world = await DispatcherWorld.open();
  const bob = await world.addPeer('bob');
  const queued: Promise<OutboxRow> = world.queue(bob);
  const ended = queued.then(() => world.dispatcher.stop());
  await ended;
  expect(world.requests).toEqual([]);
  expect(vi.getTimerCount()).toBe(0);
});

test('Transport choice, rule 3: what a request took while the rows were read is not sent once more', async () => {
  const { world, bob } = await mailForBob({ facts: RELAY_FACTS, rows: [{ lanAttempts: 2 }] });
  const first = only(world);
  expect(first.way).toBe('relay');
  const { store } = world.context;
  const read = store.read.bind(store);
  let reads = 0;
  // The first read of a look is of the peer, the second of its due rows.
  const stored = new Promise<void>((resolve) => {
    vi.spyOn(store, 'read').mockImplementation(async (work) => {
      const found = await read(work);
      if (++reads !== 2) return found;
      first.answer(everyRow(first, takenByRelay(RELAY_FACTS, world.context.nowMs())));
      await world.settled();
      resolve();
      return found;
    });
  });
  await world.queue(bob);
  await stored;
  await world.settled();
  expect(shown(world.requests)).toEqual([['lan', 'bob', [2]]]);
});

const REFUSED_LONG_AGO = { relayAttempts: 8, lastError: 'rejected:unknown target' };
test.each<[string, Partial<OutboxRow>, OutboxEvent]>([
  [
    'nobody confirmed',
    { state: 'lan-accepted', lanAcceptedAtMs: CONTEXT_START_MS - 86_400_000 },
    { type: 'lan-accepted' },
  ],
  ['the host refuses over the LAN', { lanAttempts: 8 }, { type: 'lan-rejected', code: 'quarantine full' }],
  ['a relay in another epoch refused', { state: 'relay-accepted', ...REFUSED_LONG_AGO }, UNKNOWN_TARGET],
])('a row that %s goes to the relay when it knows the host: it is asked once a minute', async (_, changes, event) => {
  const world = await DispatcherWorld.open();
  world.facts = { ...RELAY_FACTS, isTargetEnrolled: false };
  const bob = await world.addPeer('bob');
  await world.queue(bob, changes);
  await world.settled();
  only(world).answer(everyRow(only(world), event));
  await world.settled();
  const [row] = await world.rowsOf(bob);
  expect(row?.nextAtMs).toBeGreaterThan(world.context.nowMs() + 60_000);
  world.facts = 'unknown';
  await world.pass(60_000);
  expect([world.asked.length, world.requests]).toEqual([1, []]);
});

test('a relay is not asked about a host for mail that it has, or that the host took a moment ago', async () => {
  const { world, bob } = await mailForBob({ facts: RELAY_FACTS, rows: [{}, { lanAttempts: 2 }] });
  only(world).answer(everyRow(only(world), { type: 'lan-accepted' }));
  await world.settled();
  only(world).answer(everyRow(only(world), takenByRelay(RELAY_FACTS, world.context.nowMs())));
  await world.settled();
  expect((await world.rowsOf(bob)).map(({ state }) => state)).toEqual(['lan-accepted', 'relay-accepted']);
  world.facts = 'unknown';
  await world.pass(120_000);
  expect([world.asked.length, world.requests]).toEqual([0, []]);
});

test('order: it does not pass one whose request fails while rows are put off', async () => {
  const { world, bob } = await mailForBob({ facts: RELAY_FACTS, rows: [{ lanAttempts: 2 }, {}] });
  const first = only(world);
  const { store } = world.context;
  const transact = store.transact.bind(store);
  let transactions = 0;
  // The first transaction queues a row that can go nowhere, the second puts it off.
  const stored = new Promise<void>((resolve) => {
    vi.spyOn(store, 'transact').mockImplementation(async (work) => {
      if (++transactions === 2) {
        first.answer(everyRow(first, { type: 'relay-failed', relayPubkey: relay.key, reason: 'no answer' }));
        await world.settled();
        resolve();
      }
      return transact(work);
    });
  });
  await world.queue(bob, { state: 'quarantined' });
  await stored;
  await world.settled();
  expect(world.requests).toEqual([]);
  await world.pass(2_000);
  expect(shown(world.requests)).toEqual([['relay', 'bob', [1]]]);
});

/** A store that begins no transaction until it is let. */
function heldBack(world: DispatcherWorld): () => void {
  const { store } = world.context;
  const transact = store.transact.bind(store);
  const held = deferred();
  vi.spyOn(store, 'transact').mockImplementation((work) => held.promise.then(() => transact(work)));
  return held.resolve;
}

/** Until the reads of a look are over; the store is held back, so that it never gets quiet. */
async function someTurns(): Promise<void> {
  for (let turn = 0; turn < 50; turn++) await nextTurn();
}

test('the next request leaves while the success of the one before is stored, and carries none of it', async () => {
  const { world, bob } = await mailForBob({ facts: null, rows: [{}] });
  const first = only(world);
  await world.queue(bob);
  const release = heldBack(world);
  const next = deferred();
  world.onRequest = next.resolve;
  first.answer(everyRow(first, { type: 'lan-accepted' }));
  await next.promise;
  expect(shown(world.requests)).toEqual([['lan', 'bob', [2]]]);
  expect((await world.rowsOf(bob)).map(({ state }) => state)).toEqual(['pending', 'pending']);
  release();
  await world.settled();
  expect((await world.rowsOf(bob)).map(({ state }) => state)).toEqual(['lan-accepted', 'pending']);
  expect(shown(world.requests)).toEqual([['lan', 'bob', [2]]]);
  // What was stored has a moment of its own, at which the peer is looked at again.
  only(world).answer(everyRow(only(world), { type: 'lan-accepted' }));
  await world.settled();
  await world.pass(300_000);
  expect(shown(world.requests)).toEqual([['lan', 'bob', [1, 2]]]);
});

test.each<OutboxEvent>([
  { type: 'lan-rejected', code: 'quarantine full' },
  { type: 'lan-failed', reason: 'no answer' },
])('order: what is behind a row that was not taken waits until that is stored (%o)', async (event) => {
  const { world, bob } = await mailForBob({ facts: null, rows: [{}] });
  const first = only(world);
  await world.queue(bob);
  const release = heldBack(world);
  first.answer(everyRow(first, event));
  await someTurns();
  expect(world.requests).toEqual([]);
  release();
  await world.settled();
});

test.each([undefined, 'unreached'] as const)(
  'mail goes over the relay, as all are told, while each request with mail over the LAN fails (%s), whoever calls',
  async (lan) => {
    const { world, bob } = await mailForBob({ facts: RELAY_FACTS, peer: { reachedAtMs: CONTEXT_START_MS } });
    const { store } = world.context;
    const now = async (): Promise<PeerRow> => (await store.read((reader) => reader.get('peer', bob.peerId))) ?? bob;
    const way = async (): Promise<string> => wayOfMail(await now(), RELAY_FACTS);
    expect(await way()).toBe('lan');
    for (let failure = 0; failure < 2; failure++) {
      const { rows, answer } = only(world);
      answer({ events: rows.map(({ rowId }) => ({ rowId, event: NO_ANSWER })), ...(lan && { lan }) });
      await world.settled();
      // It calls: it is up, and that is all that is known of it.
      await store.transact((tx) => markReached(tx, world.context, bob.peerId));
      await world.pass(100);
    }
    expect([await way(), failsOverLan(await now())]).toEqual(['relay', true]);
    // An answer to another request of this host ends that, unless the mail itself was refused.
    await store.transact((tx) => noteAnswered(tx, bob.peerId));
    expect(await way()).toBe(lan ? 'lan' : 'relay');
    // Each message is tried over the LAN first: one that is taken there ends it too.
    for (const request of world.requests)
      request.answer(everyRow(request, takenByRelay(RELAY_FACTS, CONTEXT_START_MS)));
    await world.settled();
    await world.queue(bob);
    await world.settled();
    const request = only(world);
    expect(request.way).toBe('lan');
    request.answer(everyRow(request, { type: 'lan-accepted' }));
    await world.settled();
    expect(await way()).toBe('lan');
  },
);
