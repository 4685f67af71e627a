/** `poste daemon install` and `uninstall`: the daemon as a service of its user, by systemd. */
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, isAbsolute } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Command } from 'commander';
import { UNIT_NAME, isOwnUnit, unitPath, unitText } from '../host/systemd-unit.ts';
import { runBounded } from '../host/wake/run-bounded.ts';
import { copyBeside, replaceFile } from '../system/replace-file.ts';
import { CommandFailed } from './exit.ts';
import { findProgram } from './find-program.ts';
import { ownPaths } from './host-place.ts';
import { jsonLine } from './text.ts';

interface UnitFlags {
  dryRun?: boolean;
  json?: boolean;
}

/** Longer than a service is given to stop. */
const SYSTEMCTL_MS = 60_000;
const LINGER_NOTICE =
  'The daemon runs while you are logged in; loginctl enable-linger keeps it running when you are not.';
const NO_SYSTEMCTL_NOTICE = 'There is no systemctl here: nothing was told to systemd.';

/** What was done, or would be. */
interface UnitChange {
  unit: string;
  changed: boolean;
  dry_run: boolean;
  /** A copy of the unit that was there and is not any more. */
  backup: string | null;
  /** What systemd is told. */
  commands: string[];
  notices: string[];
  text?: string;
}

export function installCommand(): Command {
  return withFlags(new Command('install').description('Run the daemon as a service of yours, by systemd.'))
    .addHelpText(
      'after',
      `
Writes the unit ${UNIT_NAME} to the folder systemd/user of your configuration, and enables and starts it. A unit of
that name which says something else is copied before. The service reads config.toml, and of your environment only where
this host lies.

Examples:
  $ poste daemon install --dry-run
  $ poste daemon install`,
    )
    .action(async (flags: UnitFlags) => install(flags));
}

export function uninstallCommand(): Command {
  return withFlags(new Command('uninstall').description('Stop that service, and take it away.'))
    .addHelpText(
      'after',
      `
The mail stays where it is. A unit that poste did not write is left alone.

Examples:
  $ poste daemon uninstall --dry-run
  $ poste daemon uninstall`,
    )
    .action(async (flags: UnitFlags) => uninstall(flags));
}

function withFlags(command: Command): Command {
  return command
    .option('--dry-run', 'only show what would be written and run')
    .option('--json', 'print what was done as one JSON document');
}

async function install({ dryRun = false, json }: UnitFlags): Promise<void> {
  const { store } = ownPaths();
  if (!existsSync(store)) {
    throw new CommandFailed('notFound', 'STORE_ABSENT', `there is no store at ${store}: make one with poste init`);
  }
  const unit = unitPath(process.env, homedir());
  const text = ownUnitText();
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
    // One that runs by an older unit is begun anew.
    [changed ? 'restart' : 'start', UNIT_NAME],
  ];
  const notices = await tellSystemd(commands, dryRun, `the unit is at ${unit}`);
  const done = { unit, changed, dry_run: dryRun, backup, commands: commands.map(shown), notices };
  print({ ...done, notices: [...notices, LINGER_NOTICE], text }, json);
}

async function uninstall({ dryRun = false, json }: UnitFlags): Promise<void> {
  const unit = unitPath(process.env, homedir());
  const before = textOf(unit);
  if (before !== undefined && !isOwnUnit(before)) {
    throw new CommandFailed('conflict', 'UNIT_FOREIGN', `${unit} was not written by poste: take it away yourself`);
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
    // The unit goes also where systemd cannot be told: otherwise it could never be taken away.
    const stopped = await settled(tellSystemd([stop], dryRun, 'the unit is removed'));
    if (!dryRun) {
      await writing(unit, async () => {
        if (before !== ownUnitText()) done.backup = copyBeside(unit, Date.now());
        rmSync(unit);
      });
    }
    if (stopped instanceof Error) throw stopped;
    done.commands = [stop, forget].map(shown);
    done.notices = await tellSystemd([forget], dryRun, 'the unit is removed');
  }
  print(done, json);
}

function ownUnitText(): string {
  const { POSTE_HOME, XDG_CONFIG_HOME, XDG_DATA_HOME } = process.env;
  const folders = { XDG_CONFIG_HOME, XDG_DATA_HOME };
  const named = Object.entries(folders).filter((entry): entry is [string, string] => isAbsolute(entry[1] ?? ''));
  const environment: Record<string, string> = POSTE_HOME
    ? { POSTE_HOME: ownPaths().dataFolder }
    : Object.fromEntries(named);
  const main = fileURLToPath(new URL('main.js', import.meta.url));
  try {
    return unitText({ node: process.execPath, main, environment });
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
    throw new CommandFailed('failure', 'UNIT_UNREADABLE', `${unit} cannot be read (${code}): mend that and try again`);
  }
}

async function writing<T>(unit: string, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new CommandFailed('failure', 'UNIT_UNWRITABLE', `${unit} cannot be written (${code}): mend that, try again`);
  }
}

/** Returns what the user should know. Throws `CommandFailed` with what was done before, when systemd does not do it. */
async function tellSystemd(commands: readonly string[][], dryRun: boolean, done: string): Promise<string[]> {
  const systemctl = findProgram('systemctl', process.env['PATH']);
  if (systemctl === undefined) return [NO_SYSTEMCTL_NOTICE];
  if (dryRun) return [];
  for (const words of commands) {
    const options = { timeoutMs: SYSTEMCTL_MS, signal: new AbortController().signal };
    const { code } = await runBounded(systemctl, ['--user', ...words], options);
    if (code === 0) continue;
    const ended = code === null ? 'did not end in time' : `ended with ${code}`;
    const message = `${done}, but ${shown(words)} ${ended}: run it yourself to see why`;
    throw new CommandFailed('failure', 'SYSTEMCTL_FAILED', message);
  }
  return [];
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

function print(change: UnitChange, json = false): void {
  if (json) process.stdout.write(jsonLine(change));
  else process.stdout.write(sentences(change));
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
  return `${done}${backup === null ? '' : `What it was is in ${backup}.\n`}${said}`;
}
