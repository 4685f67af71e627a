/**
 * The paths of a host's files: in the folders of the XDG Base Directory Specification, or all in `POSTE_HOME`.
 *
 *                 XDG                                        POSTE_HOME
 *     config      $XDG_CONFIG_HOME/poste/config.toml         config.toml
 *     store       $XDG_DATA_HOME/poste/store                 store
 *     state       $XDG_STATE_HOME/poste                      the folder itself
 *     socket      $XDG_RUNTIME_DIR/poste/daemon.sock         daemon.sock
 *
 * Without a folder for the user's sockets, the socket is beside the store.
 */
import { lstatSync, mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { configFolder, type Environment, HomeUnknown, homeFolder, xdgFolder } from '../../lib/user-folders.ts';
import { socketPathFault } from '../../lib/unix-socket.ts';

/** The folders that Poste makes can be read by their owner alone. */
export const FOLDER_MODE = 0o700;

export interface HostPaths {
  configFile: string;
  /** Holds the store, and stores that restores replaced. */
  dataFolder: string;
  store: string;
  socket: string;
  /** The log of a daemon that was started in the background. */
  logFile: string;
}

interface User {
  /** `undefined` on systems without user ids. */
  userId: number | undefined;
  owns: (path: string, userId: number) => boolean;
}

const thisUser = (): User => ({ userId: process.getuid?.(), owns: ownsFolder });

/** The paths of the host of this user. A relative POSTE_HOME is taken from the working folder. Throws `HomeUnknown`. */
export function ownPaths({ env }: { env: Environment }, user = thisUser()): HostPaths {
  const { POSTE_HOME: home } = env;
  if (home !== undefined && home !== '') {
    const folder = resolve(home);
    return pathsIn(join(folder, 'config.toml'), folder, folder);
  }
  const data = join(xdgFolder(env, 'XDG_DATA_HOME') ?? join(homeFolder(env), '.local', 'share'), 'poste');
  const runtime = runtimeFolder(env, user);
  const config = join(configFolder(env), 'poste', 'config.toml');
  return pathsIn(config, data, runtime === undefined ? data : join(runtime, 'poste'));
}

/** The folder of the user's sockets, which a command finds that starts without the session's environment too. */
export function runtimeFolder(env: Environment, { userId, owns } = thisUser()): string | undefined {
  const usual = userId === undefined ? undefined : `/run/user/${userId}`;
  return (
    xdgFolder(env, 'XDG_RUNTIME_DIR') ??
    (usual !== undefined && userId !== undefined && owns(usual, userId) ? usual : undefined)
  );
}

/** A relay of this user keeps here what its store folder must not hold; `undefined` where no home folder is known. */
export function stateFolder({ env }: { env: Environment }): string | undefined {
  const { POSTE_HOME: home } = env;
  if (home !== undefined && home !== '') return resolve(home);
  try {
    return join(xdgFolder(env, 'XDG_STATE_HOME') ?? join(homeFolder(env), '.local', 'state'), 'poste');
  } catch (error) {
    if (error instanceof HomeUnknown) return undefined;
    throw error;
  }
}

function pathsIn(configFile: string, dataFolder: string, socketFolder: string): HostPaths {
  return {
    configFile,
    dataFolder,
    store: join(dataFolder, 'store'),
    socket: join(socketFolder, 'daemon.sock'),
    logFile: join(dataFolder, 'daemon.log'),
  };
}

function ownsFolder(path: string, userId: number): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false });
  return found?.isDirectory() === true && found.uid === userId;
}

/** Says why the daemon cannot have a socket at its path, or `undefined`. */
export function daemonSocketFault({ socket }: HostPaths): string | undefined {
  return socketPathFault(socket, 'set POSTE_HOME or XDG_RUNTIME_DIR to a shorter path (a symbolic link will do)');
}

/** Makes a folder and its parents where they are missing. Existing ones stay as they are. */
export function makePrivateFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: FOLDER_MODE });
}
