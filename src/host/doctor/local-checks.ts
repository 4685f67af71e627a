/**
 * The checks that `poste doctor` makes itself, with or without a daemon: config file, folders, socket path, disk space,
 * the daemon, the store.
 */
import { assertNever } from '../../lib/assert-never.ts';
import { existsSync, lstatSync, statSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { shellWord } from '../../lib/shell-word.ts';
import { broken, note, ok } from '../../lib/check.ts';
import type { Check } from '../contract/daemon.ts';
import { ConfigRefused } from '../../lib/config-file.ts';
import { loadConfig } from '../base/config.ts';
import { daemonSocketFault, type HostPaths } from '../base/paths.ts';
import { HostStoreRefused, openHostStore } from '../store/open.ts';
import { storedFacts } from './health.ts';
import { mailChecks } from './mail-checks.ts';
import { peerCheck } from './peer-checks.ts';

export type DaemonFacts =
  | { type: 'running'; version: string; pid: number }
  /** It answers, but is of another version than this command. */
  | { type: 'other-version' }
  /** No process listens at the socket. */
  | { type: 'absent'; store: StoreFacts }
  /** A process listens there but gives no answer; `message` is a clause. */
  | { type: 'unusable'; code: string; message: string };

/** The outcome of opening the store. */
export type StoreFacts =
  | { type: 'opens' }
  /** `message` is a clause. */
  | { type: 'refused'; fault: 'absent' | 'locked' | 'newer' | 'damaged' | 'unusable'; message: string }
  /** The store is not opened: it belongs to another user. */
  | { type: 'foreign' };

export interface DaemonPlace {
  /** The version of this command. */
  version: string;
  store: string;
  /** True when the daemon is a service of its user. */
  isUnit: boolean;
}

const DAEMON = { area: 'daemon', id: 'daemon' } as const;
const RESTART = 'poste daemon restart';
/** Faults that a restart of the daemon does not repair. */
const ANOTHERS: ReadonlySet<string> = new Set(['NOT_THE_OWNER', 'SOCKET_NOT_TRUSTED']);
const STORE = { area: 'daemon', id: 'store' } as const;

export function daemonChecks(facts: DaemonFacts, place: DaemonPlace): Check[] {
  switch (facts.type) {
    case 'running': {
      const { version, pid } = facts;
      const sentence = `runs as process ${pid}, version ${version}`;
      if (version === place.version) return [ok(DAEMON, sentence), ok(STORE, `${place.store} is open`)];
      return [note(DAEMON, `${sentence}; this command is version ${place.version}`, RESTART)];
    }
    case 'other-version':
      return [broken(DAEMON, 'the running daemon is of another version than this command', RESTART)];
    case 'unusable':
      return [broken(DAEMON, facts.message, ANOTHERS.has(facts.code) ? null : RESTART)];
    case 'absent':
      return absentChecks(facts.store, place);
    default:
      return assertNever(facts);
  }
}

/** A store that cannot be used comes first: it is the reason why no daemon runs. */
function absentChecks(facts: StoreFacts, { store, isUnit }: DaemonPlace): Check[] {
  const start = isUnit ? RESTART : 'poste daemon';
  const notRunning = broken(DAEMON, 'does not run: nothing is sent or received, and no agent is woken', start);
  if (facts.type === 'opens') return [notRunning, ok(STORE, `${store} opens`)];
  if (facts.type === 'foreign') return [notRunning];
  const { fault, message } = facts;
  switch (fault) {
    case 'absent':
      return [broken(STORE, `${store} is not there: this host has not been made yet`, 'poste init')];
    case 'locked': {
      const holder = 'a daemon that starts, stops or hangs, or a restore';
      const sentence = `something holds the store at ${store} and does not answer at the socket: ${holder}`;
      return [broken(DAEMON, sentence, "pgrep -af 'poste|cli/main'")];
    }
    case 'damaged':
      return [broken(STORE, message, 'poste restore <backup>'), notRunning];
    case 'newer':
      return [broken(STORE, message, null), notRunning];
    case 'unusable':
      return [broken(STORE, message, `ls -la ${shellWord(store)}`), notRunning];
    default:
      return assertNever(fault);
  }
}

/** When a write fails for want of space, the daemon ends. */
const FREE_BYTES_MIN = 64 << 20;
const FREE_BYTES_LOW = 1 << 30;

export interface PlaceFacts {
  config: {
    path: string;
    isThere: boolean;
    /** The fault of a setting, as a clause, and the environment variable that set it, if one did. */
    fault: { message: string; variable: string | null } | null;
  };
  folders: readonly FolderFacts[];
  socket: {
    path: string;
    /** Says why there can be no socket at its path, as a clause. */
    fault: string | null;
    /** `POSTE_HOME`, where everything lies in one folder. */
    home: string | null;
  };
  /** Free bytes on the disk of the store; null when unknown. */
  freeBytes: number | null;
}

interface FolderFacts {
  path: string;
  /** True when it holds private keys: then no other user may read it. */
  holdsKeys: boolean;
  /** Null when it does not exist. */
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
  // A missing folder is made when it is needed; the check of the store reports a missing store.
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
  // In a folder with the sticky bit, users cannot replace each other's files.
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

interface PlaceSources {
  paths: HostPaths;
  environment: Readonly<Record<string, string | undefined>>;
  /** `undefined` on systems without user ids. */
  userId: number | undefined;
}

/** Reads the facts about a host's files, without its daemon. Changes nothing. */
export async function placeFacts({ paths, environment, userId }: PlaceSources): Promise<PlaceFacts> {
  const { configFile, dataFolder, store, socket } = paths;
  const folders = [...new Set([dirname(configFile), dataFolder, store, dirname(socket)])];
  return {
    config: {
      path: configFile,
      isThere: existsSync(configFile),
      fault: configFault(configFile, {}) ?? configFault(configFile, environment),
    },
    folders: folders.map((path) => folderFacts(path, path === store, userId)),
    socket: { path: socket, fault: daemonSocketFault(paths) ?? null, home: environment['POSTE_HOME'] || null },
    freeBytes: await freeBytes(existsSync(store) ? store : dataFolder),
  };
}

function configFault(file: string, environment: PlaceSources['environment']): PlaceFacts['config']['fault'] {
  try {
    loadConfig({ file, environment });
    return null;
  } catch (error) {
    if (!(error instanceof ConfigRefused)) throw error;
    const { message } = error;
    // The file alone was read before, so this fault is in the environment.
    const [variable = ''] = message.split(' ', 1);
    return { message, variable: Object.hasOwn(environment, variable) ? variable : null };
  }
}

function folderFacts(path: string, holdsKeys: boolean, userId: number | undefined): FolderFacts {
  // A home may be a symbolic link to a shorter path or a larger disk.
  const found = lstatSync(path, { throwIfNoEntry: false }) && statSync(path, { throwIfNoEntry: false });
  if (!found) return { path, holdsKeys, found: null };
  const isOwn = userId === undefined || found.uid === userId;
  return { path, holdsKeys, found: { isFolder: found.isDirectory(), isOwn, mode: found.mode } };
}

async function freeBytes(folder: string): Promise<number | null> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  } catch {
    return null;
  }
}

/** Opens the store while no daemon runs: whether it opens, and the checks of what it knows. */
export async function idleStore(
  { store }: HostPaths,
  { folders }: PlaceFacts,
  nowMs: number,
): Promise<{ store: StoreFacts; checks: Check[] }> {
  const clock = { nowMs: () => nowMs, momentMs: (datedMs: number) => datedMs };
  const folder = folders.find(({ path }) => path === store)?.found;
  // Opening it would leave files that its owner cannot replace.
  if (folder && (!folder.isOwn || !folder.isFolder)) return { store: { type: 'foreign' }, checks: [] };
  try {
    const opened = await openHostStore(store, () => undefined);
    try {
      const { peers, mail } = await opened.read((reader) => storedFacts(reader, clock));
      const checks = [...peers.map(({ facts }) => peerCheck(facts, nowMs)), ...mailChecks(mail, nowMs)];
      return { store: { type: 'opens' }, checks };
    } finally {
      await opened.close();
    }
  } catch (error) {
    if (!(error instanceof HostStoreRefused)) throw error;
    const { fault, message } = error;
    // Only making a store throws `exists`.
    if (fault === 'exists') throw error;
    return { store: { type: 'refused', fault, message }, checks: [] };
  }
}
