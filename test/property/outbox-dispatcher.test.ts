/**
 * The dispatcher in random runs, held against rules that need none of its bookkeeping: every request is looked at when
 * it begins, with nothing but the rows in the store and the requests under way.
 */
import { expect, test } from 'vitest';
import type { OutboxEvent } from '../../src/host/core/outbox-event.ts';
import type { OutboxRow, PeerRow } from '../../src/host/core/rows.ts';
import { chooseTransport } from '../../src/host/core/transport-choice.ts';
import { relay } from '../support/hosts.ts';
import { DispatcherWorld, RELAY_FACTS, type Request, everyRow, takenByRelay } from '../support/scripted-carriers.ts';
import { SeededRandom } from '../support/seeded-random.ts';
import { share } from '../support/thorough.ts';

const SEEDS = Array.from({ length: share(20) }, (_, at) => at + 1);
const ROUNDS = 120;
const ORDER_WAIT_MS = 2_000;
const LAN_EVENTS: OutboxEvent[] = [
  { type: 'lan-accepted' },
  { type: 'lan-accepted' },
  { type: 'lan-failed', reason: 'no answer' },
  { type: 'lan-rejected', code: 'quarantine full' },
];
const RELAY_EVENTS: OutboxEvent[] = [
  { type: 'relay-failed', relayPubkey: relay.key, reason: 'no answer' },
  { type: 'relay-refused', relayPubkey: relay.key, code: 'quota:queue_items' },
  { type: 'relay-refused', relayPubkey: relay.key, code: 'unknown target' },
];

const isMessage = ({ kind, state }: OutboxRow): boolean => kind === 'envelope' && state === 'pending';

/** Returns what is wrong with a request, by the rules in the dispatcher's header. */
async function faultsOf(world: DispatcherWorld, request: Request, others: readonly Request[]): Promise<string[]> {
  const { way, rows, peer } = request;
  const faults: string[] = [];
  const ofPeer = others.filter(({ peer: { peerId } }) => peerId === peer.peerId);
  if (ofPeer.some((other) => other.way === way)) faults.push('a second request over one transport');
  const ids = new Set(rows.map(({ rowId }) => rowId));
  if (ofPeer.some((other) => other.rows.some(({ rowId }) => ids.has(rowId)))) faults.push('a row in two requests');
  const messages = rows.filter(isMessage).map(({ rowId }) => rowId);
  if (messages.some((rowId, at) => at > 0 && rowId < (messages[at - 1] ?? 0))) faults.push('messages out of order');
  const nowMs = world.context.nowMs();
  const facts = world.facts === 'unknown' ? null : world.facts;
  for (const row of rows) {
    if (chooseTransport(row, peer, facts, { nowMs, momentMs: (atMs) => atMs }) !== way)
      faults.push(`row ${row.rowId} does not go over the ${way}`);
  }
  const last = Math.max(...messages);
  for (const other of ofPeer.filter(({ sinceMs }) => nowMs - sinceMs < ORDER_WAIT_MS)) {
    const earlier = other.rows.find((row) => isMessage(row) && row.rowId < last);
    if (earlier) faults.push(`message ${earlier.rowId} is under way over the other transport`);
  }
  return faults;
}

test.each(SEEDS)('seed %i: every request keeps the rules, and in the end every message is taken', async (seed) => {
  const random = new SeededRandom(seed);
  const world = await DispatcherWorld.open();
  const faults: Promise<string[]>[] = [];
  world.onRequest = (request): void => {
    faults.push(
      faultsOf(
        world,
        request,
        world.requests.filter((other) => other !== request),
      ),
    );
  };
  const peers: PeerRow[] = [await world.addPeer('bob'), await world.addPeer('carol', { address: null })];
  peers.push(await world.addPeer('dave', { lanFailures: 2 }));
  const answer = (request: Request, event: OutboxEvent): void => {
    const sent = everyRow(request, event);
    // A relay may have room for a part of it.
    if (request.way === 'relay' && random.chance(0.3)) {
      for (const part of sent.events) if (random.chance(0.5)) part.event = taken();
    }
    request.answer(sent);
  };
  const taken = (): OutboxEvent => takenByRelay(RELAY_FACTS, world.context.nowMs());
  for (let round = 0; round < ROUNDS; round++) {
    for (let count = random.below(4); count > 0; count--) await world.queue(random.pick(peers));
    if (random.chance(0.15))
      world.facts = random.pick([null, RELAY_FACTS, { ...RELAY_FACTS, isTargetEnrolled: false }]);
    if (random.chance(0.1)) world.relayPauseMs = random.pick([0, 0, 3_000]);
    for (const request of world.requests.filter(() => random.chance(0.6))) {
      if (request.way === 'lan') answer(request, random.pick(LAN_EVENTS));
      else answer(request, random.chance(0.5) ? taken() : random.pick(RELAY_EVENTS));
    }
    await world.pass(random.below(4_000));
  }
  world.facts = RELAY_FACTS;
  world.relayPauseMs = 0;
  for (let quiet = 0; quiet < 3; ) {
    quiet = world.requests.length === 0 ? quiet + 1 : 0;
    for (const request of world.requests) {
      request.answer(everyRow(request, request.way === 'lan' ? { type: 'lan-accepted' } : taken()));
    }
    await world.pass(60_000);
    for (let minutes = 0; minutes < 16 && world.requests.length === 0; minutes++) await world.pass(60_000);
  }
  expect((await Promise.all(faults)).flat()).toEqual([]);
  expect(faults.length).toBeGreaterThan(50);
  for (const peer of peers) {
    for (const row of await world.rowsOf(peer)) expect(row.state).not.toBe('pending');
  }
});
