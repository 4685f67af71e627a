import { expect, onTestFinished, test, vi } from 'vitest';
import { listQuarantine } from '../../../src/host/inbound/quarantine.ts';
import { QUARANTINE_BOUNDS } from '../../../src/host/core/quarantine.ts';
import { positionIn } from '../../../src/host/relay/relay-rows.ts';
import { problemDocument } from '../../../src/protocol/problem.ts';
import type { Epoch, HostName } from '../../../src/protocol/names.ts';
import { FIRST_ADAPTER } from '../../support/adapters.ts';
import { FlakyProxy, NO_CHANCES } from '../../support/flaky-proxy.ts';
import { relay as relayHost } from '../../support/hosts.ts';
import { type HttpRelay, relayForTest } from '../../support/http-relay.ts';
import { jsonOf } from '../../support/problems.ts';
import { RelayContext, pinEachOther } from '../../support/relay-contexts.ts';
import { SeededRandom } from '../../support/seeded-random.ts';
import { PATIENCE_MS } from '../../support/patience.ts';

const WITHIN = { timeout: PATIENCE_MS, interval: 25 };
const LONG = 40_000;

/** These steps make a host known to a relay, in this order. */
const UPKEEP: ReadonlySet<string> = new Set([
  'POST /v1/relay/challenge',
  'POST /v1/relay/enrol',
  'POST /v1/relay/enc-key',
  'POST /v2/relay/senders',
]);

interface World {
  relay: HttpRelay;
  proxy: FlakyProxy;
  alice: RelayContext;
  bob: RelayContext;
}

/** Alice uses the relay; bob is enrolled, and stopped until the test starts him. */
async function world(): Promise<World> {
  const relay = await relayForTest(FIRST_ADAPTER);
  const proxy = await FlakyProxy.open(new SeededRandom(1), () => relay.port);
  onTestFinished(() => proxy.close());
  const alice = await RelayContext.open('alice', relay.clock);
  const bob = await RelayContext.open('bob', relay.clock);
  await pinEachOther(alice, bob);
  await alice.addAgent('anna');
  await bob.addAgent('bert');
  await alice.use(relay.url);
  await bob.use(proxy.url);
  await ready(alice);
  await ready(bob);
  await bob.stop();
  return { relay, proxy, alice, bob };
}

function ready(host: RelayContext): Promise<void> {
  return vi.waitFor(async () => expect((await host.status()).state).toBe('ready'), WITHIN);
}

/** What the relay shows bob, as JSON has it. */
async function shownPage({ relay, bob }: World) {
  const { signer } = bob.context.identity();
  const page = await relay.ask({ name: 'bob' as HostName, key: bob.key, signer }, 'GET', '/v2/relay/items');
  return jsonOf(page) as { items: object[]; head_seq: number; last_seq: number };
}

async function accepted({ alice, bob }: World, count: number): Promise<string[]> {
  const refs: string[] = [];
  for (let at = 0; at < count; at++) refs.push((await alice.sendTo(bob, 'anna', ['bert'])).ref);
  await vi.waitFor(async () => {
    const states = (await alice.outbox()).filter(({ kind }) => kind === 'envelope').map(({ state }) => state);
    expect(new Set(states)).toEqual(new Set(['relay-accepted']));
  }, WITHIN);
  return refs;
}

function position({ relay, bob }: World): Promise<number> {
  const scope = { relayPubkey: relayHost.key, epoch: relay.epoch as Epoch, hostPubkey: bob.key };
  return bob.store.read((reader) => positionIn(reader, scope));
}

function ackedThrough({ relay, bob }: World): number {
  return relay.relay.engine.head(bob.key).ackedThrough;
}

async function refsOf(host: RelayContext, name: string): Promise<string[]> {
  return (await host.mailOf(name)).map(({ ref }) => ref);
}

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let at = 0; at < depth; at++) value = [value];
  return value;
}

function until(check: () => Promise<void>): Promise<void> {
  return vi.waitFor(check, WITHIN);
}

test(
  'receiving host rules 1, 3, 5 and 6: in seq order, done once, received-through to the last, acked after',
  async () => {
    const w = await world();
    const sent = await accepted(w, 5);
    w.bob.start();
    await until(async () => expect(await refsOf(w.bob, 'bert')).toEqual(sent));
    const head = w.relay.relay.engine.head(w.bob.key).headSeq;
    await until(async () => expect(ackedThrough(w)).toBe(head));
    expect(await position(w)).toBe(head);
    await until(async () => expect((await w.alice.outbox()).every(({ state }) => state === 'done')).toBe(true));
  },
  LONG,
);

const IN_FORMS = [false, true];

/** What of an item is another, and what is kept of it: what cannot even be placed comes first. */
const STRANGE_ITEMS = [
  [{ deep: nested(100) }, { kind: '', reason: 'malformed' }],
  [{ kind: 'hologram' }, { kind: 'hologram', reason: 'malformed' }],
  [{ wire_b64: '?' }, { kind: 'envelope', reason: 'malformed' }],
  [{ wire_b64: 5 }, { kind: 'envelope', reason: 'malformed' }],
  [{ item_id: null }, { item_id: '', reason: 'id-mismatch' }],
] as const;

test.each(IN_FORMS)(
  'receiving host rule 4: items that cannot be read are in quarantine, and the others of their page come (binary: %s)',
  async (isBinary) => {
    const w = await world();
    const refs = await accepted(w, STRANGE_ITEMS.length + 2);
    const page = await shownPage(w);
    const items = page.items.map((item, at) => ({ ...item, ...STRANGE_ITEMS[at - 1]?.[0] }));
    let isShown = false;
    w.proxy.instead = (method, target) => {
      if (isShown || method !== 'GET' || !target.startsWith('/v2/relay/items?after=0')) return undefined;
      isShown = true;
      return { status: 200, document: { ...page, items }, isForeign: true, isBinary };
    };
    w.bob.start();
    await until(async () => expect(await refsOf(w.bob, 'bert')).toEqual([refs[0], refs.at(-1)]));
    const kept = (await listQuarantine(w.bob.context, {})).items;
    expect(kept.toReversed()).toMatchObject(STRANGE_ITEMS.map(([, one]) => one));
    await until(async () => expect(ackedThrough(w)).toBe(page.head_seq));
  },
  LONG,
);

test.each([
  [false, { sender_pubkey: undefined }],
  [true, { sender_pubkey: null }],
])(
  'receiving host rule 4: without a sender or a seq an item is judged by the key that signed it (binary: %s)',
  async (isBinary, withoutSender) => {
    const w = await world();
    const refs = await accepted(w, 3);
    const page = await shownPage(w);
    const changes = [{}, withoutSender, { seq: 'first' }];
    const document = { ...page, items: page.items.map((item, at) => ({ ...item, ...changes[at] })) };
    w.proxy.instead = (method, target) =>
      method === 'GET' && target.startsWith('/v2/relay/items?after=0')
        ? { status: 200, document, isForeign: true, isBinary }
        : undefined;
    w.bob.start();
    await until(async () => expect((await refsOf(w.bob, 'bert')).toSorted()).toEqual(refs.toSorted()));
    await until(async () => expect(ackedThrough(w)).toBe(page.last_seq));
  },
  LONG,
);

test(
  'receiving host rule 3: of a page that is cut the items that came whole are done, and the next begins behind them',
  async () => {
    const w = await world();
    const refs = await accepted(w, 4);
    const seqs = (
      await w.relay.queue({ name: 'bob' as HostName, key: w.bob.key, signer: w.bob.context.identity().signer })
    ).map(({ seq }) => seq);
    const pulls: (string | null)[] = [];
    w.proxy.cut = (asked, target) => {
      const isPull = asked === 'GET /v2/relay/items';
      if (!isPull && asked !== 'GET /v2/relay/info') return undefined;
      if (isPull) pulls.push(new URL(target, w.proxy.url).searchParams.get('after'));
      // The first page ends in the middle of its bytes, and what is asked after it comes whole.
      w.proxy.chances = { ...NO_CHANCES, cutAnswer: isPull && pulls.length === 1 ? 1 : 0 };
      return undefined;
    };
    w.bob.start();
    await until(async () => expect(await refsOf(w.bob, 'bert')).toEqual(refs));
    const [first, second] = pulls.map(Number);
    expect(first).toBe(0);
    expect(seqs.slice(0, 3)).toContain(second);
    await until(async () => expect(ackedThrough(w)).toBe(seqs.at(-1)));
  },
  LONG,
);

test(
  'receiving host rules 4 and 5: a full quarantine stops nothing: what cannot be let in is kept without its bytes',
  async () => {
    const w = await world();
    const misaddressed = await w.alice.sendTo(w.bob, 'anna', ['nobody-here']);
    await until(async () => expect(await w.alice.rowOf(misaddressed)).toMatchObject({ state: 'relay-accepted' }));
    await w.alice.sendTo(w.bob, 'anna', ['bert']);
    const sent = (await w.alice.outbox()).at(-1)?.ref;
    await until(async () => expect(await w.alice.rowOf({ ref: sent! })).toMatchObject({ state: 'relay-accepted' }));
    const peerId = await w.bob.peerIdOf(w.alice);
    const { items, bytes } = { items: QUARANTINE_BOUNDS.relays.host.itemsMax, bytes: 1 };
    await w.bob.store.transact((tx) => tx.put('quarantineUsage', [`relays/${peerId}`], { items, bytes }));
    w.bob.start();
    await until(async () => expect(await refsOf(w.bob, 'bert')).toEqual([sent]));
    const head = w.relay.relay.engine.head(w.bob.key).headSeq;
    await until(async () => expect(ackedThrough(w)).toBe(head));
    const { acceptance, wireHash } = await w.alice.rowOf(misaddressed);
    const [kept] = (await listQuarantine(w.bob.context, {})).items;
    expect(kept).toMatchObject({
      reason: 'unknown-agent',
      item_id: misaddressed.id,
      sender_pubkey: w.alice.key,
      relay: { pubkey: relayHost.key, epoch: w.relay.epoch, seq: acceptance?.seq },
      wire_hash: wireHash,
      has_bytes: false,
    });
    expect(w.bob.said.map(({ message }) => message).join()).toContain('the quarantine is full');
  },
  LONG,
);

test(
  'receiving host rule 6: a failed ack leaves state retryable, and the next pull starts at received-through',
  async () => {
    const w = await world();
    let acks = 0;
    w.proxy.instead = (_method, target) => {
      if (!target.startsWith('/v2/relay/ack') || ++acks > 2) return undefined;
      return { status: 503, document: problemDocument('UNAVAILABLE', 'not now') };
    };
    const sent = await accepted(w, 2);
    w.bob.start();
    await until(async () => expect(acks).toBeGreaterThan(2));
    await until(async () => expect(ackedThrough(w)).toBe(await position(w)));
    expect(await refsOf(w.bob, 'bert')).toEqual(sent);
  },
  LONG,
);

test.each([
  ['a head below received-through', 'pull'],
  ['BAD_ACK', 'ack'],
] as const)(
  'receiving host rule 7: after %s everything is as in a new epoch: pulled and pushed again, the host known again',
  async (_name, how) => {
    const w = await world();
    const sent = await accepted(w, 1);
    w.bob.start();
    await until(async () => expect(ackedThrough(w)).toBeGreaterThan(0));
    const waiting = await w.bob.sendTo(w.alice, 'bert', ['anna']);
    await w.alice.stop();
    await until(async () => expect(await w.bob.rowOf(waiting)).toMatchObject({ state: 'relay-accepted' }));
    const isSeen = (): boolean => w.bob.said.some(({ message }) => message.includes('went back in time'));
    w.proxy.instead = (method, target) => {
      if (isSeen() || !target.startsWith(how === 'pull' ? '/v2/relay/items?' : '/v2/relay/ack')) return undefined;
      if (how === 'ack') return { status: 400, document: problemDocument('BAD_ACK', 'beyond', { head_seq: 1 }) };
      if (method !== 'GET') return undefined;
      return { status: 200, document: { epoch: w.relay.epoch, head_seq: 1, items: [], last_seq: 1, more: false } };
    };
    w.proxy.asked.length = 0;
    await w.bob.restart();
    await until(async () => {
      // The relay's timers stand still: an empty page would be held back for ever.
      w.relay.timers.pass(31_000);
      expect(isSeen()).toBe(true);
    });
    await until(async () =>
      expect(w.proxy.asked.filter((asked) => asked === 'POST /v2/relay/items').length).toBeGreaterThan(0),
    );
    expect(w.proxy.asked.filter((asked) => UPKEEP.has(asked))).toEqual([...UPKEEP]);
    expect((await w.bob.status()).enrolment).toMatchObject({ enc_key: {}, senders: { count: 1 } });
    await until(async () => expect((await w.bob.rowOf(waiting)).acceptance?.mayBeLost).toBeUndefined());
    expect(await refsOf(w.bob, 'bert')).toEqual(sent);
  },
  LONG,
);

test(
  'receiving host rule 8: in a new epoch the position is 0, the host registers again, and rows are pushed again',
  async () => {
    const w = await world();
    const sent = await accepted(w, 2);
    const old = w.relay.epoch;
    const next = await rotateEpoch(w.relay, 'NEXT');
    await until(async () => {
      const rows = await w.alice.outbox();
      expect(rows.map(({ acceptance }) => acceptance?.epoch)).toEqual([next, next]);
    });
    w.bob.start();
    await until(async () => expect(await refsOf(w.bob, 'bert')).toEqual(sent));
    await until(async () => expect((await w.alice.outbox()).every(({ state }) => state === 'done')).toBe(true));
    expect(await w.alice.status()).toMatchObject({ epoch: next, state: 'ready', enrolment: { senders: { count: 1 } } });
    const scopes = await w.bob.store.read(async (reader) => {
      const found = [];
      for await (const { key } of reader.range('relayPosition', [])) found.push(key[1]);
      return found;
    });
    expect(scopes).toEqual([next]);
    expect(old).not.toBe(next);
  },
  LONG,
);

async function rotateEpoch({ relay, clock }: HttpRelay, epoch: string): Promise<string> {
  const nowMs = clock.nowMs();
  await relay.engine.rotateEpoch({ type: 'RotateEpoch', epoch: epoch as never, reason: 'reset', nowMs });
  return epoch;
}
