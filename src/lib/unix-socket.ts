/**
 * Sockets by which programs of one user on one machine speak to each other.
 *
 * Invariants:
 *   - only the owner of the listening process may open one (mode 0600, from the moment it is there);
 *   - one that a killed process left is replaced, whatever else has the name is not.
 */
import { type Stats, lstatSync, rmSync } from 'node:fs';
import { type Server, connect } from 'node:net';

/** `sun_path` of the system, without the zero that ends it. A longer path is cut in silence by some systems. */
export const SOCKET_PATH_BYTES_MAX = process.platform === 'linux' ? 107 : 103;

/** Everything but reading and writing by the owner. */
const UMASK = 0o177;

/** No socket can be made there; the message says why. */
export class SocketUnavailable extends Error {}

/**
 * Why no socket can have this path, or `undefined`; `remedy` completes the sentence. A relative path would be shorter,
 * and hold from one folder only: the working folder is that of the whole process, which is not changed under its other
 * threads.
 */
export function socketPathFault(path: string, remedy: string): string | undefined {
  const bytes = Buffer.byteLength(path);
  if (bytes <= SOCKET_PATH_BYTES_MAX) return undefined;
  return `the path of the local socket, ${path}, has ${bytes} bytes and ${SOCKET_PATH_BYTES_MAX} are possible: ${remedy}`;
}

/** Whether somebody listens at `path`. A path that is too long is nobody's. */
export function isListening(path: string): Promise<boolean> {
  if (Buffer.byteLength(path) > SOCKET_PATH_BYTES_MAX) return Promise.resolve(false);
  return new Promise((resolve) => {
    const socket = connect(path);
    const answer = (isThere: boolean): void => {
      socket.destroy();
      resolve(isThere);
    };
    socket.once('connect', () => answer(true));
    // A socket of another user is one that somebody listens at.
    socket.once('error', ({ code }: NodeJS.ErrnoException) => answer(code === 'EACCES' || code === 'EPERM'));
  });
}

/**
 * Makes `server` listen at `path`, in place of what a killed process left there. The caller knows that no living
 * process does. Throws `SocketUnavailable`; `retry` is what its message says to do after mending.
 */
export async function listenAt(server: Server, path: string, retry: string): Promise<void> {
  removeStale(path, retry);
  await new Promise<void>((resolve, reject) => {
    // Not once: a connection that cannot be accepted is told here too, and unheard it would end the process.
    server.on('error', (error: NodeJS.ErrnoException) => reject(cannotBeMade(path, error, retry)));
    // The socket is made inside this call, so that no other file gets the narrow mode.
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
    throw new SocketUnavailable(`${path} is no socket: move it away and ${retry}`);
  }
}

function cannotBeMade(path: string, { code }: NodeJS.ErrnoException, retry: string): SocketUnavailable {
  return new SocketUnavailable(
    `the local socket ${path} cannot be made (${code ?? 'unknown error'}): mend that and ${retry}`,
  );
}
