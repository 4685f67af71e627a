/** The listener of hosts, of a relay that serves, and of a standby, which refuses them. */
import type { Connections } from '../../http/connections.ts';
import type { ExchangeHandler, HttpServer, Listen } from '../../http/exchange.ts';
import { ListenFailed } from '../../http/listen-failed.ts';
import { listenNode } from '../../http/server-node.ts';
import { keepTlsCurrent, readTls } from '../../http/tls-files.ts';
import { hostsListenedAt, listenAddressText } from '../../lib/listen-address.ts';
import type { Services } from '../../lib/services.ts';
import { uwsHere } from '../http/uws-binding.ts';
import { listenUws } from '../http/uws-connection.ts';
import type { RelayOptions } from './options.ts';

interface HostsListenerOptions {
  relay: Pick<RelayOptions, 'listen' | 'tls' | 'timers' | 'log'>;
  services: Services;
  handler: ExchangeHandler;
  connections: Connections;
  listenHere: Listen;
}

/** Listens, and takes a renewed certificate while it does. Throws `ListenFailed` and `TlsRefused`. */
export async function listenToHosts(options: HostsListenerOptions): Promise<HttpServer> {
  const { relay, services, handler, connections, listenHere } = options;
  const { listen, timers, log } = relay;
  const tls = relay.tls && (await readTls(relay.tls));
  const server = await listenHere({ ...listen, handler, connections, tls });
  const current = tls && keepTlsCurrent({ tls, timers, log, renew: (renewed) => server.renewTls(renewed) });
  services.add('certificate', { stop: () => current?.stop() });
  return server;
}

/** Chooses the server, and says why it is not uWebSockets.js if nobody asked for another. */
export function chooseServer({ server: wanted, listenHere }: Pick<RelayOptions, 'server' | 'listenHere'>): {
  listenHere: Listen;
  serverWhy?: string;
} {
  if (listenHere) return { listenHere };
  if (wanted === 'node') return { listenHere: listenNode };
  const { binding, faults } = uwsHere();
  if (binding) return { listenHere: listenUws(binding) };
  const serverWhy = `no uWebSockets.js runs here: ${faults.join('; ')}`;
  if (wanted === 'uws') throw new ListenFailed(`${serverWhy}. Leave --server out, or use --server node`);
  return { listenHere: listenNode, serverWhy };
}

/** Returns the URLs of the listener, as far as this process knows: not the name of a proxy before it. */
export function addressesOf({ issuer, listen, tls }: RelayOptions, port: number): string[] {
  if (issuer) return [issuer.relayUrl];
  const scheme = tls ? 'https' : 'http';
  return hostsListenedAt(listen.host).map((host) => `${scheme}://${listenAddressText({ host, port })}`);
}
