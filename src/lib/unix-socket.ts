/**
 * Unix domain sockets between the programs of one user on one machine.
 *
 * Invariants:
 *   - only the owner of the listening process may open one (mode 0600 from its creation on);
 *   - a socket that a killed process left is replaced; any other file of the name is left alone.
 */
import { type Stats, lstatSync, rmSync } from 'node:fs';
import { type Server, connect } from 'node:net';

/** The length of `sun_path` without its final zero. Some systems silently cut a longer path. */
export const SOCKET_PATH_BYTES_MAX = process.platform === 'linux' ? 107 : 103;

/** Leaves reading and writing by the owner. */
const UMASK = 0o177;

/** No socket can be made at a path; the message says why. */
export class SocketUnavailable extends Error {}

/**
 * Says why no socket can have this path, or `undefined`; `remedy` completes the sentence. A relative path would be
 * shorter, but would depend on the working folder, which belongs to the whole process and is never changed.
 */
export function socketPathFault(path: string, remedy: string): string | undefined {
  const bytes = Buffer.byteLength(path);
  if (bytes <= SOCKET_PATH_BYTES_MAX) return undefined;
  return (
    `the path of the local socket, ${path}, has ${bytes} bytes where this system allows ` +
    `${SOCKET_PATH_BYTES_MAX}: ${remedy}`
  );
}

/** Says whether a process listens at `path`; never at a path that is too long. */
export function isListening(path: string): Promise<boolean> {
  if (Buffer.byteLength(path) > SOCKET_PATH_BYTES_MAX) return Promise.resolve(false);
  return new Promise((resolve) => {
    const socket = connect(path);
    const answer = (isThere: boolean): void => {
      socket.destroy();
      resolve(isThere);
    };
    socket.once('connect', () => answer(true));
    // A socket that this user may not open counts as one with a listener.
    socket.once('error', ({ code }: NodeJS.ErrnoException) => answer(code === 'EACCES' || code === 'EPERM'));
  });
}

/**
 * Makes `server` listen at `path`, and removes the socket of a killed process before. The caller knows that no living
 * process listens there. Throws `SocketUnavailable`; `retry` is what its message says to do after mending.
 */
export async function listenAt(server: Server, path: string, retry: string): Promise<void> {
  removeStale(path, retry);
  await new Promise<void>((resolve, reject) => {
    // Not `once`: a connection that cannot be accepted is an error too, which without a listener ends the process.
    server.on('error', (error: NodeJS.ErrnoException) => reject(cannotBeMade(path, error, retry)));
    // `listen` makes the socket before it returns, so no other file gets the narrow mode.
    const before = process.umask(UMASK);
    try {
      server.listen({ path }, resolve);
    } finally {
      process.umask(before);
    }
  });
}

function removeStale(path: string, retry: string): void {
  let found: Stats | undefined;
  try {
    found = lstatSync(path, { throwIfNoEntry: false });
    if (found?.isSocket()) rmSync(path);
  } catch (error) {
    throw cannotBeMade(path, error as NodeJS.ErrnoException, retry);
  }
  if (found && !found.isSocket()) {
    throw new SocketUnavailable(`${path} is not a socket: move it away and ${retry}`);
  }
}

function cannotBeMade(path: string, { code }: NodeJS.ErrnoException, retry: string): SocketUnavailable {
  return new SocketUnavailable(
    `the local socket ${path} cannot be made (${code ?? 'unknown error'}): mend that and ${retry}`,
  );
}
