/** `poste daemon install` and `uninstall`: the daemon as a service of its user, by systemd. */
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, isAbsolute } from 'node:path';
import { Command } from 'commander';
import { UNIT_NAME, isOwnUnit, unitPath, unitText } from '../../host/systemd-unit.ts';
import { runBounded } from '../../host/wake/processes.ts';
import { printable } from '../../protocol/printable.ts';
import { copyBeside, replaceFile } from '../../lib/files.ts';
import type { CommandContext } from '../lib/context.ts';
import { homeFolder } from '../lib/own-paths.ts';
import { CommandFailed } from '../lib/exit.ts';
import { findProgram } from '../lib/find-program.ts';
import { ownPaths } from '../lib/own-paths.ts';
import { jsonLine } from '../lib/format.ts';

interface UnitFlags {
  dryRun?: boolean;
  json?: boolean;
}

/** Longer than a service is given to stop. */
const SYSTEMCTL_MS = 60_000;
/** What is shown of the reason that systemctl gives. */
const SAID_LINES_MAX = 3;
const SAID_CHARACTERS_MAX = 500;
const LINGER_NOTICE =
  'The daemon runs while you are logged in; loginctl enable-linger keeps it running when you are not.';
const NO_SYSTEMCTL_NOTICE = 'There is no systemctl on this machine: systemd was not notified.';

/** What the command did, or would do. */
interface UnitChange {
  unit: string;
  changed: boolean;
  dry_run: boolean;
  /** The copy of a former unit. */
  backup: string | null;
  /** The commands of systemctl. */
  commands: string[];
  notices: string[];
  text?: string;
}

export function installCommand(context: CommandContext): Command {
  return withFlags(new Command('install').description('Install the daemon as a systemd service of your user.'))
    .addHelpText(
      'after',
      `
Writes the unit ${UNIT_NAME} to the folder systemd/user of your configuration, then enables and starts it. If a
different unit of that name exists, Poste copies it first. The service reads config.toml. From your environment it takes only
the folders of this host.

Examples:
  $ poste daemon install --dry-run
  $ poste daemon install`,
    )
    .action(async ({ dryRun, json }: UnitFlags) => print(context, await installUnit(context, dryRun), json));
}

export function uninstallCommand(context: CommandContext): Command {
  return withFlags(new Command('uninstall').description('Stop and remove that service.'))
    .addHelpText(
      'after',
      `
Your mail stays. A unit that poste did not write is not touched.

Examples:
  $ poste daemon uninstall --dry-run
  $ poste daemon uninstall`,
    )
    .action(async ({ dryRun, json }: UnitFlags) => print(context, await uninstallUnit(context, dryRun), json));
}

function withFlags(command: Command): Command {
  return command
    .option('--dry-run', 'only show what would be written and run')
    .option('--json', 'print what was done as one JSON document');
}

/** Throws `CommandFailed`. */
export async function installUnit(context: CommandContext, dryRun = false): Promise<UnitChange> {
  const { store } = ownPaths(context);
  if (!existsSync(store)) {
    throw new CommandFailed('notFound', 'STORE_ABSENT', `there is no store at ${store}: make one with poste init`);
  }
  const unit = unitPath(context.env, homeFolder(context));
  const text = ownUnitText(context);
  const before = textOf(unit);
  const changed = before !== text;
  let backup: string | null = null;
  if (changed && !dryRun) {
    backup = await writing(unit, async () => {
      mkdirSync(dirname(unit), { recursive: true });
      const copy = before === undefined ? null : copyBeside(unit, Date.now());
      await replaceFile(unit, text);
      return copy;
    });
  }
  const commands = [
    ['daemon-reload'],
    ['enable', UNIT_NAME],
    // A service that runs with an older unit is restarted.
    [changed ? 'restart' : 'start', UNIT_NAME],
  ];
  const notices = await orUndone(tellSystemd(context, commands, dryRun, 'nothing was installed'), async () => {
    if (!dryRun && changed) await putBack(context, unit, before, backup);
  });
  const done = { unit, changed, dry_run: dryRun, backup, commands: commands.map(shown), notices };
  return { ...done, notices: [...notices, LINGER_NOTICE], text };
}

/** Throws `CommandFailed`. */
export async function uninstallUnit(context: CommandContext, dryRun = false): Promise<UnitChange> {
  const unit = unitPath(context.env, homeFolder(context));
  const before = textOf(unit);
  if (before !== undefined && !isOwnUnit(before)) {
    throw new CommandFailed('conflict', 'UNIT_FOREIGN', `poste did not write ${unit}: remove it yourself`);
  }
  const done: UnitChange = {
    unit,
    changed: before !== undefined,
    dry_run: dryRun,
    backup: null,
    commands: [],
    notices: [],
  };
  if (before !== undefined) {
    const [stop, forget] = [['disable', '--now', UNIT_NAME], ['daemon-reload']];
    // Remove the unit even when systemctl fails: otherwise it could never be removed.
    const stopped = await settled(
      tellSystemd(context, [stop], dryRun, 'the unit is removed, but the service may still run'),
    );
    if (!dryRun) {
      await writing(unit, async () => {
        if (before !== ownUnitText(context)) done.backup = copyBeside(unit, Date.now());
        rmSync(unit);
      });
    }
    if (stopped instanceof Error) throw stopped;
    done.commands = [stop, forget].map(shown);
    done.notices = await tellSystemd(
      context,
      [forget],
      dryRun,
      'the unit is removed, but systemd does not know it yet',
    );
  }
  return done;
}

function ownUnitText(context: CommandContext): string {
  const { POSTE_HOME, XDG_CONFIG_HOME, XDG_DATA_HOME } = context.env;
  const folders = { XDG_CONFIG_HOME, XDG_DATA_HOME };
  const named = Object.entries(folders).filter((entry): entry is [string, string] => isAbsolute(entry[1] ?? ''));
  const environment: Record<string, string> = POSTE_HOME
    ? { POSTE_HOME: ownPaths(context).dataFolder }
    : Object.fromEntries(named);
  try {
    return unitText({ node: process.execPath, main: context.program, environment });
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new CommandFailed('failure', 'UNIT_IMPOSSIBLE', `${error.message}: use paths without control characters`);
  }
}

function textOf(unit: string): string | undefined {
  try {
    return readFileSync(unit, 'utf8');
  } catch (error) {
    const { code = 'unknown error' } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    throw new CommandFailed(
      'failure',
      'UNIT_UNREADABLE',
      `${unit} cannot be read (${code}): repair that and try again`,
    );
  }
}

async function writing<T>(unit: string, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new CommandFailed(
      'failure',
      'UNIT_UNWRITABLE',
      `${unit} cannot be written (${code}): repair that and try again`,
    );
  }
}

/** Undoes what was done before when `doing` fails; its own failure is the one that is thrown. */
async function orUndone<T>(doing: Promise<T>, undo: () => Promise<void>): Promise<T> {
  try {
    return await doing;
  } catch (error) {
    await undo();
    throw error;
  }
}

/** Restores the former unit after an install that failed, and reloads systemd, even if that fails too. */
async function putBack(
  context: CommandContext,
  unit: string,
  before: string | undefined,
  backup: string | null,
): Promise<void> {
  await writing(unit, async () => {
    if (before !== undefined) return replaceFile(unit, before);
    await settled(tellSystemd(context, [['disable', UNIT_NAME]], false, ''));
    return rmSync(unit);
  });
  if (backup !== null) rmSync(backup, { force: true });
  await settled(tellSystemd(context, [['daemon-reload']], false, ''));
}

/** Returns what the user should know. Throws `CommandFailed` with `outcome` and systemd's own words when it refuses. */
async function tellSystemd(
  context: CommandContext,
  commands: readonly string[][],
  dryRun: boolean,
  outcome: string,
): Promise<string[]> {
  const systemctl = findProgram('systemctl', context.env['PATH']);
  if (systemctl === undefined) return [NO_SYSTEMCTL_NOTICE];
  if (dryRun) return [];
  for (const words of commands) {
    const options = { timeoutMs: SYSTEMCTL_MS, signal: new AbortController().signal };
    const { code, stderr } = await runBounded(systemctl, ['--user', ...words], options);
    if (code === 0) continue;
    const ended = code === null ? 'did not end in time' : `ended with ${code}`;
    const said = lastLines(stderr);
    const why = said === '' ? 'run it yourself to see why' : said;
    throw new CommandFailed('failure', 'SYSTEMCTL_FAILED', `${outcome}, as ${shown(words)} ${ended}: ${why}`);
  }
  return [];
}

/** The end of what a program said, on one line. */
function lastLines(text: string): string {
  const lines = text.split('\n').flatMap((line) => (line.trim() === '' ? [] : [line.trim()]));
  return printable(lines.slice(-SAID_LINES_MAX).join(' ')).slice(0, SAID_CHARACTERS_MAX).replace(/\.$/, '');
}

async function settled<T>(promise: Promise<T>): Promise<T | Error> {
  try {
    return await promise;
  } catch (error) {
    if (error instanceof CommandFailed) return error;
    throw error;
  }
}

function shown(words: readonly string[]): string {
  return ['systemctl', '--user', ...words].join(' ');
}

function print(context: CommandContext, change: UnitChange, json = false): void {
  if (json) context.stdout.write(jsonLine(change));
  else context.stdout.write(sentences(change));
}

function sentences({ unit, changed, dry_run, backup, commands, notices, text }: UnitChange): string {
  const said = notices.map((notice) => `${notice}\n`).join('');
  if (dry_run) {
    const file = text === undefined ? 'removed' : `this:\n${text}`;
    const written = changed ? `${unit} would be ${file}` : `${unit} would stay as it is`;
    return [written.trimEnd(), ...commands.map((command) => `Would run: ${command}`), said].join('\n');
  }
  const state = text === undefined ? 'is removed' : 'is written';
  const done = changed
    ? `${unit} ${state}.\n`
    : `${unit} ${text === undefined ? 'is not there' : 'is as it should be'}.\n`;
  return `${done}${backup === null ? '' : `The previous version is ${backup}.\n`}${said}`;
}
