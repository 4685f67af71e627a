/** Calls of commands to the daemon: the flags they share, and how they start it when none is running. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync, renameSync } from 'node:fs';
import { setTimeout as elapsed } from 'node:timers/promises';
import { Command } from 'commander';
import { CallFailed, type CallOptions, DaemonClient } from '../../host/api/client.ts';
import type { InputOf, OperationName, OutputOf } from '../../host/api/operations.ts';
import { daemonSocketFault, type HostPaths, makePrivateFolder, ownPaths } from '../../host/base/paths.ts';
import { softwareVersion } from '../../lib/package-root.ts';
import { isAgentName } from '../../protocol/names.ts';
import { printable } from '../../protocol/printable.ts';
import { isListening } from '../../lib/unix-socket.ts';
import { agentOption, type CommandContext } from './context.ts';
import { CommandFailed, EXIT, type ExitName, exitOfStatus, usageFailure } from './exit.ts';
import { JSON_FLAG } from './format.ts';

export interface DaemonFlags {
  start?: boolean;
  json?: boolean;
}

export interface ActingFlags extends DaemonFlags {
  as?: string;
}

/** A command that asks the daemon, with `--start` and `--json`. */
export function daemonCommand(name: string): Command {
  return new Command(name).option('--start', 'start the daemon first if it is not running').option(...JSON_FLAG);
}

/** The same with `--as`. */
export function actingCommand(context: CommandContext, name: string): Command {
  return daemonCommand(name).addOption(agentOption(context, '--as <name>', 'the agent to act as; owner is you'));
}

/** Throws `CommandFailed` when the text of `flag` cannot be the name of an agent. */
export function requireAgentName(name: string, flag: string): void {
  if (isAgentName(name)) return;
  const message = `${flag} is not the name of an agent: use letters, digits, dots, hyphens and underscores, at most 64`;
  throw usageFailure(message);
}

/** Asks the daemon for an operation. Throws `CommandFailed`. */
export async function ask<N extends OperationName>(
  context: CommandContext,
  name: N,
  input: InputOf<N>,
  flags: ActingFlags,
  options: Omit<CallOptions, 'as'> = {},
): Promise<OutputOf<N>> {
  const { as } = flags;
  if (as !== undefined) requireAgentName(as, '--as or POSTE_AGENT');
  const paths = ownPaths(context);
  const fault = daemonSocketFault(paths);
  if (fault !== undefined) throw new CommandFailed('failure', 'SOCKET_PATH_TOO_LONG', fault);
  const client = new DaemonClient(paths.socket, paths.store, (version) => noteOtherVersion(context, version));
  const once = (): Promise<OutputOf<N>> => client.call(name, input, { ...options, as });
  try {
    return await once();
  } catch (error) {
    if (!flags.start || !(error instanceof CallFailed) || error.code !== 'DAEMON_NOT_RUNNING') throw callFailure(error);
  }
  await startInBackground(context, paths);
  try {
    return await once();
  } catch (error) {
    throw callFailure(error);
  }
}

/** A code says more than the status of the answer. */
const EXIT_OF_CODE: Readonly<Record<string, ExitName>> = {
  NOT_THE_OWNER: 'refused',
  SOCKET_NOT_TRUSTED: 'refused',
  DAEMON_GONE: 'temporary',
  DAEMON_SILENT: 'temporary',
};

/** The next step of a person after a refusal: the command that shows what there is. */
const NEXT_OF_CODE: Readonly<Record<string, string>> = {
  UNKNOWN_RECIPIENT: 'See poste agent list for all names',
  NO_SUCH_MESSAGE: 'See poste inbox --state all, or poste sent',
};

/** The end of the command when the daemon does not do what it asks for; every other error unchanged. */
export function callFailure(error: unknown): unknown {
  if (!(error instanceof CallFailed)) return error;
  const { code, status, message, details } = error;
  const exit = EXIT_OF_CODE[code] ?? (status === 413 ? 'usage' : exitOfStatus(status));
  const next = details['quarantine'] === undefined ? NEXT_OF_CODE[code] : undefined;
  // The daemon sends a whole sentence; `run` adds the full stop.
  const said = message.replace(/\.$/, '');
  return new CommandFailed(exit, code, next === undefined ? said : `${said}. ${next}`, details);
}

/** The commands that gave the warning. */
const noted = new WeakSet<CommandContext>();

/** After an upgrade the old daemon still runs. A command warns of it once, and only people. */
function noteOtherVersion(context: CommandContext, version: string): void {
  const own = softwareVersion();
  if (context.isJson || version === own || noted.has(context)) return;
  noted.add(context);
  const text = `the daemon that runs is version ${version}, and this command is ${own}: run poste daemon restart`;
  context.stderr.write(`poste: warning: ${printable(text)}.\n`);
}

/** The time that a daemon may take to answer after its start. */
export const START_MS = 20_000;
const LOOK_EVERY_MS = 25;

/** Throws `CommandFailed`. */
export async function startInBackground({ env, program }: CommandContext, paths: HostPaths): Promise<void> {
  makePrivateFolder(paths.dataFolder);
  if (existsSync(paths.logFile)) renameSync(paths.logFile, `${paths.logFile}.old`);
  const log = openSync(paths.logFile, 'a', 0o600);
  const child = spawn(process.execPath, [program, 'daemon'], {
    detached: true,
    stdio: ['ignore', log, log],
    cwd: '/',
    env,
  });
  closeSync(log);
  child.unref();
  const over = new AbortController();
  const ended = once(child, 'exit', { signal: over.signal }).then(
    ([code]) => code as number | null,
    () => undefined,
  );
  let exitCode: number | null | undefined;
  void ended.then((code) => {
    exitCode = code;
  });
  try {
    // Another command may start a daemon at the same time: then that one answers.
    const answers = await untilAnswered(paths, () => {
      if (exitCode !== undefined && exitCode !== EXIT.conflict)
        throw notStarted(lastLine(paths.logFile), paths.logFile);
    });
    if (!answers) throw notStarted('it does not answer', paths.logFile);
    // Ours came too late, and would serve as soon as the other frees the store: stop it before this command ends.
    const { pid } = await new DaemonClient(paths.socket, paths.store).call('status', {});
    if (pid !== child.pid && exitCode === undefined) {
      child.ref();
      child.kill();
      await ended;
    }
  } finally {
    over.abort();
  }
}

/** Waits for a daemon that a service starts; `log` is where that writes. Throws `CommandFailed`. */
export async function waitForDaemon(paths: HostPaths, log: string): Promise<void> {
  if (!(await untilAnswered(paths, () => undefined))) throw notStarted('it does not answer', log);
}

/** True when a daemon answered in time; `check` is called at each look. */
async function untilAnswered({ socket }: HostPaths, check: () => void): Promise<boolean> {
  const deadline = performance.now() + START_MS;
  while (!(await isListening(socket))) {
    check();
    if (performance.now() > deadline) return false;
    await elapsed(LOOK_EVERY_MS);
  }
  return true;
}

function notStarted(why: string, log: string): CommandFailed {
  return new CommandFailed('failure', 'DAEMON_NOT_STARTED', `the daemon did not start (${why}): see ${log}`);
}

function lastLine(file: string): string {
  const line = readFileSync(file, 'utf8').trimEnd().split('\n').at(-1) ?? '';
  return line.replace(/^poste: /, '').replace(/\.$/, '');
}
