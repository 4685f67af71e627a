/** The dispatcher of a host with two relays: the test plays both, and the clock. Nobody is on the LAN. */
import { expect, test } from 'vitest';
import { copiesOf } from '../../../../src/host/core/outbox-row.ts';
import type { OutboxRow, PeerRow } from '../../../../src/host/core/rows.ts';
import type { RelayFacts } from '../../../../src/host/core/transport-choice.ts';
import { afterAttempt } from '../../../../src/host/outbox/outbox.ts';
import { LANE_SETTINGS, type surveyOf } from '../../../../src/host/outbox/peer-work.ts';
import type { PublicKey } from '../../../../src/protocol/public-key.ts';
import { hostNamed } from '../../../support/hosts.ts';
import {
  DispatcherWorld,
  everyRow,
  RELAY_FACTS,
  type Request,
  takenByRelay,
} from '../../../support/scripted-carriers.ts';

const [r1, r2] = [hostNamed('r1').key, hostNamed('r2').key];
const factsOf = (relayPubkey: PublicKey): RelayFacts => ({ ...RELAY_FACTS, relayPubkey });
const keyOf = ({ way }: Request): PublicKey => (way === 'relay' ? r1 : r2);
const HOUR_MS = 3_600_000;
/** What is read when all open rows of a peer are. */
type OpenRows = Awaited<ReturnType<typeof surveyOf>>;

class TwoRelays {
  readonly world: DispatcherWorld;
  readonly bob: PeerRow;

  constructor(world: DispatcherWorld, bob: PeerRow) {
    this.world = world;
    this.bob = bob;
  }

  /** Both know bob, who has confirmed mail before. */
  static async open(settings = LANE_SETTINGS): Promise<TwoRelays> {
    const world = await DispatcherWorld.open([r1, r2], settings);
    for (const relay of world.relays) relay.facts = factsOf(relay.relayPubkey);
    return new TwoRelays(world, await world.addPeer('bob', { address: null, hasConfirmed: true }));
  }

  get #relays() {
    const [first, second] = this.world.relays;
    if (!first || !second) throw new Error('there are two relays');
    return { first, second };
  }

  async queue(changes: Partial<OutboxRow> = {}): Promise<void> {
    await this.world.queue(this.bob, changes);
    await this.world.settled();
  }

  /** The requests under way. */
  shown(): [string, number[]][] {
    return this.world.requests.map(({ way, rows }) => [way, rows.map(({ rowId }) => rowId)]);
  }

  /** The one request under way. */
  only(): Request {
    const [request, ...others] = this.world.requests;
    if (!request || others.length > 0) throw new Error('one request is under way');
    return request;
  }

  /** Each relay takes what is under way to it. */
  async take(): Promise<void> {
    for (const request of this.world.requests)
      request.answer(everyRow(request, takenByRelay(factsOf(keyOf(request)), this.world.context.nowMs())));
    await this.world.settled();
  }

  async turn(which: 'first' | 'second', changes: { isDown?: boolean; unheardMs?: number }): Promise<void> {
    const relay = this.#relays[which];
    Object.assign(relay, changes);
    this.world.context.emit({ type: 'relay-turned', relayPubkey: relay.relayPubkey });
    await this.world.settled();
  }

  async confirm(rowId: number, over: PublicKey): Promise<void> {
    const { context } = this.world;
    const { peerId } = this.bob;
    await context.store.transact((tx) => {
      const [recipient] = tx.get('outbox', rowId)?.recipients ?? [];
      if (recipient === undefined) throw new Error('the row is there');
      const row = afterAttempt(tx, context, rowId, {
        type: 'receipt',
        recipient,
        state: 'delivered',
        relayPubkey: over,
      });
      const copies = row?.copies?.length ?? 0;
      const isDone = row?.state === 'done';
      const heard = { type: 'peer-heard', peerId, over, rowId, copies, isDone, wroteAtMs: 0 } as const;
      tx.afterCommit(() => context.emit(heard));
    });
    await this.world.settled();
  }

  /** Where each row is. */
  async copies(): Promise<string[]> {
    const rows = await this.world.rowsOf(this.bob);
    return rows.map((row) =>
      copiesOf(row)
        .map(({ acceptance }) => (acceptance.relayPubkey === r1 ? '1' : '2'))
        .toSorted()
        .join(''),
    );
  }
}

test('mail takes the first relay, and the second is not asked about the peer', async () => {
  const two = await TwoRelays.open();
  const second = two.world.relays[1];
  if (second) second.facts = 'unknown';
  await two.queue();
  expect([two.shown(), second?.asked.length]).toEqual([[['relay', [1]]], 0]);
});

test('a silent relay: a row under way to it goes over the other one too, and is in two requests', async () => {
  const two = await TwoRelays.open();
  await two.queue();
  await two.turn('first', { isDown: true });
  await two.queue();
  expect(two.shown()).toEqual([
    ['relay', [1]],
    ['relay2', [1]],
  ]);
  await two.take();
  expect(two.shown()).toEqual([['relay2', [2]]]);
  expect(await two.copies()).toEqual(['12', '']);
});

test('refused there: the other one takes it, and the first is not tried for the peer within a minute', async () => {
  const two = await TwoRelays.open();
  await two.queue();
  for (const request of two.world.requests)
    request.answer(everyRow(request, { type: 'relay-refused', relayPubkey: r1, code: 'unknown target' }));
  await two.world.settled();
  expect(two.shown()).toEqual([['relay2', [1]]]);
  await two.take();
  await two.queue();
  expect(two.shown()).toEqual([['relay2', [2]]]);
});

test('refused there, and the peer goes on under another key: the first takes its mail again at once', async () => {
  const two = await TwoRelays.open();
  await two.queue();
  two.only().answer(everyRow(two.only(), { type: 'relay-refused', relayPubkey: r1, code: 'unknown target' }));
  await two.world.settled();
  await two.take();
  await two.confirm(1, r1);
  two.world.context.emit({ type: 'peer-rotated', peerId: two.bob.peerId, keys: [] });
  await two.queue();
  expect(two.shown()).toEqual([['relay', [2]]]);
});

test('too large for one: the next takes it, and its sender is told when it is too large for all', async () => {
  const two = await TwoRelays.open();
  const refuse = async (request: Request): Promise<void> => {
    const code = 'too large';
    request.answer(everyRow(request, { type: 'relay-refused', relayPubkey: keyOf(request), code }));
    await two.world.settled();
  };
  await two.queue();
  await refuse(two.only());
  await two.world.pass(60_000);
  expect(two.shown()).toContainEqual(['relay2', [1]]);
  expect(await two.world.rowsOf(two.bob)).toMatchObject([{ alertedAtMs: null }]);
  for (const request of two.world.requests) await refuse(request);
  expect(await two.world.rowsOf(two.bob)).toMatchObject([{ alertedAtMs: two.world.context.nowMs() }]);
});

test('the lane goes back when nothing is elsewhere, and what it takes is copied nowhere', async () => {
  const two = await TwoRelays.open();
  await two.turn('first', { isDown: true });
  await two.queue();
  await two.take();
  await two.turn('first', { isDown: false });
  await two.queue();
  expect(two.shown()).toEqual([['relay2', [2]]]);
  await two.take();
  await two.confirm(1, r1);
  await two.confirm(2, r1);
  await two.queue();
  expect(two.shown()).toEqual([['relay', [3]]]);
});

test('the lane goes back after an hour, behind what it lacks', async () => {
  const two = await TwoRelays.open({ ...LANE_SETTINGS, secondCopyMs: null });
  await two.turn('first', { isDown: true });
  await two.queue();
  await two.take();
  await two.turn('first', { isDown: false });
  await two.world.pass(HOUR_MS);
  expect(two.shown()).toEqual([]);
  await two.queue();
  expect(two.shown()).toEqual([['relay', [1, 2]]]);
});

test('what a relay has that is not heard goes over the other one, after its time and half as much', async () => {
  const two = await TwoRelays.open();
  await two.queue();
  await two.take();
  await two.turn('first', { isDown: true, unheardMs: 299_999 });
  expect(two.shown()).toEqual([]);
  await two.turn('first', { unheardMs: 450_000 });
  await two.world.pass(10);
  expect(two.shown()).toEqual([['relay2', [1]]]);
});

test('what is not confirmed for an hour gets a second copy, by one timer, and never a third', async () => {
  const two = await TwoRelays.open();
  await two.queue();
  await two.take();
  await two.world.pass(HOUR_MS - 1);
  expect(two.shown()).toEqual([]);
  await two.world.pass(1);
  expect(two.shown()).toEqual([['relay2', [1]]]);
  await two.take();
  await two.world.pass(10 * HOUR_MS);
  expect([two.shown(), await two.copies()]).toEqual([[], ['12']]);
});

test('a request that holds a part of the copies is followed by one with the others', async () => {
  const two = await TwoRelays.open();
  await two.world.queueMany(two.bob, 3);
  await two.world.settled();
  while (two.world.requests.length > 0) await two.take();
  await two.turn('first', { isDown: true, unheardMs: 450_000 });
  const request = two.only();
  const { events } = everyRow(request, takenByRelay(factsOf(r2), two.world.context.nowMs()));
  request.answer({ events: events.slice(0, 1) });
  await two.world.settled();
  expect(two.shown()).toEqual([['relay2', [2, 3]]]);
});

test('a second copy that failed, or that waited for the one before it, is made as soon as it can be', async () => {
  const two = await TwoRelays.open();
  await two.queue();
  await two.take();
  await two.world.pass(10_000);
  await two.queue();
  await two.take();
  await two.world.pass(HOUR_MS - 10_000);
  await two.world.pass(10_000);
  const request = two.only();
  request.answer(everyRow(request, { type: 'relay-failed', relayPubkey: r2, reason: 'ECONNREFUSED' }));
  await two.world.settled();
  await two.world.pass(60_000);
  expect(two.shown()).toEqual([['relay2', [1, 2]]]);
});

test('an answer that comes while the rows are read: they are read again', async () => {
  const two = await TwoRelays.open();
  await two.queue();
  await two.take();
  await two.queue();
  const request = two.only();
  const { store } = two.world.context;
  const read = store.read.bind(store);
  let hasAnswered = false;
  store.read = async (work) => {
    const result = await read(work);
    if ((result as Partial<OpenRows> | undefined)?.rows?.length === 2 && !hasAnswered) {
      hasAnswered = true;
      request.answer(everyRow(request, { type: 'relay-failed', relayPubkey: r1, reason: 'late' }));
    }
    return result;
  };
  await two.turn('first', { isDown: true, unheardMs: 450_000 });
  expect([hasAnswered, two.shown()]).toEqual([true, [['relay2', [1]]]]);
});

test('a relay that comes back while an answer of the other one is stored gets its second copy', async () => {
  const two = await TwoRelays.open();
  await two.turn('first', { isDown: true });
  await two.queue();
  const [request] = two.world.requests;
  if (!request) throw new Error('it is under way');
  request.answer(everyRow(request, takenByRelay(factsOf(r2), two.world.context.nowMs())));
  await two.turn('first', { isDown: false });
  expect([two.shown(), await two.copies()]).toEqual([[], ['2']]);
  await two.world.pass(HOUR_MS);
  expect(two.shown()).toEqual([['relay', [1]]]);
});

test('each copy keeps why it was made', async () => {
  const two = await TwoRelays.open();
  const reasons = async (): Promise<unknown[]> =>
    (await two.world.rowsOf(two.bob)).map((row) => copiesOf(row).map(({ why }) => why));
  await two.queue();
  await two.take();
  await two.turn('first', { isDown: true });
  await two.queue();
  await two.take();
  expect(await reasons()).toEqual([['first', 'ahead'], ['first']]);
  await two.turn('first', { isDown: false });
  await two.world.pass(HOUR_MS);
  await two.take();
  expect(await reasons()).toEqual([
    ['first', 'ahead'],
    ['first', 'second'],
  ]);
  await two.queue();
  await two.take();
  await two.turn('first', { isDown: true, unheardMs: 450_000 });
  await two.take();
  expect((await reasons()).at(-1)).toEqual(['first', 'unheard']);
});

test('second copies may be off', async () => {
  const two = await TwoRelays.open({ ...LANE_SETTINGS, secondCopyMs: null });
  await two.queue();
  await two.take();
  await two.world.pass(48 * HOUR_MS);
  expect(two.shown()).toEqual([]);
});

test('a peer that never confirmed anything gets second copies of its first 20 rows alone', async () => {
  const two = await TwoRelays.open();
  const { context } = two.world;
  await context.store.transact((tx) => tx.put('peer', [two.bob.peerId], { ...two.bob, hasConfirmed: false }));
  await two.world.queueMany(two.bob, 21);
  await two.world.settled();
  while (two.world.requests.length > 0) await two.take();
  await two.world.pass(HOUR_MS);
  await two.take();
  expect((await two.copies()).filter((copies) => copies === '12')).toHaveLength(20);
});

test('a minute after a later row was confirmed, an earlier one gets its second copy', async () => {
  const two = await TwoRelays.open();
  await two.queue();
  await two.take();
  await two.queue();
  await two.take();
  await two.confirm(2, r1);
  await two.world.pass(59_999);
  expect(two.shown()).toEqual([]);
  await two.world.pass(1);
  expect(two.shown()).toEqual([['relay2', [1]]]);
});

test('a relay is doubted ten minutes after the peer got what it had over the other one alone', async () => {
  const two = await TwoRelays.open();
  await two.world.pass(600_000);
  await two.queue();
  await two.take();
  await two.world.pass(HOUR_MS);
  await two.take();
  await two.confirm(1, r2);
  await two.world.pass(600_000);
  const peer = await two.world.context.store.read((reader) => reader.get('peer', two.bob.peerId));
  expect(peer?.doubted).toMatchObject([{ relayPubkey: r1, over: r2, messages: 1 }]);
  await two.queue();
  expect(two.shown()).toEqual([['relay2', [2]]]);
});

test('a relay that both brought it over is not doubted', async () => {
  const two = await TwoRelays.open();
  await two.queue();
  await two.take();
  await two.world.pass(HOUR_MS);
  await two.take();
  await two.confirm(1, r2);
  await two.confirm(1, r1);
  await two.world.pass(600_000);
  const peer = await two.world.context.store.read((reader) => reader.get('peer', two.bob.peerId));
  expect(peer?.doubted).toBeUndefined();
});

test('a relay that said too early that the time of something was up is avoided for all hosts, for a day', async () => {
  const two = await TwoRelays.open();
  const { context } = two.world;
  const carol = await two.world.addPeer('carol', { address: null, hasConfirmed: true });
  const { rowId } = await two.world.queue(carol);
  await two.world.settled();
  const pinned = { url: 'https://r1.example', pubkey: r1, pinnedAtMs: 0, seenKey: null, proof: null };
  const notice = { type: 'expired', relayPubkey: r1, expiredAtMs: context.nowMs() + HOUR_MS } as const;
  await context.store.transact((tx) => {
    tx.put('relay', [], { ...pinned, epoch: RELAY_FACTS.epoch, sendersIatMs: 0 });
    afterAttempt(tx, context, rowId, { type: 'relay-pushing', relayPubkey: r1, isOneOfMany: true });
  });
  await two.take();
  await context.store.transact((tx) => afterAttempt(tx, context, rowId, notice));
  await two.queue();
  expect(two.shown()).toEqual([['relay2', [2]]]);
  await two.take();
  await two.confirm(2, r1);
  await two.world.pass(24 * HOUR_MS);
  await two.take();
  await two.queue();
  expect(two.shown()).toContainEqual(['relay', [3]]);
});

/** Counts the times that all open rows of bob are read. */
function readsOf({ world }: TwoRelays): { count: number } {
  const { store } = world.context;
  const reads = { count: 0 };
  const read = store.read.bind(store);
  store.read = async (work) => {
    const result = await read(work);
    if ((result as Partial<OpenRows> | undefined)?.survey) reads.count++;
    return result;
  };
  return reads;
}

test('a relay that turns up and down, and that mail does not take, has open rows read once in a while', async () => {
  const two = await TwoRelays.open({ ...LANE_SETTINGS, secondCopyMs: null });
  await two.world.queueMany(two.bob, 300);
  await two.world.settled();
  while (two.world.requests.length > 0) await two.take();
  await two.turn('second', { isDown: true });
  const reads = readsOf(two);
  for (let seconds = 0; seconds < 12; seconds++) {
    await two.turn('second', { isDown: seconds % 2 === 0 });
    await two.world.pass(1000);
  }
  expect(reads.count).toBe(4);
  // The one that mail takes has them read at once.
  await two.turn('first', { isDown: true });
  expect(reads.count).toBeGreaterThan(4);
});

test('while mail waits for its return to the first relay, a receipt has no row read but its own', async () => {
  const two = await TwoRelays.open({ ...LANE_SETTINGS, secondCopyMs: null });
  await two.turn('first', { isDown: true });
  await two.world.queueMany(two.bob, 20);
  await two.world.settled();
  while (two.world.requests.length > 0) await two.take();
  await two.turn('first', { isDown: false });
  await two.queue();
  await two.take();
  const reads = readsOf(two);
  for (let rowId = 1; rowId <= 20; rowId++) {
    await two.confirm(rowId, r1);
    await two.queue();
    expect(two.shown()).toEqual([['relay2', [21 + rowId]]]);
    await two.take();
  }
  expect(reads.count).toBe(0);
  for (let rowId = 21; rowId <= 41; rowId++) await two.confirm(rowId, r1);
  await two.queue();
  expect(two.shown()).toEqual([['relay', [42]]]);
});

test('a relay whose word of the peer ran out, and that says the same again, is no new way', async () => {
  const two = await TwoRelays.open();
  await two.queue();
  two.only().answer(everyRow(two.only(), { type: 'relay-failed', relayPubkey: r1, reason: 'ECONNRESET' }));
  await two.world.settled();
  const first = two.world.relays[0]!;
  const { facts } = first;
  first.facts = 'unknown';
  await two.queue();
  expect([two.shown(), first.asked.length]).toEqual([[], 1]);
  first.facts = facts;
  first.asked.pop()?.();
  await two.world.settled();
  expect(two.shown()).toEqual([['relay', [1, 2]]]);
  // The pause of the first one was not ended: it goes ahead of the second.
  expect(await two.world.rowsOf(two.bob)).toMatchObject([{ relayAttempts: 1 }, { relayAttempts: 0 }]);
});

test('status names the way of the lane', async () => {
  const two = await TwoRelays.open();
  expect(two.world.dispatcher.factsFor(two.bob)).toMatchObject({ relayPubkey: r1 });
  await two.turn('first', { isDown: true });
  expect(two.world.dispatcher.factsFor(two.bob)).toMatchObject({ relayPubkey: r2 });
  await two.turn('second', { isDown: true });
  expect(two.world.dispatcher.factsFor(two.bob)).toBeNull();
});

test('both down: rows wait, and leave over the one that is back first', async () => {
  const two = await TwoRelays.open();
  await two.turn('first', { isDown: true });
  await two.turn('second', { isDown: true });
  await two.queue();
  expect(two.shown()).toEqual([]);
  await two.turn('second', { isDown: false });
  expect(two.shown()).toEqual([['relay2', [1]]]);
});
