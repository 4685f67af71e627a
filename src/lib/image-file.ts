/**
 * Writes an image, a backup or an archive, into a file.
 *
 * Invariants:
 *   - it is written to `<file>.part-…` (mode 0600) and renamed when it is complete, checked and on disk;
 *   - an existing file is replaced only when the caller asks for it, also when it appears meanwhile;
 *   - a failure or an interruption removes the `.part-…` file, and a later writer of the same file the one of a writer
 *     that was killed.
 */
import { randomBytes } from 'node:crypto';
import { type Stats, statSync } from 'node:fs';
import { type FileHandle, link, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import {
  type CheckedImage,
  type CheckOptions,
  ImageDamaged,
  type ImageKind,
  type ImageNoun,
  checkImage,
} from './image.ts';
import { syncFolder } from './files.ts';
import type { StopSignal } from './periodic-task.ts';

const PART_RANDOM_BYTES = 4;
const SYNCED_TOGETHER_BYTES = 16 << 20;

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

/** No file was written. The message is one sentence, with the next step. */
export class ImageUnwritten extends Error {
  readonly reason: UnwrittenReason;

  constructor(reason: UnwrittenReason, message: string) {
    super(message);
    this.reason = reason;
  }
}

/** The thing that a command can do instead of writing a file. */
const OR_ELSE: Readonly<Record<ImageNoun, string>> = { backup: ', or - to write to standard output', archive: '' };

export interface ImageFileOptions extends Pick<CheckOptions, 'progress'> {
  path: string;
  /** Says whether an existing file may be replaced. */
  replaces: boolean;
  /** The names of files of which the caller is the only writer, in the folder of this one. */
  ownNames?: RegExp;
  /** Gives the file up. */
  signal?: StopSignal;
}

/** Nobody writes any more to what was not changed for so long. */
const LEFT_PART_MS = 3_600_000;
const PART_NAME = /^(?<file>.+)\.part-[0-9a-f]{8}$/;

/**
 * Removes what writers left beside this file that were killed: of files with a name of the caller's at once, and of
 * this one when nobody writes it any more. `aside` was made just now.
 */
async function removeLeftParts({ path, ownNames }: ImageFileOptions, aside: string, now: Stats): Promise<void> {
  const folder = dirname(path);
  for (const one of await readdir(folder).catch(() => [])) {
    const file = PART_NAME.exec(one)?.groups?.['file'];
    const part = join(folder, one);
    if (file === undefined || one === basename(aside)) continue;
    const changed = file === basename(path) ? await stat(part).catch(() => undefined) : undefined;
    const isLeft = changed !== undefined && now.mtimeMs - changed.mtimeMs > LEFT_PART_MS;
    if (isLeft || ownNames?.test(file)) await rm(part, { force: true }).catch(() => undefined);
  }
}

/**
 * Writes the image that `source` is, and checks it as it is written. Throws `ImageUnwritten`, what `source` or the
 * check of the contents throws, or an error when the signal aborts before the end.
 */
export async function writeImageFile<Header, Contents extends object>(
  source: AsyncIterable<Buffer>,
  options: ImageFileOptions,
  kind: ImageKind<Header, Contents>,
): Promise<CheckedImage<Header, Contents>> {
  const { path, replaces, signal, progress } = options;
  const aside = `${path}.part-${randomBytes(PART_RANDOM_BYTES).toString('hex')}`;
  try {
    refuseTaken(path, replaces, kind.noun);
    const file = await open(aside, 'wx', 0o600);
    let written: CheckedImage<Header, Contents>;
    try {
      await removeLeftParts(options, aside, await file.stat());
      written = await checkImage(writtenTo(file, untilStopped(source, signal)), kind, { progress });
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
    throw writeFailure(error, path, kind.noun);
  }
}

async function* untilStopped(source: AsyncIterable<Buffer>, signal?: StopSignal): AsyncGenerator<Buffer> {
  for await (const chunk of source) {
    if (signal?.aborted) throw new Error('the file is given up, as its writer stops');
    yield chunk;
  }
}

/** Throws `ImageUnwritten` for a name that may not be used. No file can be renamed to a device or a pipe. */
function refuseTaken(path: string, replaces: boolean, what: ImageNoun): void {
  const found = statSync(path, { throwIfNoEntry: false });
  if (!found) return;
  if (found.isDirectory()) throw isFolder(path);
  if (!found.isFile()) {
    throw new ImageUnwritten('no-file', `${path} is not a regular file: name one${OR_ELSE[what]}`);
  }
  if (!replaces) throw exists(path);
}

/** Renames, unless the name exists. */
async function takeName(aside: string, path: string): Promise<void> {
  try {
    await link(aside, path);
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (!['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'].includes(code)) throw error;
    // A file system without hard links: an empty file takes the name first.
    await (await open(path, 'wx', 0o600)).close();
    await rename(aside, path);
    return;
  }
  await rm(aside);
}

/** Sends what was written to the disk while the rest follows, so that little is left for the sync at the end. */
async function* writtenTo(file: FileHandle, source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let syncing = Promise.resolve();
  let unsynced = 0;
  try {
    for await (const chunk of source) {
      for (let at = 0; at < chunk.length; ) at += (await file.write(chunk, at)).bytesWritten;
      unsynced += chunk.length;
      if (unsynced >= SYNCED_TOGETHER_BYTES) {
        await syncing;
        syncing = file.datasync();
        // Seen when its turn comes.
        syncing.catch(() => undefined);
        unsynced = 0;
      }
      yield chunk;
    }
    await syncing;
  } finally {
    // The file is closed next; an error of the source is told and not one of this.
    await syncing.catch(() => undefined);
  }
}

function writeFailure(error: unknown, path: string, what: ImageNoun): unknown {
  if (error instanceof ImageDamaged) {
    return new ImageUnwritten('not-whole', `the ${what} did not arrive complete (${error.message}): take it again`);
  }
  const { code, syscall } = error as NodeJS.ErrnoException;
  // The maker of the source reports errors of the network or the store.
  if (typeof code !== 'string' || typeof syscall !== 'string' || syscall === 'read' || syscall === 'connect') {
    return error;
  }
  switch (code) {
    case 'EEXIST':
      return exists(path);
    case 'ENOENT':
    case 'ENOTDIR':
      return new ImageUnwritten('no-folder', `the folder ${dirname(path)} does not exist: make it, or name another`);
    case 'EISDIR':
      return isFolder(path);
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return new ImageUnwritten(
        'no-right',
        `${path} may not be written (${code}): name a folder that you may write to`,
      );
    case 'ENOSPC':
    case 'EDQUOT':
      return new ImageUnwritten('no-space', `there is no room for ${path} (${code}): make room, or name another place`);
    default:
      return new ImageUnwritten('failed', `${path} cannot be written (${code}): name another place`);
  }
}

function isFolder(path: string): ImageUnwritten {
  return new ImageUnwritten('is-folder', `${path} is a folder: name a file in it`);
}

function exists(path: string): ImageUnwritten {
  return new ImageUnwritten('exists', `${path} exists already: name another file, or add --force to replace it`);
}
