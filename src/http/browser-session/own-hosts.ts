/**
 * The Host headers under which a listener is itself. A page of elsewhere whose name was pointed here (DNS
 * rebinding) brings its own name.
 */
import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';

const LOOPBACK = ['127.0.0.1', 'localhost', '[::1]'];

/** What browsers leave out of an address and of an origin. */
const HTTP_PORT = 80;

/** Lower case, with the port, and without it where browsers leave it out. `host` is where the listener listens. */
export function ownHosts(host: string, port: number): ReadonlySet<string> {
  const names = namesOf(host).map((name) => name.toLowerCase());
  return new Set([...names.map((name) => `${name}:${port}`), ...(port === HTTP_PORT ? names : [])]);
}

/**
 * Whether a Host header is a name that a page of elsewhere may have, of a listener on `host`, for what needs no session.
 * Probes ask a loopback listener by an address or as localhost. Elsewhere a listener has names that it does not know of.
 */
export function isForeignName(header: string, host: string): boolean {
  if (!isLoopback(host)) return false;
  const name = header.toLowerCase().replace(/:\d*$/, '');
  return name !== 'localhost' && isIP(name.replace(/^\[(.*)\]$/, '$1')) === 0;
}

function isLoopback(host: string): boolean {
  return host === '127.0.0.1' || host === '::1' || host === 'localhost';
}

function namesOf(host: string): string[] {
  if (isLoopback(host)) return LOOPBACK;
  if (host === '0.0.0.0' || host === '::') {
    const addresses = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
    return [...LOOPBACK, ...addresses.map(({ address }) => inUrl(address))];
  }
  return [inUrl(host)];
}

function inUrl(host: string): string {
  return isIP(host) === 6 ? `[${host}]` : host;
}
