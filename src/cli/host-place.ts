/** Where the host of whoever gives a command lies, by the environment, and its daemon. */
import { homedir } from 'node:os';
import { getuid } from 'node:process';
import { ConfigRefused, type HostConfig, loadConfig } from '../host/config.ts';
import { CallFailed } from '../host/local/client.ts';
import { type HostPaths, hostPaths, ownsFolder } from '../host/paths.ts';
import { HostStoreRefused, type HostStoreFault } from '../host/store/open.ts';
import { SocketUnavailable } from '../system/unix-socket.ts';
import { CommandFailed, type ExitName } from './exit.ts';

export function ownPaths(): HostPaths {
  return hostPaths({
    environment: process.env,
    homeFolder: homedir(),
    workingFolder: process.cwd(),
    userId: getuid?.(),
    owns: ownsFolder,
  });
}

export function ownConfig(paths: HostPaths, flags: Partial<HostConfig> = {}): HostConfig {
  return loadConfig({ file: paths.configFile, environment: process.env, flags });
}

const STORE_EXIT: Readonly<Record<HostStoreFault, ExitName>> = {
  absent: 'notFound',
  exists: 'conflict',
  locked: 'conflict',
  newer: 'failure',
  damaged: 'failure',
  unusable: 'failure',
};

/** What ends the command when the host cannot be used; whatever else was thrown is thrown on. */
export function hostFailure(error: unknown): unknown {
  if (error instanceof HostStoreRefused) {
    return new CommandFailed(STORE_EXIT[error.fault], `STORE_${error.fault.toUpperCase()}`, error.message);
  }
  if (error instanceof ConfigRefused) return new CommandFailed('usage', 'BAD_CONFIG', error.message);
  if (error instanceof SocketUnavailable) return new CommandFailed('failure', 'SOCKET_UNAVAILABLE', error.message);
  if (error instanceof CallFailed) return callFailure(error);
  return error;
}

const EXIT_OF_STATUS: Readonly<Record<number, ExitName>> = {
  400: 'usage',
  403: 'refused',
  404: 'notFound',
  409: 'conflict',
  413: 'usage',
  503: 'temporary',
};

const EXIT_OF_CODE: Readonly<Record<string, ExitName>> = {
  NOT_THE_OWNER: 'refused',
  DAEMON_GONE: 'temporary',
  DAEMON_SILENT: 'temporary',
};

function callFailure({ code, status, message, details }: CallFailed): CommandFailed {
  const exit = EXIT_OF_CODE[code] ?? EXIT_OF_STATUS[status] ?? 'failure';
  // What refuses says a whole sentence; a command ends it itself.
  return new CommandFailed(exit, code, message.replace(/\.$/, ''), details);
}
