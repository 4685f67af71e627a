/** An address to listen at or to connect to, written `host:port`. */
import { networkInterfaces } from 'node:os';

export interface ListenAddress {
  /** A name, or an address without brackets. */
  host: string;
  /** 0 to 65535; 0 means any free port. */
  port: number;
}

/** Parses `host:port`, with an IPv6 host in brackets; `undefined` for any other text. */
export function parseListenAddress(text: string): ListenAddress | undefined {
  const parts = /^(?:\[(?<ipv6>[0-9A-Fa-f:.]+)\]|(?<name>[^:[\]\s]+)):(?<port>[0-9]{1,5})$/.exec(text)?.groups;
  const host = parts?.['ipv6'] ?? parts?.['name'];
  const port = Number(parts?.['port']);
  return host !== undefined && port <= 65_535 ? { host, port } : undefined;
}

/** Writes it as `host:port`, with an IPv6 host in brackets. */
export function listenAddressText({ host, port }: ListenAddress): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** Says whether nothing but this machine reaches a listener at `host`. */
export function isLoopback(host: string): boolean {
  return host === '::1' || host === 'localhost' || /^127(?:\.[0-9]{1,3}){3}$/.test(host);
}

/** Addresses that mean every interface of this machine. */
const ANY_HOST: ReadonlySet<string> = new Set(['0.0.0.0', '::']);

/** Returns where other machines find a listener at `host`: the addresses of all interfaces where it means every one. */
export function hostsListenedAt(host: string, interfaces = networkInterfaces()): string[] {
  return ANY_HOST.has(host) ? outsideHosts(interfaces, host === '::') : [host];
}

/** IPv4 first: people can read it to each other. */
function outsideHosts(interfaces: ReturnType<typeof networkInterfaces>, withIpv6: boolean): string[] {
  const outside = Object.values(interfaces)
    .flatMap((addresses) => addresses ?? [])
    .filter(({ internal, address }) => !internal && !address.toLowerCase().startsWith('fe80:'));
  const of = (family: string): string[] => outside.filter((each) => each.family === family).map((each) => each.address);
  return withIpv6 ? [...of('IPv4'), ...of('IPv6')] : of('IPv4');
}
