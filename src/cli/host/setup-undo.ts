/** Takes back what `poste setup` did: the newest first, and nothing that its owner changed since. */
import { kill } from 'node:process';
import { isSameName } from '../../host/core/address.ts';
import { withoutServer } from '../../host/hooks/mcp-settings.ts';
import { assertNever } from '../../lib/assert-never.ts';
import { isListening } from '../../lib/unix-socket.ts';
import type { CommandContext } from '../lib/context.ts';
import { ask } from '../lib/daemon-call.ts';
import { CommandFailed } from '../lib/exit.ts';
import { ownPaths } from '../lib/own-paths.ts';
import { allowTools, plannedEdit, removeHooks, restoringEdit, writeEdit } from '../lib/program-settings.ts';
import { readWritten, removeWritten, type Written } from '../lib/setup-record.ts';
import { uninstallUnit } from './daemon-unit.ts';

export interface Undone {
  dry_run: boolean;
  steps: { step: string; state: 'planned' | 'undone' | 'kept'; why?: string }[];
}

/** What is kept, and why. */
type Kept = string | undefined;

/** Shows what it takes back, and asks by `confirm`. Throws `CommandFailed` at the end when a step could not be taken back. */
export async function undoSetup(
  context: CommandContext,
  dryRun: boolean,
  confirm: () => Promise<void>,
): Promise<Undone> {
  const written = readWritten(context).toReversed();
  const undone: Undone = { dry_run: dryRun, steps: [] };
  if (written.length === 0) {
    context.stderr.write('There is nothing to undo.\n');
    return undone;
  }
  for (const entry of written) context.stderr.write(`to undo: ${textOf(context, entry)}\n`);
  if (dryRun) {
    undone.steps = written.map((entry) => ({ step: textOf(context, entry), state: 'planned' }));
    return undone;
  }
  await confirm();
  const failures: string[] = [];
  const wasRunning = await isListening(ownPaths(context).socket);
  for (const entry of written) {
    const step = textOf(context, entry);
    try {
      const isOver = entry.type === 'daemon' && !wasRunning;
      const why = isOver ? undefined : await undoEntry(context, entry);
      await removeWritten(context, entry);
      undone.steps.push({ step, state: why === undefined ? 'undone' : 'kept', ...(why !== undefined && { why }) });
      if (why !== undefined) context.stderr.write(`kept: ${step} (${why}).\n`);
    } catch (error) {
      if (!(error instanceof CommandFailed)) throw error;
      failures.push(error.message);
    }
  }
  // To remove an agent takes a daemon: one that was started for that goes again.
  if (!wasRunning) await stopDaemon(context, undefined);
  if (failures.length > 0) {
    const message = `not everything was undone; repair this and run poste setup --undo again: ${failures.join('; ')}`;
    throw new CommandFailed('failure', 'NOT_UNDONE', message);
  }
  return undone;
}

function textOf(context: CommandContext, entry: Written): string {
  switch (entry.type) {
    case 'host':
      return `the host in ${ownPaths(context).dataFolder}`;
    case 'service':
      return 'the service of the daemon';
    case 'daemon':
      return 'the daemon that was started';
    case 'agent':
      return `the agent ${entry.name}`;
    case 'server':
      return `the mail tools in ${entry.file}`;
    case 'hooks':
      return `the hooks in ${entry.file}`;
    case 'allowed':
      return `the rule that allows the mail tools in ${entry.file}`;
    default:
      return assertNever(entry);
  }
}

async function undoEntry(context: CommandContext, entry: Written): Promise<Kept> {
  const restoring = 'edited' in entry && entry.edited ? restoringEdit(entry.file, entry.edited) : undefined;
  if (restoring) {
    await writeEdit(restoring);
    return undefined;
  }
  switch (entry.type) {
    case 'host':
      return 'its keys and its mail are yours; delete the folder if you want neither';
    case 'service':
      await uninstallUnit(context, false);
      return undefined;
    case 'daemon':
      return stopDaemon(context, entry.pid);
    case 'agent':
      return removeAgent(context, entry.name);
    case 'server':
      await writeEdit(plannedEdit({ path: entry.file, change: withoutServer(entry.program, entry.server) }));
      return undefined;
    case 'hooks':
      await writeEdit(plannedEdit({ path: entry.file, change: removeHooks(entry.program) }));
      return undefined;
    case 'allowed': {
      const allowed = allowTools(context, entry.program);
      if (allowed) await writeEdit(plannedEdit({ path: entry.file, change: allowed.remove }));
      return undefined;
    }
    default:
      return assertNever(entry);
  }
}

async function removeAgent(context: CommandContext, name: string): Promise<Kept> {
  const { agents } = await ask(context, 'list-agents', {}, { start: true });
  const agent = agents.find((one) => isSameName(one.name, name));
  if (!agent) return undefined;
  if (agent.total > 0) return `it has mail; poste agent remove ${name} deletes both`;
  await ask(context, 'remove-agent', { name }, {});
  return undefined;
}

/** Without `pid`, the one that runs. */
async function stopDaemon(context: CommandContext, pid: number | undefined): Promise<Kept> {
  let running: number;
  try {
    running = (await ask(context, 'status', {}, {})).pid;
    if (pid !== undefined && running !== pid) return 'another one runs now';
  } catch (error) {
    if (error instanceof CommandFailed && error.code === 'DAEMON_NOT_RUNNING') return undefined;
    throw error;
  }
  kill(running, 'SIGTERM');
  return undefined;
}
