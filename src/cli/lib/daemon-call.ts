/** Calls of commands to the daemon, and the flags they share. */
import { type Command, Option } from 'commander';
import { CallFailed, type CallOptions, DaemonClient } from '../../host/api/client.ts';
import type { InputOf, OperationName, OutputOf } from '../../host/api/operations.ts';
import { daemonSocketFault, ownPaths } from '../../host/base/paths.ts';
import { OWNER_NAME } from '../../host/core/address.ts';
import { softwareVersion } from '../../lib/package-root.ts';
import { isAgentName } from '../../protocol/names.ts';
import { printable } from '../../protocol/printable.ts';
import { CommandDraft } from './command-draft.ts';
import type { CommandContext } from './context.ts';
import { startServiceOrDaemon } from './daemon-start.ts';
import { CommandFailed, type ExitName, exitOfStatus, usageFailure } from './exit.ts';
import { JSON_FLAG } from './format.ts';
import { note } from './output.ts';
import { mayStart } from './start-choice.ts';

export interface DaemonFlags {
  /** Start the daemon when none runs. */
  start?: boolean;
  json?: boolean;
}

export interface ActingFlags extends DaemonFlags {
  as?: string;
}

/** The flag by which commands started the daemon before they did it by themselves: settings of programs have it. */
export function startOption({ env }: CommandContext): Option {
  return new Option('--start', 'start the daemon first if it is not running').default(mayStart(env)).hideHelp();
}

/** A command that asks the daemon, and starts one that does not run. */
export function daemonCommand(context: CommandContext, name: string): CommandDraft<[], DaemonFlags> {
  return new CommandDraft(context, name).takes<DaemonFlags>(startOption(context)).option(...JSON_FLAG);
}

/** The same with `--as`. */
export function actingCommand(context: CommandContext, name: string): CommandDraft<[], ActingFlags> {
  return daemonCommand(context, name).agent('--as <name>', 'the agent to act as; owner is you');
}

/** Programs of agents set these for the commands that they run: some of them give these a terminal. */
export const AGENT_VARIABLES = [
  'AGENT',
  'AI_AGENT',
  'ANTIGRAVITY_AGENT',
  'AUGMENT_AGENT',
  'CLAUDECODE',
  'CLINE_ACTIVE',
  'CODEX_CI',
  'CODEX_SANDBOX',
  'CODEX_THREAD_ID',
  'COPILOT_CLI',
  'CRUSH',
  'CURSOR_AGENT',
  'GEMINI_CLI',
  'GOOSE_TERMINAL',
  'OPENCODE',
  'QWEN_CODE',
];

/**
 * True when a person reads at this terminal, and types there, as far as it can be told: the program of an agent may
 * give a command a terminal and none of these variables. So what sends mail does not ask this.
 */
function isPersonHere({ stdin, stdout, env }: CommandContext): boolean {
  return stdout.isTTY === true && stdin.isTTY === true && AGENT_VARIABLES.every((name) => !env[name]);
}

/**
 * A command, which sends no mail, about one mailbox: that of `--as`, else of POSTE_AGENT, else the owner's, where a
 * person asks.
 */
export function mailboxCommand(
  context: CommandContext,
  name: string,
  description = 'the agent to act as',
): CommandDraft<[], ActingFlags> {
  const byDefault = 'POSTE_AGENT; without it, at a terminal: owner, that is you';
  const draft = daemonCommand(context, name).agent('--as <name>', description, byDefault);
  draft.command.hook('preAction', (self) => {
    if (self.opts<ActingFlags>().as !== undefined || !isPersonHere(context)) return;
    self.setOptionValueWithSource('as', OWNER_NAME, 'default');
  });
  return draft;
}

/** Takes from a command that only looks at the running daemon that it starts one. */
export function startingNone<Draft extends { command: Command }>(draft: Draft): Draft {
  draft.command.setOptionValueWithSource('start', false, 'default');
  return draft;
}

/** Throws `CommandFailed` when the text of `flag` cannot be the name of an agent. */
export function requireAgentName(name: string, flag: string): void {
  if (isAgentName(name)) return;
  const message = `${flag} is not the name of an agent: use letters, digits, dots, hyphens and underscores, at most 64`;
  throw usageFailure(message);
}

/** Returns the agent that a command is, as `flag` or POSTE_AGENT names it. Throws `CommandFailed`. */
export function requireAgent(name: string | undefined, flag: string, owner = 'owner is a person'): string {
  if (name === undefined || name === '') throw usageFailure(`no agent given: use ${flag} NAME or POSTE_AGENT`);
  requireAgentName(name, `${flag} or POSTE_AGENT`);
  if (name.toLowerCase() === OWNER_NAME) throw usageFailure(`${owner}: name an agent with ${flag}`);
  return name;
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
  const onVersion = (version: string): void => noteOtherVersion(context, version);
  const client = new DaemonClient(paths.socket, paths.store, { onVersion });
  const once = (): Promise<OutputOf<N>> => client.call(name, input, { ...options, as });
  try {
    return await once();
  } catch (error) {
    if (!flags.start || !(error instanceof CallFailed) || error.code !== 'DAEMON_NOT_RUNNING') throw callFailure(error);
  }
  try {
    await startServiceOrDaemon(context, paths, () => note(context, 'starting the daemon; poste daemon stop ends it'));
    return await once();
  } catch (error) {
    throw callFailure(error);
  }
}

/** The daemon that answers at this host's socket; `undefined` when none runs. Throws `CommandFailed`. */
export async function runningDaemon(context: CommandContext): Promise<OutputOf<'status'> | undefined> {
  try {
    return await ask(context, 'status', {}, {});
  } catch (error) {
    if (error instanceof CommandFailed && error.code === 'DAEMON_NOT_RUNNING') return undefined;
    throw error;
  }
}

/** Returns how long a call may be silent in which the daemon waits so long. */
export function silenceOf(waitMs: number): Pick<CallOptions, 'silenceMs'> {
  return { silenceMs: waitMs + 15_000 };
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
  if (context.isJson || context.isQuiet || version === own || noted.has(context)) return;
  noted.add(context);
  const text = `the daemon that runs is version ${version}, and this command is ${own}: run poste daemon restart`;
  context.stderr.write(`poste: warning: ${printable(text)}.\n`);
}
