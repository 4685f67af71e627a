/**
 * The paths of a host's files: in the folders of the XDG Base Directory Specification, or all in `POSTE_HOME`.
 *
 *                 XDG                                        POSTE_HOME
 *     config      $XDG_CONFIG_HOME/poste/config.toml         config.toml
 *     store       $XDG_DATA_HOME/poste/store                 store
 *     socket      $XDG_RUNTIME_DIR/poste/daemon.sock         daemon.sock
 *
 * Without a folder for the user's sockets, the socket is beside the store.
 */
import { lstatSync, mkdirSync } from 'node:fs';
import { isAbsolute, join, resolve } from 'node:path';
import { socketPathFault } from '../../lib/unix-socket.ts';

/** Only their owner can read the folders that Poste makes. */
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

export interface PathSources {
  environment: Readonly<Record<string, string | undefined>>;
  homeFolder: string;
  /** The folder that relative paths start from. */
  workingFolder: string;
  /** `undefined` on systems without user ids. */
  userId: number | undefined;
  /** Whether the user owns a folder of this path. */
  owns: (path: string, userId: number) => boolean;
}

export function hostPaths({ environment, homeFolder, workingFolder, userId, owns }: PathSources): HostPaths {
  const home = environment['POSTE_HOME'];
  if (home !== undefined && home !== '') {
    const folder = resolve(workingFolder, home);
    return pathsIn(join(folder, 'config.toml'), folder, folder);
  }
  // A relative path is ignored (XDG Base Directory Specification).
  const named = (name: string): string | undefined => {
    const path = environment[name];
    return path !== undefined && isAbsolute(path) ? path : undefined;
  };
  const config = named('XDG_CONFIG_HOME') ?? join(homeFolder, '.config');
  const data = join(named('XDG_DATA_HOME') ?? join(homeFolder, '.local', 'share'), 'poste');
  // A command that starts without the session's environment must find the same socket.
  const usual = userId === undefined ? undefined : `/run/user/${userId}`;
  const runtime =
    named('XDG_RUNTIME_DIR') ??
    (usual !== undefined && userId !== undefined && owns(usual, userId) ? usual : undefined);
  return pathsIn(join(config, 'poste', 'config.toml'), data, runtime === undefined ? data : join(runtime, 'poste'));
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

/** For `PathSources.owns`. */
export function ownsFolder(path: string, userId: number): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false });
  return found?.isDirectory() === true && found.uid === userId;
}

/** Why the daemon cannot have a socket at its path, or `undefined`. */
export function daemonSocketFault({ socket }: HostPaths): string | undefined {
  return socketPathFault(socket, 'set POSTE_HOME or XDG_RUNTIME_DIR to a shorter path (a symbolic link will do)');
}

/** Makes a folder and its parents where they are missing. Existing ones stay as they are. */
export function makePrivateFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: FOLDER_MODE });
}
