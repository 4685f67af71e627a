/** Looks at where a host lies, without its daemon. Changes nothing. */
import { existsSync, lstatSync, statSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { ConfigRefused, loadConfig } from './config.ts';
import type { StoreFacts } from './core/doctor/daemon-checks.ts';
import type { FolderFacts, PlaceFacts } from './core/doctor/place-checks.ts';
import { type StoredFacts, storedFacts } from './office/check-facts.ts';
import { type HostPaths, daemonSocketFault } from './paths.ts';
import { HostStoreRefused, openHostStore } from './store/open.ts';

export interface PlaceSources {
  paths: HostPaths;
  environment: Readonly<Record<string, string | undefined>>;
  /** `undefined` where users have no numbers. */
  userId: number | undefined;
}

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
    // Told by its own name: the file alone was read before.
    const [variable = ''] = message.split(' ', 1);
    return { message, variable: Object.hasOwn(environment, variable) ? variable : null };
  }
}

function folderFacts(path: string, holdsKeys: boolean, userId: number | undefined): FolderFacts {
  // A home may be a link to a shorter or a larger place.
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

/** The store of a daemon that does not run: whether it opens, and what it says of the host. */
export async function idleStore(
  { store }: HostPaths,
  { folders }: PlaceFacts,
  nowMs: number,
): Promise<{ store: StoreFacts; stored: StoredFacts | undefined }> {
  const folder = folders.find(({ path }) => path === store)?.found;
  // Opening it would leave files there that its owner cannot replace.
  if (folder && (!folder.isOwn || !folder.isFolder)) return { store: { type: 'foreign' }, stored: undefined };
  try {
    const opened = await openHostStore(store, () => undefined);
    try {
      return { store: { type: 'opens' }, stored: await opened.read((reader) => storedFacts(reader, nowMs)) };
    } finally {
      await opened.close();
    }
  } catch (error) {
    if (!(error instanceof HostStoreRefused)) throw error;
    const { fault, message } = error;
    // `exists` is said of a store that is to be made.
    if (fault === 'exists') throw error;
    return { store: { type: 'refused', fault, message }, stored: undefined };
  }
}
