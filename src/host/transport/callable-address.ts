/** Where a host can be called over the LAN, as it is stored and told: what a URL can carry, and nothing else. */
import { networkInterfaces } from 'node:os';
import { LanAddressText } from '../../protocol/lan.ts';
import { parserOf } from '../../protocol/schemas.ts';
import { type ListenAddress, listenAddressText } from '../../system/listen-address.ts';

const parse = parserOf(LanAddressText);
/** Addresses that mean every interface of this machine. */
const ANY_HOST: ReadonlySet<string> = new Set(['0.0.0.0', '::']);

/** `host:port`; null for what no URL can carry: a link-local address with its zone, say, or port 0. */
export function callableAddress(address: ListenAddress): string | null {
  return parse(listenAddressText(address)) ?? null;
}

/** What the owner of the other host is told: where this one listens, as far as it can be called from elsewhere. */
export function ownAddresses({ host, port }: ListenAddress, interfaces = networkInterfaces()): string[] {
  const own = ANY_HOST.has(host) ? hostsOf(interfaces, host === '::') : [host];
  const callable = own.map((each) => callableAddress({ host: each, port })).filter((each) => each !== null);
  return callable.length > 0 ? callable : [listenAddressText({ host, port })];
}

/** IPv4 first: it is what people can read to each other. */
function hostsOf(interfaces: ReturnType<typeof networkInterfaces>, withIpv6: boolean): string[] {
  const outside = Object.values(interfaces)
    .flatMap((addresses) => addresses ?? [])
    .filter(({ internal, address }) => !internal && !address.toLowerCase().startsWith('fe80:'));
  const of = (family: string): string[] => outside.filter((each) => each.family === family).map((each) => each.address);
  return withIpv6 ? [...of('IPv4'), ...of('IPv6')] : of('IPv4');
}
