/** `poste hooks`: puts Poste's hooks into the settings of programs that run agents, takes them out, and is the hook. */
import { homedir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { join } from 'node:path';
import { Argument, Command, Option } from 'commander';
import { CLAUDE_CODE } from '../host/hooks/claude-code.ts';
import { CODEX } from '../host/hooks/codex.ts';
import { codexNotices } from '../host/hooks/codex-config.ts';
import { hookCommand } from '../host/hooks/hook-command.ts';
import { HOOK_PROGRAMS, type HookProgram, type HookProgramName } from '../host/hooks/hook-program.ts';
import { SettingsRefused, withHooks, withoutHooks } from '../host/hooks/hook-settings.ts';
import { runHook } from '../host/hooks/run-hook.ts';
import { type SettingsFile, changedText, readSettings, writeSettings } from '../host/hooks/settings-file.ts';
import { DaemonClient } from '../host/local/client.ts';
import { AGENT_NAME } from './daemon-call.ts';
import { CommandFailed } from './exit.ts';
import { findProgram } from './find-program.ts';
import { ownPaths } from './host-place.ts';
import { readStandardInput } from './standard-input.ts';
import { jsonLine } from './text.ts';

const PROGRAMS: Readonly<Record<HookProgramName, HookProgram>> = { 'claude-code': CLAUDE_CODE, codex: CODEX };

const NOTES = `
The hooks say when a session of an agent begins, works, is idle and ends, tell the agent how many messages wait, and
wake it when it is idle. Whose sessions they are is said by --agent, or by POSTE_AGENT in a session's environment; a
session without either is left alone. What else stands in the settings stays, and a copy is kept beside them.

Examples:
  $ poste hooks install claude-code --agent backend --dry-run
  $ poste hooks install claude-code --agent backend
  $ poste hooks install codex
  $ poste hooks uninstall codex`;

export function hooksCommand(): Command {
  return new Command('hooks')
    .description('Let Claude Code or Codex say what its sessions do, and be woken by mail.')
    .addCommand(installCommand())
    .addCommand(uninstallCommand())
    .addCommand(runCommand())
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

function agentOption(): Option {
  return new Option('--agent <name>', 'the agent whose sessions these are (default: POSTE_AGENT of each session)');
}

function withChangeFlags(command: Command): Command {
  return command
    .option('--dry-run', 'only show what would be changed')
    .option('--json', 'print what was changed as one JSON document');
}

function installCommand(): Command {
  const command = new Command('install').description('Put the hooks into the settings of a program.');
  return withChangeFlags(command.addArgument(programArgument()).addOption(agentOption()))
    .addHelpText('after', '\nExample:\n  $ poste hooks install claude-code --agent backend --dry-run')
    .action(async (name: HookProgramName, flags: ChangeFlags) => {
      const { agent } = flags;
      if (agent !== undefined && !AGENT_NAME.test(agent)) {
        throw new CommandFailed(
          'usage',
          'USAGE',
          '--agent names an agent: letters, digits, points, hyphens, underlines',
        );
      }
      const home = process.env['POSTE_HOME'] ? ownPaths().dataFolder : undefined;
      const main = fileURLToPath(new URL('main.js', import.meta.url));
      const command = hookCommand({ program: name, node: process.execPath, main, agent, home });
      await change(PROGRAMS[name], flags, (settings) => withHooks(settings, PROGRAMS[name], command));
    });
}

function uninstallCommand(): Command {
  const command = new Command('uninstall').description('Take the hooks out of the settings of a program.');
  return withChangeFlags(command.addArgument(programArgument()))
    .addHelpText('after', '\nExample:\n  $ poste hooks uninstall claude-code')
    .action(async (name: HookProgramName, flags: ChangeFlags) => {
      await change(PROGRAMS[name], flags, (settings) => withoutHooks(settings, PROGRAMS[name]));
    });
}

async function change(
  program: HookProgram,
  { dryRun = false, json }: ChangeFlags,
  changed: (settings: unknown) => object,
): Promise<void> {
  const folder = program.settingsFolder(process.env, homedir());
  const path = join(folder, program.settingsFile);
  let file: SettingsFile;
  let text: string | undefined;
  let backup: string | null = null;
  let notices: string[];
  try {
    file = readSettings(path);
    const after = changed(file.settings);
    // Nothing to take out of nothing.
    text = file.text === undefined && Object.keys(after).length === 0 ? undefined : changedText(file, after);
    notices = program.name === 'codex' ? codexNotices(folder) : [];
    if (text !== undefined && !dryRun) backup = await writeSettings(file, text, Date.now());
  } catch (error) {
    if (!(error instanceof SettingsRefused)) throw error;
    throw new CommandFailed('failure', 'SETTINGS_REFUSED', `${path} ${error.message}: mend that and try again`);
  }
  const result = {
    program: program.name,
    file: file.path,
    changed: text !== undefined,
    dry_run: dryRun,
    backup,
    notices,
  };
  if (json) process.stdout.write(jsonLine(text === undefined ? result : { ...result, text }));
  else process.stdout.write(textOf(result, text));
}

function textOf(
  result: { file: string; changed: boolean; dry_run: boolean; backup: string | null; notices: string[] },
  text: string | undefined,
): string {
  const { file, changed, dry_run, backup, notices } = result;
  if (!changed) return `${file} is as it should be: nothing was changed.\n`;
  const said = notices.map((notice) => `${notice}\n`).join('');
  if (dry_run) return `${file} would be:\n${text ?? ''}${said}`;
  return `${file} is changed.\n${backup === null ? '' : `What it was is in ${backup}.\n`}${said}`;
}

/** How much a program may tell a hook: a prompt may be long. */
const HOOK_INPUT_BYTES_MAX = 16 << 20;
const PARENT_EVERY_MS = 1000;

function runCommand(): Command {
  return new Command('run')
    .description('The hook itself: the program calls it, with what happened on stdin.')
    .addArgument(programArgument())
    .addOption(agentOption().env('POSTE_AGENT'))
    .addHelpText('after', '\nExample:\n  $ poste hooks run claude-code --agent backend < event.json')
    .action(async (name: HookProgramName, { agent }: { agent?: string }) => {
      const pid = process.ppid;
      const gone = new AbortController();
      const watch = setInterval(() => {
        if (process.ppid !== pid) gone.abort();
      }, PARENT_EVERY_MS);
      const paths = ownPaths();
      const { exitCode, stdout, stderr } = await runHook({
        program: PROGRAMS[name],
        input: await readStandardInput(HOOK_INPUT_BYTES_MAX),
        agent: agent !== undefined && AGENT_NAME.test(agent) ? agent : undefined,
        client: new DaemonClient(paths.socket, paths.store),
        pid,
        surroundings: {
          environment: process.env,
          findProgram: (wanted) => findProgram(wanted, process.env['PATH']),
        },
        gone: gone.signal,
      });
      clearInterval(watch);
      process.stdout.write(stdout);
      process.stderr.write(stderr);
      process.exitCode = exitCode;
    });
}
