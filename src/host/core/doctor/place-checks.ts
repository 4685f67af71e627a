/**
 * What can be seen of a host without its daemon: its config file, its folders, its socket's path, the room on its disk.
 * Pure.
 */
import { shellWord } from '../../../protocol/shell-word.ts';
import { type Check, broken, note, ok } from './check.ts';

/** The store ends the daemon when a write fails. */
export const FREE_BYTES_MIN = 64 << 20;
export const FREE_BYTES_LOW = 1 << 30;

export interface PlaceFacts {
  config: {
    path: string;
    isThere: boolean;
    /** What is wrong with a setting, as a clause, and the variable of the environment that it came from, if it did. */
    fault: { message: string; variable: string | null } | null;
  };
  folders: readonly FolderFacts[];
  socket: {
    path: string;
    /** Why there can be none at its path, as a clause. */
    fault: string | null;
    /** `POSTE_HOME`, where everything lies in one folder. */
    home: string | null;
  };
  /** On the disk of the store; null when that cannot be told. */
  freeBytes: number | null;
}

export interface FolderFacts {
  path: string;
  /** The store holds private keys: nobody else may so much as look. */
  holdsKeys: boolean;
  /** Null when it is not there. */
  found: { isFolder: boolean; isOwn: boolean; mode: number } | null;
}

const OTHERS = 0o077;
const OTHERS_WRITE = 0o022;
const STICKY = 0o1000;

export function placeChecks({ config, folders, socket, freeBytes }: PlaceFacts): Check[] {
  return [configCheck(config), ...folders.flatMap(folderCheck), socketCheck(socket), ...diskCheck(folders, freeBytes)];
}

function configCheck({ path, isThere, fault }: PlaceFacts['config']): Check {
  const subject = { area: 'host', id: 'config' } as const;
  if (fault) {
    const command = fault.variable === null ? `$EDITOR ${shellWord(path)}` : `unset ${fault.variable}`;
    return broken(subject, `${fault.message}: the daemon does not start with it`, command);
  }
  return ok(subject, isThere ? `${path} is understood` : `there is no ${path}: every setting has its default`);
}

function folderCheck({ path, holdsKeys, found }: FolderFacts): Check[] {
  const subject = { area: 'host', id: 'folder', about: path } as const;
  // What is not there yet is made when it is needed; a missing store is said of the store.
  if (!found) return [];
  const word = shellWord(path);
  if (!found.isFolder) return [broken(subject, `${path} is no folder`, `mv ${word} ${shellWord(`${path}.aside`)}`)];
  if (!found.isOwn) {
    return [broken(subject, `${path} is another user's: run poste as that user`, `sudo chown -R "$(id -un)" ${word}`)];
  }
  if (holdsKeys && (found.mode & OTHERS) !== 0) {
    const sentence = `${path} holds private keys and is open to other users (mode ${modeText(found.mode)})`;
    return [broken(subject, sentence, `chmod 700 ${word}`)];
  }
  // In a folder with the sticky bit nobody replaces what is another's.
  if ((found.mode & OTHERS_WRITE) !== 0 && (found.mode & STICKY) === 0) {
    const sentence = `other users may replace what lies in ${path} (mode ${modeText(found.mode)})`;
    return [broken(subject, sentence, `chmod go-w ${word}`)];
  }
  return [ok(subject, `${path} is yours (mode ${modeText(found.mode)})`)];
}

function modeText(mode: number): string {
  return (mode & 0o7777).toString(8).padStart(4, '0');
}

function socketCheck({ path, fault, home }: PlaceFacts['socket']): Check {
  const subject = { area: 'host', id: 'socket' } as const;
  if (fault === null) return ok(subject, path);
  const shorter = home === null ? null : `ln -s ${shellWord(home)} ~/.poste && export POSTE_HOME=~/.poste`;
  return broken(subject, fault, shorter ?? 'export XDG_RUNTIME_DIR=/run/user/$(id -u)');
}

function diskCheck(folders: readonly FolderFacts[], freeBytes: number | null): Check[] {
  if (freeBytes === null) return [];
  const subject = { area: 'host', id: 'disk' } as const;
  const command = `df -h ${shellWord(folders.find(({ holdsKeys }) => holdsKeys)?.path ?? '.')}`;
  const room = `${Math.floor(freeBytes / 1e6)} MB are free`;
  if (freeBytes < FREE_BYTES_MIN) {
    return [broken(subject, `${room}: the daemon ends at the first write that fails`, command)];
  }
  if (freeBytes < FREE_BYTES_LOW) return [note(subject, room, command)];
  return [ok(subject, `${(freeBytes / 1e9).toFixed(1)} GB are free`)];
}
