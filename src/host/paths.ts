/**
 * Where everything of a host lies: the folders of the XDG Base Directory Specification, or all in `POSTE_HOME`.
 *
 *                 XDG                                        POSTE_HOME
 *     config      $XDG_CONFIG_HOME/poste/config.toml         config.toml
 *     store       $XDG_DATA_HOME/poste/store                 store
 *     socket      $XDG_RUNTIME_DIR/poste/daemon.sock         daemon.sock
 *
 * Where there is no folder for a user's sockets, the socket lies beside the store.
 */
import { lstatSync, mkdirSync } from 'node:fs';
import { isAbsolute, join, resolve } from 'node:path';
import { socketPathFault } from '../system/unix-socket.ts';

/** The folders that Poste makes are their owner's alone. */
export const FOLDER_MODE = 0o700;

export interface HostPaths {
  configFile: string;
  /** The store lies in it, and what a restore puts aside. */
  dataFolder: string;
  store: string;
  socket: string;
  /** What a daemon says that was started in the background. */
  logFile: string;
}

export interface PathSources {
  environment: Readonly<Record<string, string | undefined>>;
  homeFolder: string;
  /** The folder that relative paths begin at. */
  workingFolder: string;
  /** `undefined` where users have no numbers. */
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
  // A relative path is to be ignored (XDG Base Directory Specification).
  const named = (name: string): string | undefined => {
    const path = environment[name];
    return path !== undefined && isAbsolute(path) ? path : undefined;
  };
  const config = named('XDG_CONFIG_HOME') ?? join(homeFolder, '.config');
  const data = join(named('XDG_DATA_HOME') ?? join(homeFolder, '.local', 'share'), 'poste');
  // Whoever is started without a session's environment is to find the daemon of the session all the same.
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

/** Why the daemon can have no socket at its path, or `undefined`. */
export function daemonSocketFault({ socket }: HostPaths): string | undefined {
  return socketPathFault(socket, 'set POSTE_HOME or XDG_RUNTIME_DIR to a shorter path (a symbolic link will do)');
}

/** Makes a folder, and what it lies in, as far as it is not there. What is there is left as it is. */
export function makePrivateFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: FOLDER_MODE });
}
