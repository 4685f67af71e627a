/**
 * Two paired hosts with an agent each, `anna` and `bert`, that reach one relay through one proxy and each other not at
 * all.
 */
import { expect, onTestFinished, vi } from 'vitest';
import { problemDocument } from '../../src/protocol/problem.ts';
import { FIRST_ADAPTER } from './adapters.ts';
import { FlakyProxy } from './flaky-proxy.ts';
import { type HttpRelay, type HttpRelayChanges, relayForTest } from './http-relay.ts';
import { RelayContext, pinEachOther } from './relay-contexts.ts';
import { SeededRandom } from './seeded-random.ts';
import { PATIENCE_MS } from './patience.ts';

const WITHIN = { timeout: PATIENCE_MS, interval: 25 };
/** For a test with such a world, on a machine that is busy. */
export const WORLD_TEST_MS = 120_000;

export interface RelayWorld {
  relay: HttpRelay;
  proxy: FlakyProxy;
  alice: RelayContext;
  bob: RelayContext;
}

/** For one test; call it inside. Nobody uses the relay yet. */
export async function relayWorld(changes: HttpRelayChanges = {}): Promise<RelayWorld> {
  const relay = await relayForTest(FIRST_ADAPTER, changes);
  const world = { relay } as RelayWorld;
  const proxy = await FlakyProxy.open(new SeededRandom(1), () => world.relay.port);
  onTestFinished(() => proxy.close());
  const alice = await RelayContext.open('alice', relay.clock);
  const bob = await RelayContext.open('bob', relay.clock);
  await pinEachOther(alice, bob);
  await alice.addAgent('anna');
  await bob.addAgent('bert');
  return Object.assign(world, { proxy, alice, bob });
}

export async function bothUse({ proxy, alice, bob }: RelayWorld): Promise<void> {
  for (const host of [alice, bob]) await host.use(proxy.url);
  for (const host of [alice, bob]) await ready(host);
}

/** The same world, and both hosts use the relay. */
export async function usedRelayWorld(changes: HttpRelayChanges = {}): Promise<RelayWorld> {
  const world = await relayWorld(changes);
  await bothUse(world);
  return world;
}

/** Resolves when `check` throws no more. */
export function until(check: () => Promise<void> | void): Promise<void> {
  return vi.waitFor(check, WITHIN);
}

/** The relay can be used, and knows the host by the key that it has now. */
export function ready(host: RelayContext): Promise<void> {
  return until(async () => {
    expect(await host.status()).toMatchObject({ state: 'ready', problem: null });
    expect(host.side?.all[0]?.isUsable).toBe(true);
  });
}

export type SentMessage = Awaited<ReturnType<RelayContext['sendTo']>>;

/** The row of a message is in this state. */
export async function inState(host: RelayContext, sent: SentMessage, state: string): Promise<void> {
  await until(async () => expect(await host.rowOf(sent)).toMatchObject({ state }));
}

/** The relay is one from before it showed rotation records. */
export function showsNoRotations({ proxy }: RelayWorld): void {
  proxy.instead = (_method, target) =>
    target.startsWith('/v2/relay/rotation')
      ? {
          status: 404,
          document: problemDocument('NOT_FOUND', 'no such route'),
          isForeign: true,
        }
      : undefined;
}

/** Another relay of the same key answers from now on, with an empty store: it knows nobody. */
export async function replaceRelay(world: RelayWorld): Promise<void> {
  world.relay = await relayForTest(FIRST_ADAPTER);
  world.proxy.cutAll();
}
