/**
 * The control socket: how commands on the same machine speak to the running relay. HTTP over a Unix domain socket in
 * the store folder.
 *
 * Invariants:
 *   - only the owner of the relay's process may open it (mode 0600, from the moment it is there);
 *   - only the process that holds the store removes one that is there, so that nobody takes it from a running relay.
 */
import { type Stats, lstatSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import type { ExchangeHandler } from '../http/exchange.ts';
import { exchangeServer } from '../http/server-node.ts';

export const CONTROL_SOCKET = 'control.sock';

/** `sun_path` of the system, without the zero that ends it. A longer path is cut in silence by some systems. */
export const SOCKET_PATH_BYTES_MAX = process.platform === 'linux' ? 107 : 103;

/** Everything but reading and writing by the owner. */
const UMASK = 0o177;

/** What in the message keeps local commands from reaching this relay. The relay itself serves all the same. */
export class ControlUnavailable extends Error {}

export interface ControlListener {
  /** Takes no new connections, and removes the socket. */
  stopAccepting(): void;
  /** Cuts every connection. */
  close(): void;
}

export function controlSocketPath(storeFolder: string): string {
  return join(storeFolder, CONTROL_SOCKET);
}

/**
 * Why no socket can have this path, or `undefined`. A relative path would be shorter, and hold from one folder only:
 * the working folder is that of the whole process, which is not changed under its other threads.
 */
export function socketPathFault(path: string): string | undefined {
  const bytes = Buffer.byteLength(path);
  if (bytes <= SOCKET_PATH_BYTES_MAX) return undefined;
  return `the path of the local socket, ${path}, has ${bytes} bytes and ${SOCKET_PATH_BYTES_MAX} are possible: name the store folder by a shorter path with --store-dir (a symbolic link will do)`;
}

/** Whether a relay answers at the socket of the store in `storeFolder`. One whose path is too long answers nowhere. */
export function isRelayListening(storeFolder: string): Promise<boolean> {
  const path = controlSocketPath(storeFolder);
  if (socketPathFault(path) !== undefined) return Promise.resolve(false);
  return new Promise((resolve) => {
    const socket = connect(path);
    const answer = (isListening: boolean): void => {
      socket.destroy();
      resolve(isListening);
    };
    socket.once('connect', () => answer(true));
    // A socket of another user is one that somebody listens at.
    socket.once('error', ({ code }: NodeJS.ErrnoException) => answer(code === 'EACCES' || code === 'EPERM'));
  });
}

/** To be called by the process that holds the store in `storeFolder`. Throws `ControlUnavailable`. */
export async function listenControl(storeFolder: string, handler: ExchangeHandler): Promise<ControlListener> {
  const path = controlSocketPath(storeFolder);
  const fault = socketPathFault(path);
  if (fault !== undefined) throw new ControlUnavailable(fault);
  removeStale(path);
  const server = exchangeServer(handler);
  await new Promise<void>((resolve, reject) => {
    // Not once: a connection that cannot be accepted is told here too, and unheard it would end the process.
    server.on('error', (error: NodeJS.ErrnoException) => reject(cannotBeMade(path, error)));
    // The socket is made inside this call, so that no other file gets the narrow mode.
    const before = process.umask(UMASK);
    try {
      server.listen({ path }, resolve);
    } finally {
      process.umask(before);
    }
  });
  return {
    stopAccepting: () => server.close(),
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** A relay that was killed leaves its socket behind. */
function removeStale(path: string): void {
  let found: Stats | undefined;
  try {
    found = lstatSync(path, { throwIfNoEntry: false });
    if (found?.isSocket()) rmSync(path);
  } catch (error) {
    throw cannotBeMade(path, error as NodeJS.ErrnoException);
  }
  if (found && !found.isSocket()) {
    throw new ControlUnavailable(`${path} is no socket: move it away and start the relay again`);
  }
}

function cannotBeMade(path: string, { code }: NodeJS.ErrnoException): ControlUnavailable {
  return new ControlUnavailable(
    `the local socket ${path} cannot be made (${code ?? 'unknown error'}): mend that and start the relay again`,
  );
}
