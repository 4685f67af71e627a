/** Two paired hosts with an agent each, `anna` and `bert`, that reach one relay through one proxy and each other not at all. */
import { expect, onTestFinished, vi } from 'vitest';
import { FIRST_ADAPTER } from './adapters.ts';
import { FlakyProxy } from './flaky-proxy.ts';
import { type HttpRelay, type HttpRelayChanges, relayForTest } from './http-relay.ts';
import { RelayOffice, pinEachOther } from './relay-offices.ts';
import { SeededRandom } from './seeded-random.ts';

const WITHIN = { timeout: 15_000, interval: 10 };
/** For a test with such a world, on a machine that is busy. */
export const WORLD_TEST_MS = 40_000;

export interface RelayWorld {
  relay: HttpRelay;
  proxy: FlakyProxy;
  alice: RelayOffice;
  bob: RelayOffice;
}

/** For one test; call it inside. Nobody uses the relay yet. */
export async function relayWorld(changes: HttpRelayChanges = {}): Promise<RelayWorld> {
  const relay = await relayForTest(FIRST_ADAPTER, changes);
  const proxy = await FlakyProxy.open(new SeededRandom(1), () => relay.port);
  onTestFinished(() => proxy.close());
  const alice = await RelayOffice.open('alice', relay.clock);
  const bob = await RelayOffice.open('bob', relay.clock);
  await pinEachOther(alice, bob);
  await alice.addAgent('anna');
  await bob.addAgent('bert');
  return { relay, proxy, alice, bob };
}

export async function bothUse({ proxy, alice, bob }: RelayWorld): Promise<void> {
  for (const host of [alice, bob]) await host.use(proxy.url);
  for (const host of [alice, bob]) await ready(host);
}

/** Resolves when `check` throws no more. */
export function until(check: () => Promise<void> | void): Promise<void> {
  return vi.waitFor(check, WITHIN);
}

export function ready(host: RelayOffice): Promise<void> {
  return until(async () => expect(await host.status()).toMatchObject({ state: 'ready', problem: null }));
}

export type SentMessage = Awaited<ReturnType<RelayOffice['sendTo']>>;

/** The row of a message is in this state. */
export async function inState(host: RelayOffice, sent: SentMessage, state: string): Promise<void> {
  await until(async () => expect(await host.rowOf(sent)).toMatchObject({ state }));
}
