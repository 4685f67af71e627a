/** How commands ask the daemon: the flags they share, and what they do when none is running. */
import { Option, type Command } from 'commander';
import { CallFailed, type CallOptions, DaemonClient } from '../host/local/client.ts';
import type { InputOf, OperationName, OutputOf } from '../host/local/operations.ts';
import { daemonSocketFault } from '../host/paths.ts';
import { CommandFailed } from './exit.ts';
import { hostFailure, ownPaths } from './host-place.ts';
import { startInBackground } from './start-daemon.ts';

export interface DaemonFlags {
  start?: boolean;
  json?: boolean;
}

export interface ActingFlags extends DaemonFlags {
  as?: string;
}

/** `--start` and `--json`. */
export function withDaemonFlags(command: Command, json: string): Command {
  return command.option('--start', 'start the daemon first when none is running').option('--json', json);
}

/** `--as`, and what `withDaemonFlags` adds. */
export function withActingFlags(command: Command, json: string): Command {
  const as = new Option('--as <name>', 'the agent in whose name this is done; owner is you').env('POSTE_AGENT');
  return withDaemonFlags(command.addOption(as), json);
}

export const AGENT_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/** Asks the daemon for an operation. Throws `CommandFailed`. */
export async function ask<N extends OperationName>(
  name: N,
  input: InputOf<N>,
  flags: ActingFlags,
  options: Omit<CallOptions, 'as'> = {},
): Promise<OutputOf<N>> {
  const { as } = flags;
  if (as !== undefined && !AGENT_NAME.test(as)) {
    const message = '--as and POSTE_AGENT name an agent: letters, digits, points, hyphens and underlines, at most 64';
    throw new CommandFailed('usage', 'USAGE', message);
  }
  const paths = ownPaths();
  const fault = daemonSocketFault(paths);
  if (fault !== undefined) throw new CommandFailed('failure', 'SOCKET_PATH_TOO_LONG', fault);
  const client = new DaemonClient(paths.socket, paths.store);
  const once = (): Promise<OutputOf<N>> => client.call(name, input, { ...options, as });
  try {
    return await once();
  } catch (error) {
    if (!flags.start || !(error instanceof CallFailed) || error.code !== 'DAEMON_NOT_RUNNING') throw hostFailure(error);
  }
  await startInBackground(paths);
  try {
    return await once();
  } catch (error) {
    throw hostFailure(error);
  }
}
