/** A host moves from one relay to another, with real relays: under load, over restarts, and when it cannot. */
import { expect, onTestFinished, test } from 'vitest';
import type { RelayMoveView } from '../../../../src/host/contract/relay-move.ts';
import type { OutputOf } from '../../../../src/host/api/operations.ts';
import { MOVE_HELD_MS, MOVE_QUIET_MS, MOVE_WRITE_AFTER_MS, newMove } from '../../../../src/host/core/relay-move.ts';
import { RelayMover } from '../../../../src/host/relay/relay-move.ts';
import { pinRelay, putEnrolment } from '../../../../src/host/relay/relay-rows.ts';
import type { RelayUse } from '../../../../src/host/relay/relay-use.ts';
import { ownRelays } from '../../../../src/host/outbox/homes.ts';
import type { AgentId } from '../../../../src/host/core/rows.ts';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import type { Epoch } from '../../../../src/protocol/names.ts';
import { displayFingerprint, type PublicKey } from '../../../../src/protocol/public-key.ts';
import { FlakyProxy } from '../../../support/flaky-proxy.ts';
import { found } from '../../../support/found.ts';
import { hostNamed } from '../../../support/hosts.ts';
import { accepted } from '../../../support/mail-context.ts';
import { ManualTimers } from '../../../support/manual-time.ts';
import { RelayContext, pinEachOther } from '../../../support/relay-contexts.ts';
import { inState, until, WORLD_TEST_MS } from '../../../support/relay-world.ts';
import { SeededRandom } from '../../../support/seeded-random.ts';
import { addTo, inStates, type OneRelay, RELAYS, relayNumbered, viewsOf } from '../../../support/several-relays.ts';
import { testContext } from '../../../support/test-context.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const HOUR_MS = 3_600_000;

interface World {
  old: OneRelay;
  new: OneRelay;
  alice: RelayContext;
  bob: RelayContext;
  /** Bob's way to the new relay. */
  bobsNew: FlakyProxy;
  /** Both hosts and both relays. */
  pass: (ms: number) => void;
}

/** Alice uses the old relay alone, bob both. */
async function world(): Promise<World> {
  const clock = { wallMs: NOON_MS, nowMs: () => clock.wallMs };
  const [one, two] = [await relayNumbered(1), await relayNumbered(2)];
  const pulls = { waitSeconds: 0 };
  const [alice, bob] = [await RelayContext.open('alice', clock, pulls), await RelayContext.open('bob', clock, pulls)];
  await pinEachOther(alice, bob);
  await alice.addAgent('anna');
  await bob.addAgent('bert');
  const pass = (ms: number): void => {
    clock.wallMs += ms;
    for (const { relay } of [one, two]) relay.clock.move(ms);
    alice.timers.pass(ms);
  };
  await alice.use(one.proxy.url);
  await bob.use(one.proxy.url);
  const bobsNew = await FlakyProxy.open(new SeededRandom(9), () => two.relay.port);
  onTestFinished(() => bobsNew.close());
  await addTo(bob, { url: bobsNew.url });
  return { old: one, new: two, alice, bob, bobsNew, pass };
}

const KEY = displayFingerprint(RELAYS[1].key);

async function begin({ alice, new: { proxy } }: World): Promise<OutputOf<'relay-move'>> {
  return accepted(await found(alice.mover, 'the host is started').begin({ url: proxy.url, key: KEY }));
}

const moveOf = ({ alice }: World): Promise<RelayMoveView | null> => found(alice.mover, 'the host is started').status();

const inMove = (w: World, state: RelayMoveView['state']): Promise<void> =>
  until(async () => expect(await moveOf(w)).toMatchObject({ state }));

/** Alice's mail tells bob of her relays, and his receipt says that he knows. Returns the relay that it went over. */
async function teach({ alice, bob }: World): Promise<PublicKey | undefined> {
  const sent = await alice.sendTo(bob, 'anna', ['bert']);
  await inState(alice, sent, 'done');
  return (await alice.rowOf(sent)).acceptance?.relayPubkey;
}

/** The subjects of what is in the owner's mailbox. */
function toOwner(host: RelayContext): Promise<string[]> {
  return host.store.read(async (reader) => {
    const subjects: string[] = [];
    for await (const { row } of reader.range('entry', ['owner' as AgentId]))
      subjects.push(reader.get('message', row.ref)?.subject ?? '');
    return subjects;
  });
}

const urlsOf = async (host: RelayContext): Promise<string[]> => (await viewsOf(host)).map(({ relay }) => relay.url);

/** The relays of alice's document. */
const document = ({ alice }: World) =>
  alice.store.read((reader) => reader.get('homeDocument')?.doc.relays.map(({ relay_pubkey: key }) => key));

/** What the relay has published as alice's list, by the last request. */
const listsAt = ({ proxy }: OneRelay): number[] =>
  proxy.asked.flatMap((line, at) =>
    line === 'POST /v2/relay/senders'
      ? [(JSON.parse(found(proxy.bodies[at], 'it has a body')) as { list: { senders: string[] } }).list.senders.length]
      : [],
  );

test(
  'a host moves under load, and is started anew in every state: nothing is lost, nothing comes twice',
  async () => {
    const w = await world();
    const { alice, bob } = w;
    const sent: string[] = [];
    const send = async (): Promise<void> => void sent.push((await bob.sendTo(alice, 'bert', ['anna'])).ref);
    await send();
    // The new relay is away at first.
    await begin(w);
    expect(await document(w)).toEqual([RELAYS[0].key]);
    await inMove(w, 'both');
    expect(await document(w)).toEqual([RELAYS[1].key, RELAYS[0].key]);
    expect((await moveOf(w))?.waiting_for).toEqual(['bob']);
    await alice.restart();
    await send();
    // Bob prefers the old relay, where alice still writes to him until she leaves it.
    expect(await teach(w)).toBe(RELAYS[0].key);
    await inMove(w, 'leaving');
    expect(await document(w)).toEqual([RELAYS[1].key]);
    await alice.restart();
    await inStates(alice, ['ready', 'ready']);
    expect(await teach(w)).toBe(RELAYS[1].key);
    await until(async () => expect((await moveOf(w))?.waiting_for).toEqual([]));
    // Bob reaches the old relay alone: what comes there begins the 24 hours anew.
    w.bobsNew.isAway = 'gone';
    w.bobsNew.cutAll();
    w.pass(HOUR_MS);
    await send();
    await until(async () => expect(await alice.mailOf('anna')).toHaveLength(sent.length));
    w.pass(MOVE_QUIET_MS - HOUR_MS);
    await until(async () => expect((await moveOf(w))?.last_item_at).not.toBeNull());
    await inMove(w, 'leaving');
    // The door shuts behind some of these, and before the others.
    const over = new AbortController();
    const load = (async () => {
      while (!over.signal.aborted) {
        await send();
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    w.pass(HOUR_MS);
    await inMove(w, 'closing');
    await alice.restart();
    await inMove(w, 'done');
    over.abort();
    await load;
    expect(await urlsOf(alice)).toEqual([w.new.proxy.url]);
    w.bobsNew.isAway = undefined;
    await until(async () => {
      await bob.pass();
      expect((await alice.mailOf('anna')).map(({ ref }) => ref).toSorted()).toEqual(sent.toSorted());
    });
    expect(await toOwner(alice)).toEqual([`This host left the relay ${w.old.proxy.url}`]);
  },
  WORLD_TEST_MS,
);

test(
  'a host that shows nothing is written to once after 7 days, and holds the old relay for 60 days',
  async () => {
    const w = await world();
    const { alice, bob } = w;
    await begin(w);
    await inMove(w, 'both');
    w.pass(MOVE_WRITE_AFTER_MS);
    await inMove(w, 'leaving');
    expect(await moveOf(w)).toMatchObject({ waiting_for: ['bob'], written_to: ['bob'] });
    await until(async () => {
      await alice.pass();
      expect(await toOwner(bob)).toEqual(['alice takes mail at another relay']);
    });
    await alice.restart();
    w.pass(MOVE_HELD_MS - MOVE_WRITE_AFTER_MS - HOUR_MS);
    await until(async () => expect((await moveOf(w))?.next_at).not.toBeNull());
    await inMove(w, 'leaving');
    // The receipt of the letter came there an hour or more after the move began.
    w.pass(MOVE_WRITE_AFTER_MS + HOUR_MS);
    await inMove(w, 'done');
    expect(await toOwner(bob)).toHaveLength(1);
    expect(listsAt(w.old).at(-1)).toBe(0);
  },
  WORLD_TEST_MS,
);

test(
  'a move is cancelled: a relay that nobody was told of goes again, another one stays behind the old one',
  async () => {
    const w = await world();
    const { alice } = w;
    const cancel = () => found(alice.mover, 'the host is started').cancel();
    expect(await cancel()).toMatchObject({ code: 'NO_MOVE' });
    w.new.proxy.cut = (asked) => (asked === 'POST /v1/relay/enrol' ? 'request' : undefined);
    await begin(w);
    await inMove(w, 'adding');
    expect(await cancel()).toMatchObject({ kept: false, move: { state: 'adding' } });
    expect(await urlsOf(alice)).toEqual([w.old.proxy.url]);
    expect(await moveOf(w)).toBeNull();
    w.new.proxy.cut = () => undefined;
    await begin(w);
    await inMove(w, 'both');
    await teach(w);
    await inMove(w, 'leaving');
    expect(await document(w)).toEqual([RELAYS[1].key]);
    expect(await cancel()).toMatchObject({ kept: true, move: { state: 'leaving' } });
    await until(async () => expect(await urlsOf(alice)).toEqual([w.old.proxy.url, w.new.proxy.url]));
    expect(await document(w)).toEqual([RELAYS[0].key, RELAYS[1].key]);
    // Back and forth: the relay that stayed takes the place of the first.
    await begin(w);
    await inMove(w, 'both');
    expect(await document(w)).toEqual([RELAYS[1].key, RELAYS[0].key]);
  },
  WORLD_TEST_MS,
);

test(
  'the old relay is closed only while the new one works; from then on no cancel, and the move waits for the old one',
  async () => {
    const w = await world();
    const { alice } = w;
    await begin(w);
    await inMove(w, 'both');
    await teach(w);
    await inMove(w, 'leaving');
    await teach(w);
    w.new.proxy.isAway = 'gone';
    w.new.proxy.cutAll();
    await until(async () => expect((await viewsOf(alice))[0]?.is_down).toBe(true));
    w.pass(MOVE_QUIET_MS);
    await until(async () => expect(await moveOf(w)).toMatchObject({ state: 'leaving', next_at: null }));
    w.old.proxy.cut = (asked) => (asked === 'POST /v2/relay/senders' ? 'request' : undefined);
    w.new.proxy.isAway = undefined;
    await inMove(w, 'closing');
    expect(await alice.mover?.cancel()).toMatchObject({ code: 'NOT_CANCELLABLE' });
    // Its queue is read as empty meanwhile, and that says nothing.
    const pulls = w.old.proxy.asked.length;
    await until(() => expect(w.old.proxy.asked.slice(pulls)).toContain('POST /v2/relay/senders'));
    await inMove(w, 'closing');
    w.old.proxy.cut = () => undefined;
    await inMove(w, 'done');
    expect(listsAt(w.old).at(-1)).toBe(0);
  },
  WORLD_TEST_MS,
);

test(
  'the owner removes one of the two meanwhile: the host is where the other one is',
  async () => {
    const w = await world();
    const { alice } = w;
    await begin(w);
    await inMove(w, 'both');
    await teach(w);
    await inMove(w, 'leaving');
    accepted(await alice.side!.remove({ relay: w.new.proxy.url, last: true }));
    await until(async () => expect(await moveOf(w)).toBeNull());
    expect(await document(w)).toEqual([RELAYS[0].key]);
    await begin(w);
    await inMove(w, 'both');
    accepted(await alice.side!.remove({ relay: w.old.proxy.url }));
    await inMove(w, 'done');
    expect(await urlsOf(alice)).toEqual([w.new.proxy.url]);
    expect(await document(w)).toEqual([RELAYS[1].key]);
  },
  WORLD_TEST_MS,
);

test(
  'what cannot be a move changes nothing',
  async () => {
    const w = await world();
    const { alice } = w;
    const { url } = w.new.proxy;
    const at = (input: Parameters<RelayMover['begin']>[0]) => alice.mover!.begin(input);
    const other = displayFingerprint(hostNamed('another-relay').key);
    expect(await at({ url, key: other })).toMatchObject({ code: 'RELAY_KEY_MISMATCH', details: { shown: KEY } });
    expect(await at({ url, key: 'SHA256:short' })).toMatchObject({ code: 'BAD_INPUT', details: { field: 'key' } });
    expect(await at({ url: 'http://relay.example' })).toMatchObject({ code: 'BAD_INPUT', details: { field: 'url' } });
    expect(await at({ url: `https://relay.example/${'x'.repeat(250)}` })).toMatchObject({ code: 'BAD_INPUT' });
    expect(await at({ url: 'http://127.0.0.1:1' })).toMatchObject({ code: 'RELAY_UNREACHABLE' });
    expect(await at({ url: w.old.proxy.url })).toMatchObject({ code: 'RELAY_KNOWN' });
    expect(await at({ url, key: KEY, dry_run: true })).toMatchObject({ relay: { url }, trust: 'named', move: null });
    expect(await urlsOf(alice)).toEqual([w.old.proxy.url]);
    expect(await moveOf(w)).toBeNull();
    await begin(w);
    expect(await at({ url, key: other })).toMatchObject({ code: 'RELAY_KEY_MISMATCH' });
    expect(await at({ url: 'https://third.example' })).toMatchObject({ code: 'MOVE_UNDER_WAY', details: { url } });
    const started = (await moveOf(w))?.started_at;
    w.pass(1);
    expect((await begin(w)).move?.started_at).toBe(started);
    const alone = await RelayContext.open('alone');
    alone.start();
    const refused = { code: 'NO_RELAY', message: expect.stringContaining(`poste relay set '${url}/a;b' sets one`) };
    expect(await alone.mover?.begin({ url: `${url}/a;b` })).toMatchObject(refused);
    await alone.side?.add({ url, key: KEY, guest: true });
    expect(await alone.mover?.begin({ url })).toMatchObject({
      code: 'NO_RELAY',
      message: expect.stringContaining(`poste relay add ${url} has it`),
    });
  },
  WORLD_TEST_MS,
);

test(
  'a host that ends once the new relay is added goes on with the move: both are in one transaction',
  async () => {
    const w = await world();
    const { alice } = w;
    const { store } = alice;
    const transact = store.transact.bind(store);
    let isOver = false;
    store.transact = async (work) => {
      if (isOver) throw new Error('the process ended');
      const result = await transact(work);
      isOver = (await store.read(ownRelays)).length > 1;
      return result;
    };
    await Promise.allSettled([alice.mover!.begin({ url: w.new.proxy.url, key: KEY })]);
    store.transact = transact;
    expect(isOver).toBe(true);
    await alice.restart();
    await inMove(w, 'both');
    expect(await urlsOf(alice)).toEqual([w.new.proxy.url, w.old.proxy.url]);
  },
  WORLD_TEST_MS,
);

test('an empty queue counts if it was asked for after the list was seen to be empty, in this epoch', async () => {
  const context = await testContext();
  const [from, to] = [RELAYS[0].key, RELAYS[1].key];
  const epoch = 'FIRST' as Epoch;
  const scope = { relayPubkey: from, epoch, hostPubkey: context.identity().signer.publicKey };
  await context.store.transact((tx) => {
    const pinned = { url: 'https://new.example', pubkey: to, proof: null };
    const row = { ...pinRelay(tx, context, pinned), epoch };
    tx.put('relayMore', [from], { ...row, url: 'https://old.example', pubkey: from, rank: 1, role: 'home' });
    const move = newMove({ pubkey: from, url: 'https://old.example' }, { pubkey: to, url: row.url }, true, 1);
    tx.put('relayMove', [], { ...move, state: 'closing' });
    const senders = { hash: sha256Hex(''), count: 0, iat: 1, checkedAtMs: 1 };
    const known = { checkedAtMs: 1, authorizedBy: null, account: null, isCrowded: false, validUntilMs: null };
    putEnrolment(tx, scope, { ...known, encKey: null, senders });
  });
  const turns: (() => void)[] = [];
  const pull = {
    drained: { scope, askedMs: context.monotonicMs() - 1 },
    hurry: () => undefined,
    turned: () => new Promise<void>((resolve) => void turns.push(resolve)),
  };
  const use = { pull, link: { refresh: () => undefined, health: { isWell: true, isDown: false } } };
  const mover = new RelayMover({
    context,
    timers: new ManualTimers(),
    relays: { add: () => Promise.reject(new Error('nothing is added')), useOf: () => use as unknown as RelayUse },
    write: () => Promise.reject(new Error('nobody is written to')),
    report: () => undefined,
  });
  onTestFinished(() => mover.stop());
  mover.start();
  const turned = async (drained: typeof pull.drained): Promise<void> => {
    await until(() => expect(turns).toHaveLength(1));
    expect(await mover.status()).toMatchObject({ state: 'closing' });
    pull.drained = drained;
    turns.pop()?.();
  };
  const seenMs = context.monotonicMs();
  await turned({ scope, askedMs: seenMs });
  await turned({ scope: { ...scope, epoch: 'OTHER' as Epoch }, askedMs: seenMs + 1 });
  await turned({ scope, askedMs: seenMs + 1 });
  await until(async () => expect(await mover.status()).toMatchObject({ state: 'done' }));
  expect(await context.store.read((reader) => reader.get('relayMore', from))).toBeUndefined();
});
