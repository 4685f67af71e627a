/**
 * Checks who owns a socket before a program sends anything to it. What it sends belongs to its user, so it sends
 * nothing to a socket that another user made, or that other users could replace.
 *
 * The superuser may also use a socket of the owner of its folder: that of a relay that runs as a user of its own.
 */
import { type Stats, lstatSync, realpathSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

const SUPERUSER = 0;
const STICKY = 0o1000;
const GROUP_WRITES = 0o020;
const OTHERS_WRITE = 0o002;

/** What matters of a file here. */
export type FileOwner = Pick<Stats, 'uid' | 'gid' | 'mode'>;

export interface SocketUser {
  uid: number;
  /** The primary group of the user. */
  gid: number;
}

/** Why nothing may be sent to the socket at `path`, or `undefined`, as where there is none: opening it will fail. */
export function socketFault(path: string): string | undefined {
  const uid = process.getuid?.();
  const gid = process.getgid?.();
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
  // The target of a link is checked as the link itself is.
  return fault ?? (linked === undefined ? undefined : socketFault(linked));
}

/** Like `socketFault`, from the facts about the socket and its folder. */
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
  // In a sticky folder no user can replace the files of another.
  if ((folder.mode & STICKY) !== 0) return undefined;
  const isOpen = (folder.mode & OTHERS_WRITE) !== 0 || ((folder.mode & GROUP_WRITES) !== 0 && folder.gid !== gid);
  return isOpen ? `${where} can be written by other users (chmod go-w ${dirname(path)} mends that)` : undefined;
}
