/**
 * Whose socket a program is about to speak to. What it sends is its user's, so nothing is sent to a socket that another
 * user made, or that others could put another in the place of.
 *
 * The superuser may speak to whatever is its folder's owner's: to a relay that runs as a user of its own, say.
 */
import { type Stats, lstatSync, realpathSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { getgid, getuid } from 'node:process';

const SUPERUSER = 0;
const STICKY = 0o1000;
const GROUP_WRITES = 0o020;
const OTHERS_WRITE = 0o002;

/** As much of a file as matters here. */
export type FileOwner = Pick<Stats, 'uid' | 'gid' | 'mode'>;

export interface SocketUser {
  uid: number;
  /** The user's own group. */
  gid: number;
}

/** Why the socket at `path` is not to be spoken to, or `undefined`; what is no socket is found out by opening it. */
export function socketFault(path: string): string | undefined {
  const uid = getuid?.();
  const gid = getgid?.();
  if (uid === undefined || gid === undefined) return undefined;
  let socket: Stats | undefined;
  let folder: Stats | undefined;
  let linked: string | undefined;
  try {
    socket = lstatSync(path, { throwIfNoEntry: false });
    folder = statSync(dirname(path), { throwIfNoEntry: false });
    if (socket?.isSymbolicLink()) linked = realpathSync(path);
  } catch {
    return undefined;
  }
  if (!folder || !(socket?.isSocket() || socket?.isSymbolicLink())) return undefined;
  const fault = ownerFault(path, { socket, folder }, { uid, gid });
  // Where a link leads is as much a question as who made it.
  return fault ?? (linked === undefined ? undefined : socketFault(linked));
}

/** As `socketFault`, of what is known of the socket and its folder. */
export function ownerFault(
  path: string,
  { socket, folder }: { socket: FileOwner; folder: FileOwner },
  { uid, gid }: SocketUser,
): string | undefined {
  const isTrusted = (owner: number): boolean =>
    owner === uid || owner === SUPERUSER || (uid === SUPERUSER && owner === folder.uid);
  if (!isTrusted(socket.uid)) return `the socket ${path} belongs to the user with the number ${socket.uid}`;
  const where = `the folder of the socket ${path}`;
  if (!isTrusted(folder.uid)) return `${where} belongs to the user with the number ${folder.uid}`;
  // In a sticky folder nobody can move what is another's.
  if ((folder.mode & STICKY) !== 0) return undefined;
  const isOpen = (folder.mode & OTHERS_WRITE) !== 0 || ((folder.mode & GROUP_WRITES) !== 0 && folder.gid !== gid);
  return isOpen ? `${where} can be written by other users (chmod go-w ${dirname(path)} mends that)` : undefined;
}
