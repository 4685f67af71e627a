/**
 * One command at a time changes what `poste setup` keeps: a file beside the store names the process that does. A lock
 * whose process has ended is taken over, so that a setup that was killed hinders none.
 */
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ProcessMark } from '../../host/core/session-rows.ts';
import { makePrivateFolder, ownPaths } from '../../host/base/paths.ts';
import { isRunning, processFacts } from '../../host/wake/processes.ts';
import type { CommandContext } from './context.ts';
import { CommandFailed } from './exit.ts';

/** Throws `CommandFailed` when another command holds the lock. */
export async function withSetupLock<T>(context: CommandContext, work: () => Promise<T>): Promise<T> {
  const { dataFolder } = ownPaths(context);
  const lock = join(dataFolder, 'setup.lock');
  try {
    makePrivateFolder(dataFolder);
    await take(lock);
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException;
    if (syscall === undefined) throw error;
    const message = `${dataFolder} cannot be used as the folder of this host (${code}): repair that and try again`;
    throw new CommandFailed('failure', 'FOLDER_UNUSABLE', message);
  }
  try {
    return await work();
  } finally {
    rmSync(lock, { force: true });
  }
}

async function take(lock: string): Promise<void> {
  const { signal } = new AbortController();
  const own = await processFacts(process.pid, signal);
  const beside = `${lock}.${process.pid}`;
  writeFileSync(beside, JSON.stringify(typeof own === 'object' ? own.mark : { pid: process.pid, startedAt: '' }), {
    mode: 0o600,
  });
  try {
    while (!linked(beside, lock)) {
      const text = textOf(lock);
      const holder = markOf(text);
      if (holder && (await isRunning(holder, processFacts, signal))) throw held(holder.pid);
      moveAway(lock, text);
    }
  } finally {
    rmSync(beside, { force: true });
  }
}

/** A link is there whole or not at all, and never in the place of another. */
function linked(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return false;
  }
}

/** Another command may have taken the lock over since its text was read: then it gets it back. */
function moveAway(lock: string, text: string | undefined): void {
  const aside = `${lock}.${process.pid}.old`;
  try {
    renameSync(lock, aside);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return;
  }
  if (textOf(aside) !== text) linked(aside, lock);
  rmSync(aside, { force: true });
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return undefined;
  }
}

function markOf(text = ''): ProcessMark | undefined {
  try {
    return JSON.parse(text) as ProcessMark;
  } catch {
    return undefined;
  }
}

function held(pid: number): CommandFailed {
  const message = `another poste setup is at work (process ${pid}): wait until it has ended, and try again`;
  return new CommandFailed('conflict', 'SETUP_RUNS', message, { pid });
}
