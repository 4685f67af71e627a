/** The configuration of this user's host, and how a command ends when it cannot use that host. */
import { type HostConfig, loadConfig } from '../../host/config.ts';
import { ConfigRefused } from '../../lib/config-file.ts';
import { CallFailed } from '../../host/api/client.ts';
import type { HostPaths } from '../../host/paths.ts';
import { HostStoreRefused, type HostStoreFault } from '../../host/store/open.ts';
import { SocketUnavailable } from '../../lib/unix-socket.ts';
import type { CommandContext } from './context.ts';
import { CommandFailed, type ExitName, exitOfStatus } from './exit.ts';

export function ownConfig({ env }: CommandContext, paths: HostPaths, flags: Partial<HostConfig> = {}): HostConfig {
  return loadConfig({ file: paths.configFile, environment: env, flags });
}

const STORE_EXIT: Readonly<Record<HostStoreFault, ExitName>> = {
  absent: 'notFound',
  exists: 'conflict',
  locked: 'conflict',
  newer: 'failure',
  damaged: 'failure',
  unusable: 'failure',
};

/** The failure of the command when the host cannot be used; every other error unchanged. */
export function hostFailure(error: unknown): unknown {
  if (error instanceof HostStoreRefused) {
    return new CommandFailed(STORE_EXIT[error.fault], `STORE_${error.fault.toUpperCase()}`, error.message);
  }
  if (error instanceof ConfigRefused) return new CommandFailed('usage', 'BAD_CONFIG', error.message);
  if (error instanceof SocketUnavailable) return new CommandFailed('failure', 'SOCKET_UNAVAILABLE', error.message);
  if (error instanceof CallFailed) return callFailure(error);
  return error;
}

/** A code says more than the status of the answer. */
const EXIT_OF_CODE: Readonly<Record<string, ExitName>> = {
  NOT_THE_OWNER: 'refused',
  SOCKET_NOT_TRUSTED: 'refused',
  DAEMON_GONE: 'temporary',
  DAEMON_SILENT: 'temporary',
};

/** What a person may do about a refusal: the command that shows what there is. */
const NEXT_OF_CODE: Readonly<Record<string, string>> = {
  UNKNOWN_RECIPIENT: 'See poste agents for all names',
  NO_SUCH_MESSAGE: 'See poste inbox --state all, or poste sent',
};

function callFailure({ code, status, message, details }: CallFailed): CommandFailed {
  const exit = EXIT_OF_CODE[code] ?? (status === 413 ? 'usage' : exitOfStatus(status));
  const next = details['quarantine'] === undefined ? NEXT_OF_CODE[code] : undefined;
  // The daemon sends a whole sentence; `run` adds the full stop.
  const said = message.replace(/\.$/, '');
  return new CommandFailed(exit, code, next === undefined ? said : `${said}. ${next}`, details);
}
