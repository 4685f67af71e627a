/**
 * Tests that a host finds out when the log of its relay is not what it was: copies of one store, put back or served
 * beside each other under one key, and a relay of before, which knows neither `size` nor `after`.
 */
import { cp } from 'node:fs/promises';
import { expect, onTestFinished, test } from 'vitest';
import { evidenceIn, trustIn } from '../../../src/host/outbox/trust-rows.ts';
import type { EvidenceRow, KeptNote } from '../../../src/host/core/relay-trust.ts';
import { isRefusal } from '../../../src/host/core/refusal.ts';
import { type MessageRow, OWNER_ID } from '../../../src/host/core/rows.ts';
import { receiveItems } from '../../../src/host/inbound/receive.ts';
import { wireOf } from '../../../src/host/outbox/outbox.ts';
import { showEvidence } from '../../../src/host/outbox/relay-evidence.ts';
import { hearSeen, nextSeen, seenForPeer } from '../../../src/host/outbox/seen.ts';
import { openCheckpoint } from '../../../src/protocol/checkpoint.ts';
import { problemDocument } from '../../../src/protocol/problem.ts';
import type { SeenEntry } from '../../../src/protocol/seen.ts';
import { checkEvidence } from '../../../src/relay/replay/evidence-check.ts';
import { FIRST_ADAPTER } from '../../support/adapters.ts';
import { type EvidenceDocument, oracleVerdict } from '../../support/evidence-oracle.ts';
import { FlakyProxy } from '../../support/flaky-proxy.ts';
import { relay as relayHost } from '../../support/hosts.ts';
import { HttpRelay, relayForTest } from '../../support/http-relay.ts';
import { RelayContext, pinEachOther } from '../../support/relay-contexts.ts';
import { WORLD_TEST_MS, inState, ready, until } from '../../support/relay-world.ts';
import { SeededRandom } from '../../support/seeded-random.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { IS_THOROUGH } from '../../support/thorough.ts';

/** A look as soon as one is owed; what the rules wait for is the clock that the test moves. */
const TIMING = { lookMs: 20, lookSoonMs: 20, lookSettleMs: 1 };
const MINUTE_MS = 60_000;

interface World {
  /** The relays that each host reaches, through proxies of their own. */
  at: { alice: HttpRelay; bob: HttpRelay };
  proxies: FlakyProxy[];
  alice: RelayContext;
  bob: RelayContext;
  /** The clock of all. */
  move: (ms: number) => void;
}

/** Two paired hosts over a relay of which each can be shown another copy. */
async function worldOfCopies(): Promise<World> {
  const relay = await relayForTest(FIRST_ADAPTER);
  const at = { alice: relay, bob: relay };
  const hosts: RelayContext[] = [];
  const proxies: FlakyProxy[] = [];
  for (const name of ['alice', 'bob'] as const) {
    const proxy = await FlakyProxy.open(new SeededRandom(1), () => at[name].port);
    onTestFinished(() => proxy.close());
    proxies.push(proxy);
    const host = await RelayContext.open(name, relay.clock, TIMING);
    hosts.push(host);
    await host.use(proxy.url);
  }
  const [alice, bob] = hosts as [RelayContext, RelayContext];
  await pinEachOther(alice, bob);
  await alice.addAgent('anna');
  await bob.addAgent('bert');
  for (const host of hosts) await ready(host);
  return { at, proxies, alice, bob, move: (ms) => relay.clock.move(ms) };
}

/** A file copy of the folder of a relay that is stopped, with its position in it. */
async function copyOf({ folder }: HttpRelay): Promise<string> {
  const copy = await temporaryFolder();
  await cp(folder, copy, { recursive: true });
  return copy;
}

/** A relay over such a copy, under the same key: it cannot tell, as the copy is younger than ten minutes. */
async function relayOver(folder: string, { clock }: HttpRelay, epoch: string): Promise<HttpRelay> {
  const relay = new HttpRelay(folder, FIRST_ADAPTER, {}, clock);
  await relay.start();
  onTestFinished(() => relay.stopAtOnce());
  expect(relay.epoch).toBe(epoch);
  return relay;
}

/** What the host has in hand of the relay. */
async function trustOf({
  store,
}: RelayContext): Promise<{ kept: KeptNote[]; evidence: EvidenceRow[]; left: string[] }> {
  return store.read(async (reader) => {
    const { kept, trust } = await trustIn(reader, relayHost.key);
    return { kept, evidence: await evidenceIn(reader, relayHost.key), left: trust.left };
  });
}

/** A look is owed, as after a note of a peer. */
const owe = ({ context }: RelayContext): void => context.emit({ type: 'relay-note-heard' });

/** The host has kept a note of as many leaves as the log of its relay has now. */
async function hasLooked(host: RelayContext, relay: HttpRelay): Promise<void> {
  await until(async () => {
    owe(host);
    const size = openCheckpoint(relay.relay.engine.log.checkpoint() ?? '', relayHost.key)?.size;
    expect((await trustOf(host)).kept.find(({ epoch }) => epoch === relay.epoch)).toMatchObject({ size });
  });
}

/** One host shows another what it has seen, as mail and the LAN do. */
async function shows(from: RelayContext, to: RelayContext): Promise<void> {
  const [peerId, own] = [await to.peerIdOf(from), await from.peerIdOf(to)];
  const entries = await from.store.read((reader) => seenForPeer(reader, from.context, reader.get('peer', own)!, 0));
  expect(entries).toHaveLength(1);
  await to.store.transact((tx) => hearSeen(tx, to.context, peerId, entries));
}

const refsOf = async (host: RelayContext, agent: string): Promise<string[]> =>
  (await host.mailOf(agent)).map(({ ref }) => ref);

const isLogAsked = (asked: string): 'request' | undefined =>
  asked.includes(' /v2/relay/log/') ? 'request' : undefined;

test(
  'two copies of one store under one key: a note of the other host shows the fork, signed, and no mail is given up',
  async () => {
    const { at, alice, bob } = await worldOfCopies();
    const first = await alice.sendTo(bob, 'anna', ['bert']);
    await inState(alice, first, 'done');
    const { epoch } = at.bob;
    await at.alice.stop();
    at.bob = await relayOver(await copyOf(at.alice), at.alice, epoch);
    await at.alice.start();
    const sent = await alice.sendTo(bob, 'anna', ['bert']);
    await inState(alice, sent, 'relay-accepted');
    for (let count = 0; count < 2; count++) {
      await inState(bob, await bob.sendTo(alice, 'bert', ['anna']), 'relay-accepted');
    }
    await hasLooked(alice, at.alice);
    await hasLooked(bob, at.bob);
    expect((await trustOf(alice)).evidence).toEqual([]);
    expect((await trustOf(bob)).evidence).toEqual([]);
    await shows(alice, bob);
    await until(async () =>
      expect((await trustOf(bob)).evidence).toMatchObject([{ kind: 'fork', isSigned: true, epoch: at.bob.epoch }]),
    );
    expect(await alice.rowOf(sent)).toMatchObject({ state: 'relay-accepted' });
    // The owner is told, and what is exported is proven by a reader that has none of this code.
    expect(await bob.status()).toMatchObject({ state: 'two-histories', evidence: 1 });
    expect(await bob.store.read((reader) => reader.get('mailbox', OWNER_ID)?.unread)).toBe(1);
    const shown = await showEvidence(bob.context, { number: 1 });
    if (isRefusal(shown)) throw new Error(shown.message);
    const { document } = shown;
    expect(oracleVerdict(document as EvidenceDocument, relayHost.key)).toBe('contradict');
    expect(checkEvidence(document, relayHost.key).verdict).toBe('contradict');
  },
  WORLD_TEST_MS,
);

/** What the next message of one host to another shows. */
async function unheard(from: RelayContext, to: RelayContext): Promise<SeenEntry[]> {
  const own = await from.peerIdOf(to);
  return from.store.read((reader) => nextSeen(reader, from.context, reader.get('peer', own)!, { isUnheard: true }));
}

test(
  'hosts that have heard each other send no note, and after the log was forked the next message shows it',
  async () => {
    const { at, proxies, alice, bob } = await worldOfCopies();
    const write = async (): Promise<MessageRow> => alice.sendTo(bob, 'anna', ['bert']);
    await inState(alice, await write(), 'done');
    await hasLooked(alice, at.alice);
    await hasLooked(bob, at.bob);
    for (const proxy of proxies) proxy.cut = isLogAsked;
    for (let nth = 0; nth < 3; nth++) await inState(alice, await write(), 'done');
    expect([await unheard(alice, bob), await unheard(bob, alice)]).toEqual([[], []]);
    const { epoch } = at.bob;
    await at.alice.stop();
    at.bob = await relayOver(await copyOf(at.alice), at.alice, epoch);
    await at.alice.start();
    await inState(alice, await write(), 'relay-accepted');
    for (let nth = 0; nth < 2; nth++) await inState(bob, await bob.sendTo(alice, 'bert', ['anna']), 'relay-accepted');
    for (const proxy of proxies) proxy.cut = () => undefined;
    await hasLooked(alice, at.alice);
    await hasLooked(bob, at.bob);
    const { rowId, itemId } = await alice.rowOf(await write());
    const wire = await alice.store.read((reader) => wireOf(reader, rowId));
    const item = { via: 'lan', relay: null, kind: 'envelope', itemId, wire, senderPubkey: alice.key } as const;
    expect(await receiveItems(bob.context, [item])).toEqual([{ status: 'accepted' }]);
    await until(async () =>
      expect((await trustOf(bob)).evidence).toMatchObject([{ kind: 'fork', isSigned: true, epoch: at.bob.epoch }]),
    );
  },
  WORLD_TEST_MS,
);

test(
  'a store put back by a file copy within ten minutes: the relay is shown its own note, and the mail arrives after all',
  async () => {
    const { at, alice, bob, move } = await worldOfCopies();
    await inState(alice, await alice.sendTo(bob, 'anna', ['bert']), 'done');
    await bob.stop();
    await at.alice.stop();
    const folder = await copyOf(at.alice);
    await at.alice.start();
    const lost = await alice.sendTo(bob, 'anna', ['bert']);
    await inState(alice, lost, 'relay-accepted');
    await hasLooked(alice, at.alice);
    const { epoch } = at.alice;
    await at.alice.stop();
    at.alice = at.bob = await relayOver(folder, at.alice, epoch);
    await until(async () => {
      move(MINUTE_MS);
      owe(alice);
      expect(at.alice.epoch).not.toBe(epoch);
    });
    bob.start();
    await inState(alice, lost, 'done');
    expect(await refsOf(bob, 'bert')).toHaveLength(2);
    expect((await trustOf(alice)).left).toContain(epoch);
  },
  WORLD_TEST_MS,
);

test(
  'accepted and set back between two looks: mail that is not in the log is pushed again, and nothing is doubled',
  async () => {
    const { at, proxies, alice, bob, move } = await worldOfCopies();
    await inState(alice, await alice.sendTo(bob, 'anna', ['bert']), 'done');
    await hasLooked(alice, at.alice);
    for (const proxy of proxies) proxy.cut = isLogAsked;
    await bob.stop();
    const { epoch } = at.alice;
    await at.alice.stop();
    const folder = await copyOf(at.alice);
    await at.alice.start();
    const lost = await alice.sendTo(bob, 'anna', ['bert']);
    await inState(alice, lost, 'relay-accepted');
    await at.alice.stop();
    at.alice = at.bob = await relayOver(folder, at.alice, epoch);
    const after = await alice.sendTo(bob, 'anna', ['bert']);
    await inState(alice, after, 'relay-accepted');
    for (const proxy of proxies) proxy.cut = () => undefined;
    bob.start();
    await until(async () => {
      move(MINUTE_MS);
      expect(await alice.rowOf(lost)).toMatchObject({ state: 'done' });
    });
    await inState(alice, after, 'done');
    expect(new Set(await refsOf(bob, 'bert')).size).toBe(3);
    expect(await refsOf(bob, 'bert')).toHaveLength(3);
    expect(at.alice.epoch).toBe(epoch);
    expect((await trustOf(alice)).evidence).toEqual([]);
  },
  WORLD_TEST_MS,
);

/** From now on the relay is one of before: it passes `size` and `after` over, and nobody can show it anything. */
function becomesOlder({ relay }: HttpRelay, proxies: readonly FlakyProxy[]): void {
  const { log } = relay.engine;
  const item = log.item.bind(log);
  log.checkpointAfter = () => log.checkpoint() ?? '';
  log.checkpointAt = (_size, epoch) => log.checkpoint(epoch);
  log.item = ({ size: _size, ...asked }) => item(asked);
  const document = problemDocument('NOT_FOUND', 'no such route');
  for (const proxy of proxies)
    proxy.instead = (method, target) =>
      method === 'POST' && target.startsWith('/v2/relay/log/') ? { status: 404, document, isForeign: true } : undefined;
}

test.runIf(IS_THOROUGH)(
  'a relay of before, and one that becomes so: its log is looked at all the same, mail is proven, and no word is said',
  async () => {
    const { at, proxies, alice, bob, move } = await worldOfCopies();
    await inState(alice, await alice.sendTo(bob, 'anna', ['bert']), 'done');
    await hasLooked(alice, at.alice);
    becomesOlder(at.alice, proxies);
    await bob.stop();
    const sent = await alice.sendTo(bob, 'anna', ['bert']);
    await inState(alice, sent, 'relay-accepted');
    await until(async () => {
      move(MINUTE_MS);
      expect((await alice.rowOf(sent)).proven).toMatchObject({ epoch: at.alice.epoch });
    });
    await hasLooked(alice, at.alice);
    expect((await trustOf(alice)).evidence).toEqual([]);
  },
  WORLD_TEST_MS,
);

test.runIf(IS_THOROUGH)(
  'a crash between a look and its transaction changes nothing, and the next start looks again',
  async () => {
    const { at, proxies, alice, bob } = await worldOfCopies();
    await inState(alice, await alice.sendTo(bob, 'anna', ['bert']), 'done');
    await hasLooked(alice, at.alice);
    for (const proxy of proxies) proxy.cut = isLogAsked;
    await bob.stop();
    await inState(alice, await alice.sendTo(bob, 'anna', ['bert']), 'relay-accepted');
    const before = await trustOf(alice);
    const dying = alice.kill({ inTransactions: 1, isDurable: false });
    for (const proxy of proxies) proxy.cut = () => undefined;
    await dying;
    for (const proxy of proxies) proxy.cut = isLogAsked;
    await alice.revive();
    expect(await trustOf(alice)).toEqual(before);
    for (const proxy of proxies) proxy.cut = () => undefined;
    await hasLooked(alice, at.alice);
  },
  WORLD_TEST_MS,
);
