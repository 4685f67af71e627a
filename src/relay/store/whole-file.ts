/**
 * A file of pairs on its way to its place.
 *
 * Invariants:
 *   - it is written aside (`<file>.part-…`, mode 0600) and takes its name when it is whole, checked and on disk;
 *   - a file that is there is never replaced unless that was asked for, also when it comes meanwhile;
 *   - whatever ends the writing removes what was written aside.
 */
import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { type FileHandle, link, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { PairFileDamaged } from './pair-file.ts';
import { syncFolder } from '../../system/sync-folder.ts';

const PART_RANDOM_BYTES = 4;

export type UnwrittenReason =
  | 'exists'
  | 'no-folder'
  | 'is-folder'
  | 'no-file'
  | 'no-right'
  | 'no-space'
  | 'not-whole'
  | 'unreadable'
  | 'failed';

/** Thrown when there is no file. The message is one sentence, with the next step. */
export class FileUnwritten extends Error {
  readonly reason: UnwrittenReason;

  constructor(reason: UnwrittenReason, message: string) {
    super(message);
    this.reason = reason;
  }
}

export interface WholeFileOptions {
  path: string;
  /** Whether a file of the name may be replaced. */
  replaces: boolean;
  /** What it is to be, as messages name it. */
  what: string;
}

/**
 * Writes the file that `source` is. `check` reads it as it is written, to its end, and throws `PairFileDamaged` when it
 * is not whole. Throws `FileUnwritten`, or what `source` throws.
 */
export async function writeWholeFile<T>(
  source: AsyncIterable<Buffer>,
  check: (chunks: AsyncIterable<Buffer>) => Promise<T>,
  { path, replaces, what }: WholeFileOptions,
): Promise<T> {
  const aside = `${path}.part-${randomBytes(PART_RANDOM_BYTES).toString('hex')}`;
  try {
    refuseTaken(path, replaces);
    const file = await open(aside, 'wx', 0o600);
    let written: T;
    try {
      written = await check(writtenTo(file, source));
      await file.sync();
    } finally {
      await file.close();
    }
    if (replaces) await rename(aside, path);
    else await takeName(aside, path);
    await syncFolder(dirname(path));
    return written;
  } catch (error) {
    await rm(aside, { force: true }).catch(() => undefined);
    throw unwritten(error, path, what);
  }
}

/** Throws `FileUnwritten` for a name that may not be taken. A device or a pipe is no place to rename a file to. */
function refuseTaken(path: string, replaces: boolean): void {
  const found = statSync(path, { throwIfNoEntry: false });
  if (!found) return;
  if (found.isDirectory()) throw isFolder(path);
  if (!found.isFile()) {
    throw new FileUnwritten('no-file', `${path} is no file: name one`);
  }
  if (!replaces) throw exists(path);
}

/** Renames, unless there is a file of the name. */
async function takeName(aside: string, path: string): Promise<void> {
  try {
    await link(aside, path);
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (!['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'].includes(code)) throw error;
    // A file system without links: the name is taken by an empty file first.
    await (await open(path, 'wx', 0o600)).close();
    await rename(aside, path);
    return;
  }
  await rm(aside);
}

async function* writtenTo(file: FileHandle, source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  for await (const chunk of source) {
    for (let at = 0; at < chunk.length; ) at += (await file.write(chunk, at)).bytesWritten;
    yield chunk;
  }
}

function unwritten(error: unknown, path: string, what: string): unknown {
  if (error instanceof PairFileDamaged) {
    return new FileUnwritten('not-whole', `${what} did not arrive whole (${error.message}): take it again`);
  }
  const { code, syscall } = error as NodeJS.ErrnoException;
  // What the network or the store did is told by whoever made the source.
  if (typeof code !== 'string' || typeof syscall !== 'string' || syscall === 'read' || syscall === 'connect') {
    return error;
  }
  switch (code) {
    case 'EEXIST':
      return exists(path);
    case 'ENOENT':
    case 'ENOTDIR':
      return new FileUnwritten(
        'no-folder',
        `there is no folder ${dirname(path)} to write to: make it, or name another`,
      );
    case 'EISDIR':
      return isFolder(path);
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return new FileUnwritten('no-right', `${path} may not be written (${code}): name a folder that you may write to`);
    case 'ENOSPC':
    case 'EDQUOT':
      return new FileUnwritten('no-space', `there is no room for ${path} (${code}): make room, or name another place`);
    default:
      return new FileUnwritten('failed', `${path} cannot be written (${code}): name another place`);
  }
}

function isFolder(path: string): FileUnwritten {
  return new FileUnwritten('is-folder', `${path} is a folder: name a file in it`);
}

function exists(path: string): FileUnwritten {
  return new FileUnwritten('exists', `${path} is there already: name another file, or say --force to replace it`);
}
