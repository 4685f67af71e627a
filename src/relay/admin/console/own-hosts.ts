/**
 * The Host headers under which the operator's listener is itself. A page of elsewhere whose name was pointed here (DNS
 * rebinding) brings its own name.
 */
import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';

const LOOPBACK = ['127.0.0.1', 'localhost', '[::1]'];

/** Lower case, with the port. `host` is where the listener listens. */
export function ownHosts(host: string, port: number): ReadonlySet<string> {
  return new Set(namesOf(host).map((name) => `${name.toLowerCase()}:${port}`));
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
