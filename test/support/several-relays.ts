/**
 * Two paired hosts with an agent each, `anna` and `bert`, that do not reach each other over the LAN, and relays of
 * different keys, each behind a proxy of its own.
 */
import { expect, onTestFinished } from 'vitest';
import { isRefusal } from '../../src/host/core/refusal.ts';
import type { RelayAddInput, RelayView } from '../../src/host/contract/relays.ts';
import type { RelayTiming } from '../../src/host/relay/relay-timing.ts';
import { FIRST_ADAPTER } from './adapters.ts';
import { FlakyProxy } from './flaky-proxy.ts';
import { found } from './found.ts';
import { hostNamed, relay as firstRelay } from './hosts.ts';
import { type HttpRelay, type HttpRelayChanges, relayForTest } from './http-relay.ts';
import { RelayContext, pinEachOther } from './relay-contexts.ts';
import { until } from './relay-world.ts';
import { SeededRandom } from './seeded-random.ts';

/** The owners of the relays, in their order: the first one's key is that of every test relay. */
export const RELAYS = [firstRelay, hostNamed('relay-2'), hostNamed('relay-3')] as const;

export interface OneRelay {
  relay: HttpRelay;
  proxy: FlakyProxy;
}

/** For one test; call it inside. */
export async function relayNumbered(number: 1 | 2 | 3, changes: HttpRelayChanges = {}): Promise<OneRelay> {
  const { signer } = found(RELAYS[number - 1], 'there is such a relay');
  const relay = await relayForTest(FIRST_ADAPTER, { ...(number > 1 && { signer }), ...changes });
  const proxy = await FlakyProxy.open(new SeededRandom(number), () => relay.port);
  onTestFinished(() => proxy.close());
  return { relay, proxy };
}

/** For one test; call it inside. Neither host uses a relay yet. */
export async function pairedHosts(
  timing: Partial<RelayTiming> = {},
): Promise<{ alice: RelayContext; bob: RelayContext }> {
  const alice = await RelayContext.open('alice', undefined, timing);
  const bob = await RelayContext.open('bob', undefined, timing);
  await pinEachOther(alice, bob);
  await alice.addAgent('anna');
  await bob.addAgent('bert');
  return { alice, bob };
}

/** Adds a relay to those of the host. */
export async function addTo(host: RelayContext, input: RelayAddInput): Promise<void> {
  const added = await host.side?.add(input);
  if (!added || isRefusal(added)) throw new Error(`the relay was not added: ${JSON.stringify(added)}`);
}

export async function viewsOf(host: RelayContext): Promise<RelayView[]> {
  return (await found(host.side, 'the host is started').list()).relays;
}

/** The relays of a host are in these states, in its owner's order. */
export function inStates(host: RelayContext, states: readonly string[]): Promise<void> {
  return until(async () => expect((await viewsOf(host)).map(({ state }) => state)).toEqual(states));
}
