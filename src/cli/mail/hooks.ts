/** `poste hooks`: adds Poste's hooks to the settings of programs that run agents, removes them, and runs as a hook. */
import { Command } from 'commander';
import { DEFAULT_AGENT, HOOK_PROGRAMS } from '../../host/hooks/programs.ts';
import { HOOKED_PROGRAMS, type HookedProgram, SETTINGS_OF } from '../../host/hooks/settled-programs.ts';
import { agentHere } from '../lib/agent-here.ts';
import { CommandDraft } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { requireAgentName } from '../lib/daemon-call.ts';
import { JSON_FLAG } from '../lib/format.ts';
import { print } from '../lib/output.ts';
import {
  addHooks,
  allowTools,
  type Edit,
  hookFile,
  plannedEdit,
  type PlannedEdit,
  programNotices,
  requireOwnServer,
  writeEdit,
} from '../lib/program-settings.ts';
import { addWritten, readWritten, removeWritten, withSetupLock } from '../lib/setup-record.ts';
import { runAsHook } from './run-as-hook.ts';

const NOTES = `
The hooks say when a session of an agent begins, works, is idle and ends, tell the agent how many messages wait, and
wake it when it is idle. OpenCode gets a plugin that does the same. --agent names the agent of the sessions, or
POSTE_AGENT in a session's environment, or poste setup --project for a checkout; a session without any is left alone.
What else stands in the settings stays, and a copy is kept beside them.

Examples:
  $ poste hooks install claude-code --agent backend --dry-run
  $ poste hooks install claude-code --agent backend
  $ poste hooks install codex --allow-tools
  $ poste hooks install gemini --agent tester
  $ poste hooks install qwen --agent checker
  $ poste hooks install opencode --agent writer
  $ poste hooks uninstall codex`;

export function hooksCommand(context: CommandContext): Command {
  const hooks = new Command('hooks').addHelpText('after', NOTES);
  new CommandDraft(context, 'install')
    .argument(...programArgument(HOOKED_PROGRAMS))
    .childOf(hooks, 'Add the hooks to the settings of a program.')
    .option('--agent <name>', 'the agent that runs in these sessions (default: POSTE_AGENT of each session)')
    .option('--allow-tools', 'also let the program use the mail tools without asking you')
    .option('--dry-run', 'only show what would change')
    .option(...JSON_FLAG)
    .notes('\nExample:\n  $ poste hooks install claude-code --agent backend --dry-run')
    .action(async (name, flags) => {
      const { agent, allowTools: isAllowed = false } = flags;
      if (agent !== undefined) requireAgentName(agent, '--agent');
      const allowed = isAllowed ? allowTools(context, name) : undefined;
      if (allowed) requireOwnServer(context, name);
      const isNew = allowed && plannedEdit(allowed).isChange;
      const edits = planEdits([addHooks(context, name, { agent }), ...(allowed ? [allowed] : [])]);
      if (!isNew || flags.dryRun) return change(context, name, flags, edits, true);
      return withSetupLock(context, async () => {
        await addWritten(context, { type: 'allowed', program: name, file: allowed.path });
        await change(context, name, flags, edits, true);
      });
    });
  new CommandDraft(context, 'uninstall')
    .argument(...programArgument(HOOKED_PROGRAMS))
    .childOf(hooks, 'Remove the hooks from the settings of a program.')
    .option('--dry-run', 'only show what would change')
    .option(...JSON_FLAG)
    .notes('\nAlso takes back the --allow-tools of an install.\n\nExample:\n  $ poste hooks uninstall claude-code')
    .action(async (name, flags) => {
      const entry = readWritten(context).find((one) => one.type === 'allowed' && one.program === name);
      const allowed = entry && allowTools(context, name);
      const hooks = { path: hookFile(context, name), change: SETTINGS_OF[name].hooks.remove };
      const edits = planEdits([hooks, ...(allowed ? [{ path: allowed.path, change: allowed.remove }] : [])]);
      if (!entry || flags.dryRun) return change(context, name, flags, edits, false);
      return withSetupLock(context, async () => {
        await change(context, name, flags, edits, false);
        await removeWritten(context, entry);
      });
    });
  ofSessions(new CommandDraft(context, 'run').argument(...programArgument(HOOK_PROGRAMS)))
    .childOf(hooks, 'Run as the hook: the program calls it, with the event on standard input.', { hidden: true })
    .option('--wait', 'wait for a doorbell, at an event that has another hook as well')
    .notes('\nExample:\n  $ poste hooks run claude-code --agent backend < event.json')
    .action((program, { agent, defaultAgent, wait: waits = false }) =>
      runAsHook(context, { program, agent, defaultAgent, waits }),
    );
  ofSessions(new CommandDraft(context, 'agent').argument(...programArgument(HOOKED_PROGRAMS)))
    .childOf(hooks, 'Print the agent of sessions in the working folder: the plugin of OpenCode asks for it.', {
      hidden: true,
    })
    .notes(`\nExample:\n  $ poste hooks agent opencode ${DEFAULT_AGENT} writer`)
    .action((program, { agent, defaultAgent }) => {
      const name = agentHere(context, { given: agent, program, byDefault: defaultAgent });
      if (name !== undefined) context.stdout.write(`${name}\n`);
    });
  return hooks;
}

/** The argument that names one of these programs. */
function programArgument<const Program extends string>(choices: readonly Program[]) {
  return ['<program>', choices.join(', ').replace(/, ([^,]+)$/, ' or $1'), { choices }] as const;
}

/** The edits as they will be written: two of one file are one. Throws `CommandFailed` before anything is written. */
function planEdits([first, second]: readonly Edit[]): PlannedEdit[] {
  if (!first) return [];
  if (!second) return [plannedEdit(first)];
  if (first.path !== second.path) return [plannedEdit(first), plannedEdit(second)];
  return [plannedEdit({ path: first.path, change: (text) => second.change(first.change(text)) })];
}

async function change(
  context: CommandContext,
  program: HookedProgram,
  { dryRun: dry_run = false, json = false }: { dryRun?: boolean; json?: boolean },
  edits: readonly PlannedEdit[],
  isInstalled: boolean,
): Promise<void> {
  const results: FileResult[] = [];
  for (const edit of edits) {
    const { file, text, isChange } = edit;
    const backup = dry_run ? null : await writeEdit(edit);
    results.push({ file: file.path, changed: isChange, backup, ...(isChange && { text: text ?? null }) });
  }
  const notices = isInstalled ? programNotices(context, program) : [];
  const [hooks, tools] = results;
  const document = { program, dry_run, ...hooks, ...(tools && { tools }), notices };
  const lines = [...results.map((result) => textOf(result, dry_run)), ...notices.map((notice) => `${notice}\n`)];
  print(context, { json }, document, () => lines.join(''));
}

interface FileResult {
  file: string;
  changed: boolean;
  backup: string | null;
  /** The text that was or would be written; null for a file that is removed. */
  text?: string | null;
}

function textOf({ file, changed, backup, text = null }: FileResult, isDryRun: boolean): string {
  if (!changed) return `${file} is up to date: nothing changed.\n`;
  if (isDryRun) return text === null ? `${file} would be removed.\n` : `${file} would be:\n${text}`;
  if (text === null) return `Removed ${file}.\n`;
  return `Changed ${file}.\n${backup === null ? '' : `The previous version is ${backup}.\n`}`;
}

/** The flags by which a program says which agent runs in its sessions. */
function ofSessions<Program>(draft: CommandDraft<[Program]>) {
  return draft
    .option('--agent <name>', 'the agent that runs in these sessions (default: POSTE_AGENT)')
    .option(`${DEFAULT_AGENT} <name>`, 'the agent where neither POSTE_AGENT nor the project names one');
}
