/** LAN addresses of hosts, as they are stored and sent: `host:port` that a URL can carry. */
import { networkInterfaces } from 'node:os';
import { LanAddressText } from '../../protocol/lan.ts';
import { parserOf } from '../../protocol/schemas.ts';
import { isSameAddress } from '../../lib/address-group.ts';
import { type ListenAddress, listenAddressText, parseListenAddress } from '../../lib/listen-address.ts';

const parse = parserOf(LanAddressText);
/** Addresses that mean every interface of this machine. */
const ANY_HOST: ReadonlySet<string> = new Set(['0.0.0.0', '::']);

/** `host:port`; null for an address that no URL can carry, such as a link-local one with its zone, or port 0. */
export function callableAddress(address: ListenAddress): string | null {
  return parse(listenAddressText(address)) ?? null;
}

/**
 * Whether `address` is `calledAt`, this host's end of the connection, or the address that the
 * configuration advertises. Another address of this machine does not count: a connection to it would end there.
 */
export function isDialledAt(address: string, calledAt: ListenAddress, advertised: string | undefined): boolean {
  if (address.toLowerCase() === advertised?.toLowerCase()) return true;
  const dialled = parseListenAddress(address);
  return dialled?.port === calledAt.port && isSameAddress(dialled.host, calledAt.host);
}

/** The addresses of this host's listener that other machines can call, for the owner of the other host. */
export function ownAddresses({ host, port }: ListenAddress, interfaces = networkInterfaces()): string[] {
  const own = ANY_HOST.has(host) ? hostsOf(interfaces, host === '::') : [host];
  const callable = own.map((each) => callableAddress({ host: each, port })).filter((each) => each !== null);
  return callable.length > 0 ? callable : [listenAddressText({ host, port })];
}

/** IPv4 first: people can read it to each other. */
function hostsOf(interfaces: ReturnType<typeof networkInterfaces>, withIpv6: boolean): string[] {
  const outside = Object.values(interfaces)
    .flatMap((addresses) => addresses ?? [])
    .filter(({ internal, address }) => !internal && !address.toLowerCase().startsWith('fe80:'));
  const of = (family: string): string[] => outside.filter((each) => each.family === family).map((each) => each.address);
  return withIpv6 ? [...of('IPv4'), ...of('IPv6')] : of('IPv4');
}
