/** `poste hooks`: adds Poste's hooks to the settings of programs that run agents, removes them, and runs as the hook. */
import { join } from 'node:path';
import { Argument, Command, Option } from 'commander';
import { HOOK_PROGRAMS, type HookProgramName, PROGRAM_OF } from '../../host/hooks/programs.ts';
import {
  changedJson,
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
import { openCodeFolder, PLUGIN_FILE, withoutPlugin, withPlugin } from '../../host/hooks/opencode.ts';
import { type CommandContext, agentOption } from '../lib/context.ts';
import { homeFolder } from '../lib/own-paths.ts';
import { requireAgentName } from '../lib/daemon-call.ts';
import { CommandFailed } from '../lib/exit.ts';
import { ownPaths } from '../lib/own-paths.ts';
import { jsonLine } from '../lib/format.ts';
import { runAsHook } from './run-as-hook.ts';

const NOTES = `
The hooks say when a session of an agent begins, works, is idle and ends, tell the agent how many messages wait, and
wake it when it is idle. OpenCode gets a plugin that does the same. Whose sessions they are is said by --agent, or by POSTE_AGENT in a session's environment; a
session without either is left alone. What else stands in the settings stays, and a copy is kept beside them.

Examples:
  $ poste hooks install claude-code --agent backend --dry-run
  $ poste hooks install claude-code --agent backend
  $ poste hooks install codex
  $ poste hooks install gemini --agent tester
  $ poste hooks install opencode --agent writer
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

/** OpenCode runs no hooks; it loads a plugin. */
const SETTLED_PROGRAMS = [...HOOK_PROGRAMS, 'opencode'] as const;
type SettledProgram = (typeof SETTLED_PROGRAMS)[number];

function programArgument(programs: readonly string[]): Argument {
  return new Argument('<program>', programs.join(', ').replace(/, ([^,]+)$/, ' or $1')).choices(programs);
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
  return withChangeFlags(command.addArgument(programArgument(SETTLED_PROGRAMS)).addOption(installedAgentOption()))
    .addHelpText('after', '\nExample:\n  $ poste hooks install claude-code --agent backend --dry-run')
    .action(async (name: SettledProgram, flags: ChangeFlags) => {
      const { agent } = flags;
      if (agent !== undefined) requireAgentName(agent, '--agent');
      await change(context, name, flags, installed(context, name, agent), true);
    });
}

function uninstallCommand(context: CommandContext): Command {
  const command = new Command('uninstall').description('Remove the hooks from the settings of a program.');
  return withChangeFlags(command.addArgument(programArgument(SETTLED_PROGRAMS)))
    .addHelpText('after', '\nExample:\n  $ poste hooks uninstall claude-code')
    .action(async (name: SettledProgram, flags: ChangeFlags) => {
      const removed: TextChange = (text) =>
        name === 'opencode'
          ? withoutPlugin(text)
          : changedJson(text, (settings) => withoutHooks(settings, PROGRAM_OF[name]));
      await change(context, name, flags, removed, false);
    });
}

type TextChange = (text: string | undefined) => string | undefined;

/** How the program's file changes when the hooks are added. */
function installed(context: CommandContext, name: SettledProgram, agent: string | undefined): TextChange {
  const home = context.env['POSTE_HOME'] ? ownPaths(context).dataFolder : undefined;
  const parts = { node: process.execPath, main: context.program, agent, home };
  if (name === 'opencode') return (text) => withPlugin(text, parts);
  const command = hookCommand({ program: name, ...parts });
  return (text) => changedJson(text, (settings) => withHooks(settings, PROGRAM_OF[name], command));
}

function hookFolder(context: CommandContext, name: SettledProgram): string {
  const home = homeFolder(context);
  return name === 'opencode' ? openCodeFolder(context.env, home) : PROGRAM_OF[name].settingsFolder(context.env, home);
}

function noticesOf(name: SettledProgram, folder: string, file: SettingsFile): string[] {
  if (name === 'codex') return codexNotices(folder);
  return name === 'claude-code' ? claudeNotices(file) : [];
}

async function change(
  context: CommandContext,
  name: SettledProgram,
  { dryRun = false, json }: ChangeFlags,
  changedText: TextChange,
  isInstalled: boolean,
): Promise<void> {
  const folder = hookFolder(context, name);
  const path = join(folder, name === 'opencode' ? PLUGIN_FILE : PROGRAM_OF[name].settingsFile);
  let file: SettingsFile;
  let text: string | undefined;
  let backup: string | null = null;
  let notices: string[] = [];
  try {
    file = readSettings(path);
    text = changedText(file.text);
    if (isInstalled) notices = noticesOf(name, folder, file);
    if (text !== file.text && !dryRun) backup = await writeSettings(file, text, Date.now());
  } catch (error) {
    if (!(error instanceof SettingsRefused)) throw error;
    throw new CommandFailed('failure', 'SETTINGS_REFUSED', `${path} ${error.message}: repair it and try again`);
  }
  const changed = text !== file.text;
  const result = { program: name, file: file.path, changed, dry_run: dryRun, backup, notices };
  if (json) context.stdout.write(jsonLine(changed ? { ...result, text: text ?? null } : result));
  else context.stdout.write(textOf(result, text));
}

function textOf(
  result: { file: string; changed: boolean; dry_run: boolean; backup: string | null; notices: string[] },
  text: string | undefined,
): string {
  const { file, changed, dry_run, backup, notices } = result;
  const said = notices.map((notice) => `${notice}\n`).join('');
  if (!changed) return `${file} is up to date: nothing changed.\n${said}`;
  if (dry_run) return text === undefined ? `${file} would be removed.\n` : `${file} would be:\n${text}${said}`;
  if (text === undefined) return `Removed ${file}.\n`;
  return `Changed ${file}.\n${backup === null ? '' : `The previous version is ${backup}.\n`}${said}`;
}

function runCommand(context: CommandContext): Command {
  return new Command('run')
    .description('Run as the hook: the program calls it, with the event on standard input.')
    .addArgument(programArgument(HOOK_PROGRAMS))
    .addOption(agentOption(context, '--agent <name>', 'the agent that runs in these sessions'))
    .option('--wait', 'wait for a doorbell, at an event that has another hook as well')
    .addHelpText('after', '\nExample:\n  $ poste hooks run claude-code --agent backend < event.json')
    .action(async (program: HookProgramName, { agent, wait }: { agent?: string; wait?: boolean }) => {
      await runAsHook(context, { program, agent, waits: wait ?? false });
    });
}
