/**
 * One attempt to get a session of the pinned relay, at a relay in this process, with what it answers changed on its
 * way.
 */
import { expect, onTestFinished, test } from 'vitest';
import type { RelayRow } from '../../../../src/host/core/relay-rows.ts';
import { type Connecting, connect, shownRelay } from '../../../../src/host/relay/register-host.ts';
import { AnotherRelay, RelayCallFailed, RelayProblem } from '../../../../src/host/relay/relay-request.ts';
import { pinRelay } from '../../../../src/host/relay/relay-rows.ts';
import type { Limits } from '../../../../src/protocol/limits.ts';
import { problemDocument } from '../../../../src/protocol/problem.ts';
import { FIRST_ADAPTER } from '../../../support/adapters.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { FlakyProxy } from '../../../support/flaky-proxy.ts';
import { hostNamed, relay as relayHost } from '../../../support/hosts.ts';
import { relayForTest } from '../../../support/http-relay.ts';
import { SeededRandom } from '../../../support/seeded-random.ts';
import { testContext } from '../../../support/test-context.ts';

const INFO = 'GET /v2/relay/info';
const BUSY = { status: 503, document: problemDocument('UNAVAILABLE', 'no') };

/** A host that has set the relay, as `changes` say, and what `connect` is called with. */
async function given(changes: Partial<RelayRow> = {}, limits: Partial<Limits> = {}) {
  const relay = await relayForTest(FIRST_ADAPTER, { limits });
  const proxy = await FlakyProxy.open(new SeededRandom(1), () => relay.port);
  onTestFinished(() => proxy.close());
  const context = await testContext();
  const said: [message: string, facts: object | undefined][] = [];
  Object.assign(context, { log: (_level: string, message: string, facts: object) => void said.push([message, facts]) });
  const identity = context.identity();
  const row = await context.store.transact((tx) => {
    const pinned = pinRelay(tx, context, { url: proxy.url, pubkey: relayHost.key, proof: null });
    const changed = { ...pinned, ...changes };
    tx.put('relay', [], changed);
    return changed;
  });
  const skews: (number | null)[] = [];
  const stopping = new AbortController();
  const connecting: Connecting = {
    context,
    identity,
    row,
    progress: { scope: '', rotations: 0 },
    noteSkew: (ms) => void skews.push(ms),
    stopping: stopping.signal,
  };
  const stored = (): Promise<RelayRow | undefined> => context.store.read((reader) => reader.get('relay'));
  const hostPubkey = identity.signer.publicKey;
  const scope = { relayPubkey: relayHost.key, epoch: relay.epoch, hostPubkey };
  const options = {
    url: proxy.url,
    signer: identity.signer,
    hostName: identity.hostName,
    nowMs: () => context.nowMs(),
  };
  return { relay, proxy, context, said, connecting, skews, stopping, stored, scope, options };
}

test('a session is of the pinned relay, in the epoch that it is in, and the relay knows this host', async () => {
  const { context, connecting, scope, relay, skews, stored, said } = await given();
  context.clock.nowMs += 5000;
  const { session, known } = await connect(connecting);
  expect(session).toMatchObject({ protocol: 2, scope, retentionMs: 14 * 86_400_000 });
  expect(session.limits).toMatchObject({ max_batch: 200, retention_days: 14 });
  expect(known).toMatchObject({ authorizedBy: 'host-key', encKey: { checkedAtMs: context.nowMs() }, senders: {} });
  if (session.protocol !== 2) throw new Error('the relay speaks v2');
  expect((await session.client.ownInfo()).you).toMatchObject({ pubkey: scope.hostPubkey });
  expect(await stored()).toMatchObject({ epoch: relay.epoch, pubkey: relayHost.key });
  expect([skews, said]).toEqual([[5000], []]);
});

test('a relay that promises to keep mail for longer than 366 days is believed for 366', async () => {
  for (const [days, believed] of [
    [365, 365],
    [367, 366],
  ] as const) {
    const { connecting } = await given({}, { retention_days: days });
    expect((await connect(connecting)).session).toMatchObject({
      retentionMs: believed * 86_400_000,
      limits: { retention_days: days },
    });
  }
});

test('a relay of another key than the pinned one is not used, and is told nothing', async () => {
  const { connecting, proxy, skews, stored } = await given({ pubkey: hostNamed('other').key });
  const failed = await connect(connecting).catch((error: unknown) => error);
  expect(failed).toBeInstanceOf(AnotherRelay);
  expect(failed).toMatchObject({ shown: relayHost.key });
  expect([proxy.asked, skews]).toEqual([[INFO], []]);
  expect(await stored()).toMatchObject({ epoch: null });
});

test('versioning rule 3: a relay that answered 404 for v2 alone is spoken to in v1', async () => {
  const { connecting, proxy, relay, scope, skews, stored, said } = await given({ isV1: true });
  proxy.isV1Only = true;
  const { session, known } = await connect(connecting);
  expect(session).toMatchObject({ protocol: 1, scope, retentionMs: 14 * 86_400_000, limits: { max_batch: 50 } });
  expect(known).toMatchObject({ authorizedBy: 'host-key', encKey: {} });
  expect(await stored()).toMatchObject({ isV1: true, epoch: relay.epoch });
  expect([skews, said]).toEqual([[null], []]);
});

test('versioning rule 3: a relay of v1 that speaks v2 now is pinned from then on', async () => {
  const { connecting, stored, said } = await given({ isV1: true });
  expect((await connect(connecting)).session.protocol).toBe(2);
  expect(await stored()).not.toHaveProperty('isV1');
  expect(said).toEqual([['the relay speaks v2 now: its key is pinned', undefined]]);
});

test('versioning rule 3: a relay that is pinned never falls back to v1', async () => {
  const { connecting, proxy } = await given();
  proxy.isV1Only = true;
  await expect(connect(connecting)).rejects.toMatchObject({ status: 404 });
  expect(proxy.asked).toEqual([INFO]);
});

test('versioning rule 3: an answer other than 404 is none of v1, nor is a 404 that ended in its middle', async () => {
  const { connecting, proxy, options } = await given({ isV1: true });
  proxy.instead = () => BUSY;
  await expect(connect(connecting)).rejects.toThrow(RelayProblem);
  proxy.instead = () => ({ status: 404, document: { padding: 'x'.repeat(2000) }, isForeign: true });
  proxy.chances = { ...proxy.chances, cutAnswer: 1 };
  for (const asked of [connect(connecting), shownRelay(options)]) {
    const failed = await asked.catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(RelayCallFailed);
    expect(failed).not.toBeInstanceOf(RelayProblem);
  }
  expect(new Set(proxy.asked)).toEqual(new Set([INFO]));
});

test('who is at an address is shown by v2, and by v1 where there is no v2', async () => {
  const { proxy, options } = await given();
  expect(await shownRelay(options)).toEqual({ pubkey: relayHost.key, isV1: false });
  proxy.isV1Only = true;
  expect(await shownRelay(options)).toEqual({ pubkey: relayHost.key, isV1: true });
});

test('a new epoch is said to people, the first one is not', async () => {
  const { connecting, context, said, stored, relay } = await given({ epoch: epochNumbered(9) });
  await connect(connecting);
  expect(said).toEqual([['the relay began a new epoch', { epoch: relay.epoch }]]);
  expect(await stored()).toMatchObject({ epoch: relay.epoch });
  const row = (await stored())!;
  await connect({ ...connecting, context, row });
  expect(said).toHaveLength(1);
});

test('the rotations that were posted count for one host key in one epoch of one relay', async () => {
  const { connecting, proxy, context, scope, stored, relay } = await given();
  const name = `${relayHost.key} ${relay.epoch} ${scope.hostPubkey}`;
  proxy.instead = (_method, target) => (target.startsWith('/v1/relay/challenge') ? BUSY : undefined);
  const after = async (progress: { scope: string; rotations: number }): Promise<typeof progress> => {
    await expect(connect({ ...connecting, progress })).rejects.toThrow('503');
    return progress;
  };
  // The epoch is another than the one that is stored: none.
  expect(await after({ scope: name, rotations: 3 })).toEqual({ scope: name, rotations: 0 });
  expect(await stored()).toMatchObject({ epoch: relay.epoch });
  expect(await after({ scope: name, rotations: 3 })).toEqual({ scope: name, rotations: 3 });
  expect(await after({ scope: 'of another key', rotations: 3 })).toEqual({ scope: name, rotations: 0 });
  expect(context.told.length).toBeGreaterThan(0);
});

test('a stop of the host, and the end of the session, end what is under way there', async () => {
  const first = await given();
  const { session } = await connect(first.connecting);
  if (session.protocol !== 2) throw new Error('the relay speaks v2');
  await session.client.info();
  session.ending.abort();
  await expect(session.client.info()).rejects.toThrow(RelayCallFailed);
  const again = (await connect(first.connecting)).session;
  if (again.protocol !== 2) throw new Error('the relay speaks v2');
  first.stopping.abort();
  await expect(again.client.info()).rejects.toThrow(RelayCallFailed);
});
