/**
 * The program that starts the daemon with its user's session, and again when it fails: systemd, or launchd on macOS.
 * Each is a file and the commands of a program.
 */
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { isAbsolute } from 'node:path';
import { getuid } from 'node:process';
import {
  AGENT_FILE,
  AGENT_LABEL,
  agentText,
  type ServiceFile,
  UNIT_FILE,
  UNIT_NAME,
  unitText,
} from '../../host/service-files.ts';
import { ownPaths, runtimeFolder } from '../../host/base/paths.ts';
import { type Environment, HomeUnknown } from '../../lib/user-folders.ts';
import { runBounded } from '../../host/wake/processes.ts';
import { printableWithin } from '../../protocol/printable.ts';
import type { CommandContext } from './context.ts';
import { CommandFailed } from './exit.ts';
import { findProgram } from './find-program.ts';

/** The words after the program. */
export interface ServiceCommand {
  words: readonly string[];
  /** It fails where there is nothing to end, and that is as well. */
  mayFail?: true;
}

export interface ServiceManager extends Omit<ServiceFile, 'path'> {
  /** The name that people use. */
  name: 'systemd' | 'launchd';
  program: 'systemctl' | 'launchctl';
  file: string;
  /** Makes the text of the file. Throws `CommandFailed`. */
  text: () => string;
  /** The commands after the file was written; `isNew` when it says something else than before. */
  install: (isNew: boolean) => ServiceCommand[];
  /** Ends the service, while its file is there. */
  remove: ServiceCommand[];
  /** The commands after the file has gone, or is what it was before. */
  forget: ServiceCommand[];
  /** Undoes `install` before the file goes. */
  unregister: ServiceCommand[];
  stop: ServiceCommand[];
  start: ServiceCommand[];
  /** Prints `failed` when the service ended, and is not started again by itself. */
  state?: ServiceCommand;
  /** A sentence for the owner. */
  notice: string;
}

/** A time longer than a service is given to stop. */
const MANAGER_MS = 60_000;
/** The longest part of the program's reason that is shown. */
const SAID_LINES_MAX = 3;
const SAID_CHARACTERS_MAX = 500;

export function serviceManager(context: CommandContext): ServiceManager {
  return context.platform === 'darwin' ? launchd(context) : systemd(context);
}

/** True when there is a file of the service: never without a home folder. */
export function isServiceThere(context: CommandContext): boolean {
  try {
    return existsSync(serviceManager(context).file);
  } catch (error) {
    if (error instanceof HomeUnknown) return false;
    throw error;
  }
}

interface OwnService {
  manager: ServiceManager;
  words: string[];
  environment: Environment;
}

/** The service that poste installed here, and what it runs; `undefined` when there is none. Throws `CommandFailed`. */
export function ownService(context: CommandContext): OwnService | undefined {
  if (!isServiceThere(context)) return undefined;
  const manager = serviceManager(context);
  const text = fileText(manager.file);
  if (text === undefined || !manager.isOwn(text)) return undefined;
  return { manager, words: manager.words(text), environment: manager.environment(text) };
}

/** The manager of that service, if it serves this host and its program is on PATH. Throws `CommandFailed`. */
export function installedService(context: CommandContext): ServiceManager | undefined {
  const service = ownService(context);
  if (!service || findProgram(service.manager.program, context.env['PATH']) === undefined) return undefined;
  return otherHost(context) === undefined ? service.manager : undefined;
}

/** The folder of another host of this user, which the service that poste installed serves. Throws `CommandFailed`. */
export function otherHost(context: CommandContext): string | undefined {
  const service = ownService(context);
  if (!service) return undefined;
  const { HOME, XDG_RUNTIME_DIR } = context.env;
  const { dataFolder } = ownPaths({ env: { HOME, XDG_RUNTIME_DIR, ...service.environment } });
  return realFolder(dataFolder) === realFolder(ownPaths(context).dataFolder) ? undefined : dataFolder;
}

/** A folder may have two names, as one too long for a socket has. */
function realFolder(folder: string): string {
  return existsSync(folder) ? realpathSync(folder) : folder;
}

/** The text of the file of a service; `undefined` when there is none. Throws `CommandFailed`. */
export function fileText(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const { code = 'unknown error' } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    const message = `${file} cannot be read (${code}): repair that and try again`;
    throw new CommandFailed('failure', 'UNIT_UNREADABLE', message);
  }
}

function user(...words: string[]): ServiceCommand {
  return { words: ['--user', ...words] };
}

function systemd(context: CommandContext): ServiceManager {
  return {
    name: 'systemd',
    program: 'systemctl',
    ...UNIT_FILE,
    file: UNIT_FILE.path(context.env),
    text: () =>
      serviceText(() => unitText({ node: process.execPath, main: context.program, environment: folders(context) })),
    // A service that runs with an older unit is restarted.
    install: (isNew) => [
      user('daemon-reload'),
      user('enable', UNIT_NAME),
      user(isNew ? 'restart' : 'start', UNIT_NAME),
    ],
    remove: [user('disable', '--now', UNIT_NAME)],
    forget: [user('daemon-reload')],
    unregister: [user('disable', UNIT_NAME)],
    stop: [user('stop', UNIT_NAME)],
    start: [user('start', UNIT_NAME)],
    state: user('is-failed', UNIT_NAME),
    notice: 'The daemon runs while you are logged in; loginctl enable-linger keeps it running when you are not.',
  };
}

function launchd(context: CommandContext): ServiceManager {
  const { logFile } = ownPaths(context);
  const file = AGENT_FILE.path(context.env);
  const domain = `gui/${getuid?.() ?? 0}`;
  const target = `${domain}/${AGENT_LABEL}`;
  const end: ServiceCommand = { words: ['bootout', target], mayFail: true };
  const load: ServiceCommand = { words: ['bootstrap', domain, file] };
  const start: ServiceCommand = { words: ['kickstart', target] };
  return {
    name: 'launchd',
    program: 'launchctl',
    ...AGENT_FILE,
    file,
    text: () =>
      serviceText(() =>
        agentText({ node: process.execPath, main: context.program, environment: folders(context), logFile }),
      ),
    install: (isNew) => [
      ...(isNew ? [end] : []),
      { words: ['enable', target] },
      // An agent that is loaded cannot be loaded again; it is started below.
      isNew ? load : { ...load, mayFail: true },
      start,
    ],
    remove: [end],
    forget: [],
    unregister: [end],
    stop: [{ words: ['kill', 'SIGTERM', target] }],
    start: [{ ...load, mayFail: true }, start],
    notice: 'The daemon runs while you are logged in.',
  };
}

/** The variables that lead to this host's files, where a service would not have them. */
function folders(context: CommandContext): Record<string, string> {
  const { POSTE_HOME, XDG_CONFIG_HOME, XDG_DATA_HOME } = context.env;
  if (POSTE_HOME) return { POSTE_HOME: ownPaths(context).dataFolder };
  const named = Object.entries({ XDG_CONFIG_HOME, XDG_DATA_HOME });
  return Object.fromEntries(named.filter((entry): entry is [string, string] => isAbsolute(entry[1] ?? '')));
}

function serviceText(made: () => string): string {
  try {
    return made();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new CommandFailed('failure', 'UNIT_IMPOSSIBLE', `${error.message}: use paths without control characters`);
  }
}

/** A command as a person would type it. */
export function shownCommand({ program }: ServiceManager, { words }: ServiceCommand): string {
  return [program, ...words].join(' ');
}

/**
 * Runs the commands, one after another. Returns whether the program is there. Throws `CommandFailed` with `outcome` and
 * the program's own words when it refuses.
 */
export async function tellManager(
  context: CommandContext,
  manager: ServiceManager,
  commands: readonly ServiceCommand[],
  outcome: string,
): Promise<boolean> {
  const program = findProgram(manager.program, context.env['PATH']);
  if (program === undefined) return false;
  for (const command of commands) {
    const { code, stderr } = await ranManager(context, program, command);
    if (code === 0 || command.mayFail) continue;
    const ended = code === null ? 'did not end in time' : `ended with ${code}`;
    const said = lastLines(stderr);
    const why = said === '' ? 'run it yourself to see why' : said;
    const message = `${outcome}, as ${shownCommand(manager, command)} ${ended}: ${why}`;
    throw new CommandFailed('failure', 'SYSTEMCTL_FAILED', message);
  }
  return true;
}

/** The commands, for a caller who goes on when they fail. */
export function mayFail(commands: readonly ServiceCommand[]): ServiceCommand[] {
  return commands.map((command) => ({ ...command, mayFail: true }));
}

/** True when the service ended, as with wrong settings, and will not be started again by itself. */
export async function hasFailed(context: CommandContext, { program: name, state }: ServiceManager): Promise<boolean> {
  const program = findProgram(name, context.env['PATH']);
  if (program === undefined || state === undefined) return false;
  return (await ranManager(context, program, state)).stdout.trim() === 'failed';
}

function ranManager(
  context: CommandContext,
  program: string,
  { words }: ServiceCommand,
): ReturnType<typeof runBounded> {
  // systemctl finds its manager by this, which a command of cron has not.
  const runtime = runtimeFolder(context.env);
  const environment = runtime === undefined ? {} : { XDG_RUNTIME_DIR: runtime };
  return runBounded(program, words, { timeoutMs: MANAGER_MS, signal: new AbortController().signal, environment });
}

/** The end of what a program said, on one line. */
function lastLines(text: string): string {
  const lines = text.split('\n').flatMap((line) => (line.trim() === '' ? [] : [line.trim()]));
  return printableWithin(lines.slice(-SAID_LINES_MAX).join(' '), SAID_CHARACTERS_MAX).replace(/\.$/, '');
}
