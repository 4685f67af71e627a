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

function namesOf(host: string): string[] {
  if (host === '127.0.0.1' || host === '::1' || host === 'localhost') return LOOPBACK;
  if (host === '0.0.0.0' || host === '::') {
    const addresses = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
    return [...LOOPBACK, ...addresses.map(({ address }) => inUrl(address))];
  }
  return [inUrl(host)];
}

function inUrl(host: string): string {
  return isIP(host) === 6 ? `[${host}]` : host;
}
