/**
 * The control socket, over which local commands call the running relay: HTTP over a Unix domain socket in the store
 * folder.
 *
 * Only the process that holds the store removes one that is there, so that no other process takes it from a running
 * relay.
 */
import { join } from 'node:path';
import { SocketUnavailable, isListening, listenAt, socketPathFault } from '../../lib/unix-socket.ts';
import { connectionsOfAll } from '../../http/connections.ts';
import type { ExchangeHandler } from '../../http/exchange.ts';
import { exchangeServer } from '../../http/server-node.ts';

const CONTROL_SOCKET = 'control.sock';

/** Commands of the operator that may be under way at once. */
const CONTROL_CONNECTIONS_MAX = 32;

interface ControlListener {
  /** Takes no new connections, and removes the socket. */
  stopAccepting(): void;
  close(): void;
}

export function controlSocketPath(storeFolder: string): string {
  return join(storeFolder, CONTROL_SOCKET);
}

/** Says why the store folder can have no socket, or `undefined`. */
export function controlSocketFault(storeFolder: string): string | undefined {
  const remedy = 'name the store folder by a shorter path with --store-dir (a symbolic link will do)';
  return socketPathFault(controlSocketPath(storeFolder), remedy);
}

export function isRelayListening(storeFolder: string): Promise<boolean> {
  return isListening(controlSocketPath(storeFolder));
}

/**
 * Listens for the process that holds the store in `storeFolder`. Throws `SocketUnavailable`: local commands do not
 * reach this relay then, and it serves all the same.
 */
export async function listenControl(storeFolder: string, handler: ExchangeHandler): Promise<ControlListener> {
  const fault = controlSocketFault(storeFolder);
  if (fault !== undefined) throw new SocketUnavailable(fault);
  const server = exchangeServer(handler, { connections: connectionsOfAll(CONTROL_CONNECTIONS_MAX) });
  await listenAt(server, controlSocketPath(storeFolder), 'start the relay again');
  return {
    stopAccepting: () => server.close(),
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
