/** `poste hooks`: adds Poste's hooks to the settings of programs that run agents, removes them, and runs as the hook. */
import { join } from 'node:path';
import { Argument, Command, Option } from 'commander';
import { HOOK_PROGRAMS, type HookProgram, type HookProgramName, PROGRAM_OF } from '../../host/hooks/programs.ts';
import {
  changedText,
  claudeNotices,
  codexNotices,
  hookCommand,
  readSettings,
  type SettingsFile,
  SettingsRefused,
  withHooks,
  withoutHooks,
  writeSettings,
} from '../../host/hooks/settings.ts';
import { type CommandContext, agentOption } from '../lib/context.ts';
import { homeFolder } from '../lib/own-paths.ts';
import { requireAgentName } from '../lib/daemon-call.ts';
import { CommandFailed } from '../lib/exit.ts';
import { ownPaths } from '../lib/own-paths.ts';
import { jsonLine } from '../lib/format.ts';
import { runAsHook } from './run-as-hook.ts';

const NOTES = `
The hooks say when a session of an agent begins, works, is idle and ends, tell the agent how many messages wait, and
wake it when it is idle. Whose sessions they are is said by --agent, or by POSTE_AGENT in a session's environment; a
session without either is left alone. What else stands in the settings stays, and a copy is kept beside them.

Examples:
  $ poste hooks install claude-code --agent backend --dry-run
  $ poste hooks install claude-code --agent backend
  $ poste hooks install codex
  $ poste hooks uninstall codex`;

export function hooksCommand(context: CommandContext): Command {
  return new Command('hooks')
    .addCommand(installCommand(context))
    .addCommand(uninstallCommand(context))
    .addCommand(runCommand(context))
    .addHelpText('after', NOTES);
}

interface ChangeFlags {
  agent?: string;
  dryRun?: boolean;
  json?: boolean;
}

function programArgument(): Argument {
  return new Argument('<program>', 'claude-code or codex').choices(HOOK_PROGRAMS);
}

function installedAgentOption(): Option {
  return new Option('--agent <name>', 'the agent that runs in these sessions (default: POSTE_AGENT of each session)');
}

function withChangeFlags(command: Command): Command {
  return command
    .option('--dry-run', 'only show what would change')
    .option('--json', 'print what was changed as one JSON document');
}

function installCommand(context: CommandContext): Command {
  const command = new Command('install').description('Add the hooks to the settings of a program.');
  return withChangeFlags(command.addArgument(programArgument()).addOption(installedAgentOption()))
    .addHelpText('after', '\nExample:\n  $ poste hooks install claude-code --agent backend --dry-run')
    .action(async (name: HookProgramName, flags: ChangeFlags) => {
      const { agent } = flags;
      if (agent !== undefined) requireAgentName(agent, '--agent');
      const home = context.env['POSTE_HOME'] ? ownPaths(context).dataFolder : undefined;
      const command = hookCommand({ program: name, node: process.execPath, main: context.program, agent, home });
      await change(
        context,
        PROGRAM_OF[name],
        flags,
        (settings) => withHooks(settings, PROGRAM_OF[name], command),
        true,
      );
    });
}

function uninstallCommand(context: CommandContext): Command {
  const command = new Command('uninstall').description('Remove the hooks from the settings of a program.');
  return withChangeFlags(command.addArgument(programArgument()))
    .addHelpText('after', '\nExample:\n  $ poste hooks uninstall claude-code')
    .action(async (name: HookProgramName, flags: ChangeFlags) => {
      await change(context, PROGRAM_OF[name], flags, (settings) => withoutHooks(settings, PROGRAM_OF[name]), false);
    });
}

async function change(
  context: CommandContext,
  program: HookProgram,
  { dryRun = false, json }: ChangeFlags,
  changed: (settings: unknown) => object,
  isInstalled: boolean,
): Promise<void> {
  const folder = program.settingsFolder(context.env, homeFolder(context));
  const path = join(folder, program.settingsFile);
  let file: SettingsFile;
  let text: string | undefined;
  let backup: string | null = null;
  let notices: string[] = [];
  try {
    file = readSettings(path);
    const after = changed(file.settings);
    // There is no settings file, and nothing to write into one.
    text = file.text === undefined && Object.keys(after).length === 0 ? undefined : changedText(file, after);
    if (isInstalled) notices = program.name === 'codex' ? codexNotices(folder) : claudeNotices(file);
    if (text !== undefined && !dryRun) backup = await writeSettings(file, text, Date.now());
  } catch (error) {
    if (!(error instanceof SettingsRefused)) throw error;
    throw new CommandFailed('failure', 'SETTINGS_REFUSED', `${path} ${error.message}: repair it and try again`);
  }
  const result = {
    program: program.name,
    file: file.path,
    changed: text !== undefined,
    dry_run: dryRun,
    backup,
    notices,
  };
  if (json) context.stdout.write(jsonLine(text === undefined ? result : { ...result, text }));
  else context.stdout.write(textOf(result, text));
}

function textOf(
  result: { file: string; changed: boolean; dry_run: boolean; backup: string | null; notices: string[] },
  text: string | undefined,
): string {
  const { file, changed, dry_run, backup, notices } = result;
  const said = notices.map((notice) => `${notice}\n`).join('');
  if (!changed) return `${file} is up to date: nothing changed.\n${said}`;
  if (dry_run) return `${file} would be:\n${text ?? ''}${said}`;
  return `Changed ${file}.\n${backup === null ? '' : `The previous version is ${backup}.\n`}${said}`;
}

function runCommand(context: CommandContext): Command {
  return new Command('run')
    .description('Run as the hook: the program calls it, with the event on standard input.')
    .addArgument(programArgument())
    .addOption(agentOption(context, '--agent <name>', 'the agent that runs in these sessions'))
    .option('--wait', 'wait for a doorbell, at an event that has another hook as well')
    .addHelpText('after', '\nExample:\n  $ poste hooks run claude-code --agent backend < event.json')
    .action(async (program: HookProgramName, { agent, wait }: { agent?: string; wait?: boolean }) => {
      await runAsHook(context, { program, agent, waits: wait ?? false });
    });
}
