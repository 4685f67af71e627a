/**
 * The client that a request without a signature counts against: its address, or its network.
 *
 * Behind a proxy only the entry that the trusted proxy appended is believed: the rightmost one over all lines of the
 * forwarded-for header. Earlier entries are the client's own words.
 */
import { addressGroup } from '../../lib/address-group.ts';

export type TrustProxy = 'none' | 'xff' | 'cloudflare';

/** The text that rate tables use for the client of a request. */
export function clientAddress(
  peerAddress: string,
  headers: readonly (readonly [string, string])[],
  trust: TrustProxy,
): string {
  const said = trust === 'none' ? undefined : saidByProxy(headers, trust);
  return addressGroup(said ?? peerAddress) ?? addressGroup(peerAddress) ?? peerAddress;
}

function saidByProxy(headers: readonly (readonly [string, string])[], trust: 'xff' | 'cloudflare'): string | undefined {
  const wanted = trust === 'xff' ? 'x-forwarded-for' : 'cf-connecting-ip';
  const line = headers.findLast(([name]) => name === wanted)?.[1];
  return line?.split(',').at(-1)?.trim();
}
