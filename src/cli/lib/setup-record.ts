/**
 * The record of what Poste wrote for its owner outside its own store, so that exactly that can be undone: `setup.json`
 * beside the store. An entry is written before what it stands for, so that a command that was cut off can be undone as
 * well.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { ServerCommand, SettledProgram } from '../../host/hooks/mcp-settings.ts';
import { makePrivateFolder, ownPaths } from '../../host/base/paths.ts';
import { replaceFile } from '../../lib/files.ts';
import type { CommandContext } from './context.ts';
import { CommandFailed } from './exit.ts';

export type Written =
  | { type: 'host' }
  | { type: 'service' }
  /** A daemon is about to be started without a service: its `daemon` takes the place of this. */
  | { type: 'starting'; sinceMs: number }
  | { type: 'daemon'; pid: number }
  | { type: 'agent'; name: string }
  | { type: 'server'; program: SettledProgram; file: string; server: ServerCommand; edited?: Edited }
  /** `others`: hooks of Poste stood there that setup had not written. */
  | { type: 'hooks'; program: SettledProgram; file: string; others?: true; edited?: Edited }
  | { type: 'allowed'; program: SettledProgram; file: string; edited?: Edited };

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
