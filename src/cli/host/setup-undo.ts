/** Takes back what `poste setup` did: the newest first, and nothing that its owner changed since. */
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { kill } from 'node:process';
import { isDeepStrictEqual } from 'node:util';
import { isSameName } from '../../host/core/address.ts';
import type { StatusResult } from '../../host/contract/daemon.ts';
import { isSameServer, type TextChange } from '../../host/hooks/mcp-settings.ts';
import { withoutNotes } from '../../host/hooks/agent-notes.ts';
import { SETTINGS_OF } from '../../host/hooks/settled-programs.ts';
import { writeProjectAgent } from '../../host/base/project-agents.ts';
import { ownPaths } from '../../host/base/paths.ts';
import { assertNever } from '../../lib/assert-never.ts';
import { isListening } from '../../lib/unix-socket.ts';
import { timeMsOf } from '../../protocol/time.ts';
import { projectsHere } from '../lib/agent-here.ts';
import type { CommandContext } from '../lib/context.ts';
import { ask, runningDaemon } from '../lib/daemon-call.ts';
import { START_MS } from '../lib/daemon-start.ts';
import { CommandFailed } from '../lib/exit.ts';
import { confirmed } from '../lib/input.ts';
import {
  allowTools,
  plannedEdit,
  restoringEdit,
  serverOfProgram,
  shownServer,
  writeEdit,
} from '../lib/program-settings.ts';
import { readWritten, removeWritten, type Written, withSetupLock } from '../lib/setup-record.ts';
import { uninstallService } from './daemon-service.ts';
import { writeNotes } from './setup-project.ts';
import { type ShownStep, stepText } from './setup-steps.ts';

type UndoneStep = ShownStep<'planned' | 'undone' | 'kept'>;

type Result = { state: 'undone'; copies?: string[] } | { state: 'kept'; why: string; copies?: string[] };

const UNDONE: Result = { state: 'undone' };
const HOST_KEPT = {
  state: 'kept',
  why: 'its keys and its mail are yours; delete the folder if you want neither',
} as const satisfies Result;

interface UndoFlags {
  dryRun: boolean;
  yes?: boolean | undefined;
  json?: boolean | undefined;
  /** Only what was done for this project. */
  folder?: string | undefined;
}

/** Shows what it takes back, and asks. Throws `CommandFailed` at the end when a step could not be taken back. */
export async function undoSetup(context: CommandContext, { dryRun, yes, json, folder }: UndoFlags): Promise<object> {
  const steps = plannedSteps(context, folder);
  const say = (text: string): unknown => json || context.stdout.write(text);
  if (steps.length === 0) {
    say('There is nothing to undo.\n');
    return { dry_run: dryRun, steps };
  }
  // A document is the only thing on standard output; who is asked sees the plan all the same.
  const plan = steps.map((step) => stepText(step, 'to undo')).join('');
  if (!json) say(plan);
  else if (!yes && !dryRun) context.stderr.write(plan);
  if (dryRun) return { dry_run: true, steps };
  await confirmed(context, 'Take this back?', { yes, stake: 'undo changes the settings of your programs' });
  return { dry_run: false, steps: await withSetupLock(context, () => undoAll(context, folder, json)) };
}

/** The newest first. */
function entriesOf(context: CommandContext, folder: string | undefined): Written[] {
  const written = readWritten(context).toReversed();
  return folder === undefined ? written : written.filter((entry) => 'folder' in entry && entry.folder === folder);
}

function plannedSteps(context: CommandContext, folder: string | undefined): UndoneStep[] {
  const entries = entriesOf(context, folder);
  const steps = entries.map((entry): UndoneStep => {
    const step = textOf(context, entry);
    return entry.type === 'host' ? { step, state: 'kept', why: HOST_KEPT.why } : { step, state: 'planned' };
  });
  return [...new Map(steps.map((step) => [step.step, step])).values()];
}

async function undoAll(context: CommandContext, folder: string | undefined, json = false): Promise<UndoneStep[]> {
  const steps: UndoneStep[] = [];
  const failures: string[] = [];
  const wasRunning = await isListening(ownPaths(context).socket);
  for (const entry of entriesOf(context, folder)) {
    const step = textOf(context, entry);
    try {
      const undone = { step, ...(await kindOf(entry).undo(entry, context, wasRunning)) };
      await removeWritten(context, entry);
      // Setup may have changed one file more than once.
      if (steps.some((one) => isDeepStrictEqual(one, undone))) continue;
      steps.push(undone);
      if (!json) context.stdout.write(stepText(undone, 'to undo'));
    } catch (error) {
      if (!(error instanceof CommandFailed)) throw error;
      failures.push(error.message);
    }
  }
  // To remove an agent takes a daemon: one that was started for that goes again.
  if (!wasRunning) await stopDaemon(context, () => true);
  if (failures.length > 0) {
    const message = `not everything was undone; repair this and run poste setup --undo again: ${failures.join('; ')}`;
    throw new CommandFailed('failure', 'NOT_UNDONE', message);
  }
  return steps;
}

function textOf(context: CommandContext, entry: Written): string {
  return kindOf(entry).named(entry, context);
}

/** How one kind of entry is named, and taken back. */
interface EntryKind<Entry> {
  named: (entry: Entry, context: CommandContext) => string;
  undo: (entry: Entry, context: CommandContext, wasRunning: boolean) => Result | Promise<Result>;
}

const KINDS: { readonly [Type in Written['type']]: EntryKind<Extract<Written, { type: Type }>> } = {
  host: { named: (_entry, context) => `the host in ${ownPaths(context).dataFolder}`, undo: () => HOST_KEPT },
  service: { named: () => 'the service of the daemon', undo: (_entry, context) => removeService(context) },
  daemon: {
    named: () => DAEMON,
    undo: ({ pid }, context, wasRunning) =>
      wasRunning ? stopDaemon(context, (running) => running.pid === pid) : UNDONE,
  },
  starting: {
    named: () => DAEMON,
    undo: ({ sinceMs }, context, wasRunning) =>
      wasRunning ? stopDaemon(context, (running) => wasStarted(sinceMs, running)) : UNDONE,
  },
  agent: { named: ({ name }) => `the agent ${name}`, undo: ({ name }, context) => removeAgent(context, name) },
  server: { named: ({ file }) => `the mail tools in ${file}`, undo: undoEdit },
  hooks: { named: ({ file }) => `the hooks in ${file}`, undo: undoEdit },
  allowed: { named: ({ file }) => `the rule that allows the mail tools in ${file}`, undo: undoEdit },
  project: { named: ({ program, folder }) => `the agent of ${program} in ${folder}`, undo: removeProjectAgent },
  notes: { named: ({ file }) => `the notes on mail in ${file}`, undo: removeNotes },
};

const DAEMON = 'the daemon that was started';

function kindOf({ type }: Written): EntryKind<Written> {
  return KINDS[type] as EntryKind<Written>;
}

type EditEntry = Extract<Written, { type: 'server' | 'hooks' | 'allowed' }>;

async function undoEdit(entry: EditEntry, context: CommandContext): Promise<Result> {
  const { file, edited } = entry;
  const restoring = edited && restoringEdit(file, edited);
  if (restoring) {
    const copy = await writeEdit(restoring);
    for (const own of [edited.copy, copy]) if (own !== null) rmSync(own, { force: true });
    return UNDONE;
  }
  const why = whyKept(entry);
  const before = edited?.copy ?? null;
  if (why !== undefined) return { state: 'kept', why, ...copiesOf(file, [before]) };
  const copy = await writeEdit(plannedEdit({ path: file, change: removal(context, entry) }));
  return { state: 'undone', ...copiesOf(file, [before, copy]) };
}

/** Says why what stands there now is not setup's to take away. */
function whyKept(entry: EditEntry): string | undefined {
  if (entry.type === 'hooks' && entry.others) return 'hooks of Poste stood there before setup';
  if (entry.type !== 'server') return undefined;
  const there = serverOfProgram(entry.file, entry.program);
  if (there.type === 'absent') return undefined;
  if (there.type === 'command' && isSameServer(there.server, entry.server)) return undefined;
  return `it was changed after setup, and now is ${shownServer(there)}; remove it there if you want it gone`;
}

function removal(context: CommandContext, entry: EditEntry): TextChange {
  switch (entry.type) {
    case 'server':
      return SETTINGS_OF[entry.program].removeServer(entry.server);
    case 'hooks':
      return SETTINGS_OF[entry.program].hooks.remove;
    case 'allowed': {
      const tools = allowTools(context, entry.program);
      return (text) => (tools ? tools.remove(text, entry.before) : text);
    }
    default:
      return assertNever(entry);
  }
}

/** The copies that are not the file as it is now: those are of no use to anybody, and go. */
function copiesOf(file: string, copies: readonly (string | null)[]): { copies?: string[] } {
  const now = existsSync(file) ? readFileSync(file) : undefined;
  const left = copies.filter((copy): copy is string => {
    if (copy === null || !existsSync(copy)) return false;
    if (now === undefined || !readFileSync(copy).equals(now)) return true;
    rmSync(copy);
    return false;
  });
  return left.length === 0 ? {} : { copies: left };
}

/** One that was chosen since stays. */
async function removeProjectAgent(
  { folder, program, agent }: Extract<Written, { type: 'project' }>,
  context: CommandContext,
): Promise<Result> {
  const now = projectsHere(context)[folder]?.[program];
  if (now !== undefined && now !== agent) return { state: 'kept', why: `it is ${now} now` };
  if (now === agent) await writeProjectAgent(ownPaths(context).dataFolder, { folder, program, agent: undefined });
  return UNDONE;
}

async function removeNotes({ file, isNew }: Extract<Written, { type: 'notes' }>): Promise<Result> {
  const change: TextChange = (text) => {
    const left = withoutNotes(text);
    return isNew && left === '' ? undefined : left;
  };
  await writeNotes(plannedEdit({ path: file, change }));
  return UNDONE;
}

async function removeService(context: CommandContext): Promise<Result> {
  try {
    const { backup } = await uninstallService(context, false);
    return { state: 'undone', ...(backup !== null && { copies: [backup] }) };
  } catch (error) {
    if (!(error instanceof CommandFailed) || error.code !== 'UNIT_FOREIGN') throw error;
    return { state: 'kept', why: error.message };
  }
}

async function removeAgent(context: CommandContext, name: string): Promise<Result> {
  const { agents } = await ask(context, 'list-agents', {}, { start: true });
  const agent = agents.find((one) => isSameName(one.name, name));
  if (!agent) {
    const renamed = agents.find((one) => one.former_names.some((former) => isSameName(former, name)));
    return renamed ? { state: 'kept', why: `you renamed it: it is ${renamed.name} now` } : UNDONE;
  }
  const sent = await ask(context, 'mail-sent', { limit: 1 }, { as: agent.name });
  if (agent.total > 0 || sent.messages.length > 0) {
    const which = agent.total === 0 ? 'it has sent mail' : 'it has mail';
    return { state: 'kept', why: `${which}; poste agent remove ${agent.name} deletes both` };
  }
  await ask(context, 'remove-agent', { name }, {});
  return UNDONE;
}

type Running = Pick<StatusResult, 'pid' | 'started_at'>;

/** A setup that was cut off while it waited for its daemon knows no more of it than this. */
function wasStarted(sinceMs: number, { started_at }: Running): boolean {
  const startedAtMs = timeMsOf(started_at);
  return startedAtMs >= sinceMs && startedAtMs <= sinceMs + START_MS;
}

async function stopDaemon(context: CommandContext, isOurs: (running: Running) => boolean): Promise<Result> {
  const running = await runningDaemon(context);
  if (!running) return UNDONE;
  if (!isOurs(running)) return { state: 'kept', why: `another one runs now, process ${running.pid}` };
  kill(running.pid, 'SIGTERM');
  return UNDONE;
}
