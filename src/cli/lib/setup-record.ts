/**
 * The record of what Poste wrote for its owner outside its own store, so that exactly that can be undone: `setup.json`
 * beside the store. An entry is written before what it stands for, so that a command that was cut off can be undone as
 * well.
 *
 * One command at a time changes what `poste setup` keeps: a file beside the store names the process that does. A lock
 * whose process has ended is taken over, so that a setup that was killed hinders none.
 */
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { ProcessMark } from '../../host/core/session-rows.ts';
import { isRunning, processFacts } from '../../host/wake/processes.ts';
import type { ServerCommand } from '../../host/hooks/mcp-settings.ts';
import type { HookedProgram, SettledProgram } from '../../host/hooks/settled-programs.ts';
import { makePrivateFolder, ownPaths } from '../../host/base/paths.ts';
import { attempt } from '../../lib/caught.ts';
import { replaceFile } from '../../lib/files.ts';
import type { CommandContext } from './context.ts';
import { CommandFailed } from './exit.ts';

export type Written =
  | { type: 'host' }
  | { type: 'service' }
  /** A daemon is about to be started without a service: its `daemon` takes the place of this. */
  | { type: 'starting'; sinceMs: number }
  | { type: 'daemon'; pid: number }
  /** `folder`: the project that it was added for. */
  | { type: 'agent'; name: string; folder?: string }
  | { type: 'server'; program: SettledProgram; file: string; server: ServerCommand; edited?: Edited }
  /** `others`: hooks of Poste stood there that setup had not written. */
  | { type: 'hooks'; program: HookedProgram; file: string; others?: true; edited?: Edited }
  /** `before`: the rules that stood there before setup, which added the others. */
  | { type: 'allowed'; program: SettledProgram; file: string; before?: readonly string[]; edited?: Edited }
  /** The agent of the program's sessions in this folder. */
  | { type: 'project'; folder: string; program: SettledProgram; agent: string }
  /** `isNew`: there was no such file. */
  | { type: 'notes'; folder: string; file: string; isNew?: true };

/** A file as it was left: as long as nobody changed it, undo puts the copy back, byte for byte. */
export interface Edited {
  /** The copy of what was there before; null when there was no file. */
  copy: string | null;
  /** The digest of what was written. */
  sha256: string;
}

const VERSION = 1;

function recordFile(context: CommandContext): string {
  return join(ownPaths(context).dataFolder, 'setup.json');
}

/** The oldest first. Throws `CommandFailed`. */
export function readWritten(context: CommandContext): Written[] {
  const file = recordFile(context);
  let record: unknown;
  try {
    record = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return [];
    throw unreadable(file, code ?? 'no JSON');
  }
  const { version, written } = (record ?? {}) as { version?: unknown; written?: unknown };
  if (version !== VERSION || !Array.isArray(written)) throw unreadable(file, 'not what this version of Poste writes');
  return written as Written[];
}

function unreadable(file: string, why: string): CommandFailed {
  const message = `${file}, which keeps what poste setup did, cannot be read (${why})`;
  const repair = 'repair it, or move it away if you will not undo what setup did';
  return new CommandFailed('failure', 'RECORD_UNREADABLE', `${message}: ${repair}`);
}

export async function addWritten(context: CommandContext, entry: Written): Promise<void> {
  const written = readWritten(context);
  if (!written.some((one) => isDeepStrictEqual(one, entry))) await write(context, [...written, entry]);
}

export async function removeWritten(context: CommandContext, entry: Written): Promise<void> {
  const written = readWritten(context);
  const left = written.filter((one) => !isDeepStrictEqual(one, entry));
  if (left.length < written.length) await write(context, left);
}

async function write(context: CommandContext, written: readonly Written[]): Promise<void> {
  makePrivateFolder(ownPaths(context).dataFolder);
  await replaceFile(recordFile(context), `${JSON.stringify({ version: VERSION, written }, null, 2)}\n`);
}

/** Throws `CommandFailed` when another command holds the lock. */
export async function withSetupLock<T>(context: CommandContext, work: () => Promise<T>): Promise<T> {
  const { dataFolder } = ownPaths(context);
  const lock = join(dataFolder, 'setup.lock');
  try {
    makePrivateFolder(dataFolder);
    await takeLock(lock);
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

async function takeLock(lock: string): Promise<void> {
  const { signal } = new AbortController();
  const own = await processFacts(process.pid, signal);
  const beside = `${lock}.${process.pid}`;
  writeFileSync(beside, JSON.stringify(typeof own === 'object' ? own.mark : { pid: process.pid, startedAt: '' }), {
    mode: 0o600,
  });
  try {
    while (!linkNew(beside, lock)) {
      const text = textIfThere(lock);
      const holder = attempt(() => JSON.parse(text ?? '') as ProcessMark);
      if (holder && (await isRunning(holder, processFacts, signal))) throw lockFailure(holder.pid);
      moveAway(lock, text);
    }
  } finally {
    rmSync(beside, { force: true });
  }
}

/** A link is there whole or not at all, and never in the place of another. */
function linkNew(from: string, to: string): boolean {
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
  if (textIfThere(aside) !== text) linkNew(aside, lock);
  rmSync(aside, { force: true });
}

function textIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return undefined;
  }
}

function lockFailure(pid: number): CommandFailed {
  const message = `another poste setup is at work (process ${pid}): wait until it has ended, and try again`;
  return new CommandFailed('conflict', 'SETUP_RUNS', message, { pid });
}
