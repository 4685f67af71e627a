/** `poste daemon install` and `uninstall`: the daemon as a service of its user, by systemd or launchd. */
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Command } from 'commander';
import { ownPaths } from '../../host/base/paths.ts';
import { copyBeside, replaceFile } from '../../lib/files.ts';
import { CommandDraft } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed } from '../lib/exit.ts';
import { formatLines, JSON_FLAG } from '../lib/format.ts';
import {
  type ServiceCommand,
  type ServiceManager,
  fileText,
  mayFail,
  otherHost,
  serviceManager,
  shownCommand,
  tellManager,
} from '../lib/service-manager.ts';

/** The change that the command made, or would make. */
interface ServiceChange {
  /** The file of the service. */
  unit: string;
  changed: boolean;
  dry_run: boolean;
  /** The copy of a former file. */
  backup: string | null;
  /** The commands that the service manager gets. */
  commands: string[];
  notices: string[];
  text?: string;
}

const INSTALL_NOTES = `
Writes the unit poste.service to the folder systemd/user of your configuration, on macOS the agent org.poste.daemon to
~/Library/LaunchAgents, and starts it. If a different file of that name exists, Poste copies it first. The service reads
config.toml. From your environment it takes only the folders of this host.

Examples:
  $ poste daemon install --dry-run
  $ poste daemon install`;

export function installCommand(context: CommandContext): Command {
  const about = 'Install the daemon as a service of your user.';
  return serviceCommand(context, 'install', about, INSTALL_NOTES, installService);
}

const UNINSTALL_NOTES = `
Your mail stays. A file that poste did not write is not touched.

Examples:
  $ poste daemon uninstall --dry-run
  $ poste daemon uninstall`;

export function uninstallCommand(context: CommandContext): Command {
  return serviceCommand(context, 'uninstall', 'Stop that service, and remove it.', UNINSTALL_NOTES, uninstallService);
}

function serviceCommand(
  context: CommandContext,
  name: string,
  about: string,
  notes: string,
  change: typeof installService,
): Command {
  return new CommandDraft(context, name)
    .description(about)
    .option('--dry-run', 'only show what would be written and run')
    .option(...JSON_FLAG)
    .notes(notes)
    .answers(({ dryRun }) => change(context, dryRun))
    .prints(sentences);
}

/** One user has one service. Throws `CommandFailed` where it is that of another host. */
function requireOwnHost(context: CommandContext): void {
  const folder = otherHost(context);
  if (folder === undefined) return;
  const message = `${serviceManager(context).file} is the service of another host, in ${folder}, and stays as it is`;
  throw new CommandFailed('conflict', 'SERVICE_OF_ANOTHER_HOST', message);
}

/** Throws `CommandFailed`. */
export async function installService(context: CommandContext, dryRun = false): Promise<ServiceChange> {
  const { store } = ownPaths(context);
  if (!existsSync(store)) {
    throw new CommandFailed('notFound', 'STORE_ABSENT', `there is no store at ${store}: make one with poste init`);
  }
  requireOwnHost(context);
  const manager = serviceManager(context);
  const { file } = manager;
  const text = manager.text();
  const before = fileText(file);
  const changed = before !== text;
  let backup: string | null = null;
  if (changed && !dryRun) {
    backup = await writing(file, async () => {
      mkdirSync(dirname(file), { recursive: true });
      const copy = before === undefined ? null : copyBeside(file, Date.now());
      await replaceFile(file, text);
      return copy;
    });
  }
  const commands = manager.install(changed);
  const told = tell(context, manager, commands, { dryRun, outcome: 'nothing was installed' });
  const notices = await told.catch(async (error: unknown) => {
    if (!dryRun && changed) await putBack(context, manager, before, backup);
    throw error;
  });
  const done = { unit: file, changed, dry_run: dryRun, backup, commands: commandTexts(manager, commands) };
  return { ...done, notices: [...notices, manager.notice], text };
}

/** Throws `CommandFailed`. */
export async function uninstallService(context: CommandContext, dryRun = false): Promise<ServiceChange> {
  requireOwnHost(context);
  const manager = serviceManager(context);
  const { file, remove, forget } = manager;
  const before = fileText(file);
  if (before !== undefined && !manager.isOwn(before)) {
    throw new CommandFailed('conflict', 'UNIT_FOREIGN', `poste did not write ${file}: remove it yourself`);
  }
  const done: ServiceChange = {
    unit: file,
    changed: before !== undefined,
    dry_run: dryRun,
    backup: null,
    commands: [],
    notices: [],
  };
  if (before !== undefined) {
    const stays = 'the unit is removed, but the service may still run';
    try {
      await tell(context, manager, remove, { dryRun, outcome: stays });
    } finally {
      // The file goes even when the manager fails: otherwise it could never be removed.
      if (!dryRun) {
        await writing(file, async () => {
          if (before !== manager.text()) done.backup = copyBeside(file, Date.now());
          rmSync(file);
        });
      }
    }
    done.commands = commandTexts(manager, [...remove, ...forget]);
    const outcome = `the unit is removed, but ${manager.name} does not know it yet`;
    done.notices = await tell(context, manager, forget, { dryRun, outcome });
  }
  return done;
}

async function writing<T>(file: string, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    const message = `${file} cannot be written (${code}): repair that and try again`;
    throw new CommandFailed('failure', 'UNIT_UNWRITABLE', message);
  }
}

/** Restores the former file after an install that failed, and tells the manager, even if that fails too. */
async function putBack(
  context: CommandContext,
  manager: ServiceManager,
  before: string | undefined,
  backup: string | null,
): Promise<void> {
  const { file, unregister, forget } = manager;
  await writing(file, async () => {
    if (before !== undefined) return replaceFile(file, before);
    await tellManager(context, manager, mayFail(unregister), '');
    return rmSync(file);
  });
  if (backup !== null) rmSync(backup, { force: true });
  await tellManager(context, manager, mayFail(forget), '');
}

/** Returns what the user should know. */
async function tell(
  context: CommandContext,
  manager: ServiceManager,
  commands: readonly ServiceCommand[],
  { dryRun, outcome }: { dryRun: boolean; outcome: string },
): Promise<string[]> {
  const isThere = await tellManager(context, manager, dryRun ? [] : commands, outcome);
  if (isThere) return [];
  return [`There is no ${manager.program} on this machine: ${manager.name} was not notified.`];
}

function commandTexts(manager: ServiceManager, commands: readonly ServiceCommand[]): string[] {
  return commands.map((command) => shownCommand(manager, command));
}

function sentences({ unit, changed, dry_run, backup, commands, notices, text }: ServiceChange): string {
  if (dry_run) {
    const file = text === undefined ? ['removed'] : ['this:', ...text.trimEnd().split('\n')];
    const [is = '', ...rest] = changed ? file : [];
    const written = changed ? `${unit} would be ${is}` : `${unit} would stay as it is`;
    return formatLines([written, ...rest, ...commands.map((command) => `Would run: ${command}`), ...notices]);
  }
  const [changes, stays] = text === undefined ? ['removed', 'not there'] : ['written', 'as it should be'];
  const previous = backup === null ? [] : [`The previous version is ${backup}.`];
  return formatLines([`${unit} is ${changed ? changes : stays}.`, ...previous, ...notices]);
}
