/**
 * Writes a backup, or an archive, into a file.
 *
 * Invariants:
 *   - it is written to `<file>.part-…` (mode 0600) and renamed when it is complete, checked and on disk;
 *   - an existing file is replaced only when the caller asks for it, also when it appears meanwhile;
 *   - a failure or an interruption removes the `.part-…` file, and a later writer of the same file the one of a writer that
 *     was killed.
 */
import { randomBytes } from 'node:crypto';
import { type Stats, statSync } from 'node:fs';
import { type FileHandle, link, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { BackupDamaged, type BackupKind, type ContentDamage, readContainer, releaseRun } from './backup-container.ts';
import type { Pair } from './pair-block.ts';
import { syncFolder } from './files.ts';

const PART_RANDOM_BYTES = 4;
const SYNCED_TOGETHER_BYTES = 16 << 20;

/** A backup that was read to its end and found complete and unaltered. */
export interface CheckedContainer<Header> {
  header: Header;
  /** The size of the file. */
  bytes: number;
  /** The size of the contents before compression. */
  contentBytes: number;
  /** The hash of the file. */
  sha256: string;
}

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

/** Thrown when no file was written. The message is one sentence, with the next step. */
export class BackupUnwritten extends Error {
  readonly reason: UnwrittenReason;

  constructor(reason: UnwrittenReason, message: string) {
    super(message);
    this.reason = reason;
  }
}

/** The kind of file, as messages name it. */
export type WrittenKind = 'backup' | 'archive';

/** What a command can do instead of writing a file. */
const OR_ELSE: Readonly<Record<WrittenKind, string>> = { backup: ', or - to write to standard output', archive: '' };

export interface BackupFileOptions {
  path: string;
  /** Whether an existing file may be replaced. */
  replaces: boolean;
}

/** Nobody writes any more to what was not changed for so long. */
const LEFT_PART_MS = 3_600_000;
const PART_ENDING = /^\.part-[0-9a-f]{8}$/;

/** Removes what writers of this file left beside it that were killed; `now` is of a file that was made just now. */
async function removeLeftParts(path: string, now: Stats): Promise<void> {
  const [folder, name] = [dirname(path), basename(path)];
  for (const one of await readdir(folder).catch(() => [])) {
    if (!one.startsWith(name) || !PART_ENDING.test(one.slice(name.length))) continue;
    const part = join(folder, one);
    const changed = await stat(part).catch(() => undefined);
    if (changed && now.mtimeMs - changed.mtimeMs > LEFT_PART_MS) await rm(part, { force: true }).catch(() => undefined);
  }
}

/**
 * Writes the bytes of `source`; `check` reads them all as they are written.
 * Throws `BackupUnwritten`, or what `source` or `check` throws.
 */
export async function writeBackupAside<Checked>(
  source: AsyncIterable<Buffer>,
  { path, replaces }: BackupFileOptions,
  check: (chunks: AsyncIterable<Buffer>) => Promise<Checked>,
  what: WrittenKind = 'backup',
): Promise<Checked> {
  const aside = `${path}.part-${randomBytes(PART_RANDOM_BYTES).toString('hex')}`;
  try {
    refuseTaken(path, replaces, what);
    const file = await open(aside, 'wx', 0o600);
    let written: Checked;
    try {
      await removeLeftParts(path, await file.stat());
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

/** Throws `BackupUnwritten` for a name that may not be used. No file can be renamed to a device or a pipe. */
function refuseTaken(path: string, replaces: boolean, what: WrittenKind): void {
  const found = statSync(path, { throwIfNoEntry: false });
  if (!found) return;
  if (found.isDirectory()) throw isFolder(path);
  if (!found.isFile()) {
    throw new BackupUnwritten('no-file', `${path} is not a regular file: name one${OR_ELSE[what]}`);
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

/**
 * Reads a backup to its end and checks all of it. The bytes that `seen` is given are gone when it returns. Throws
 * `BackupDamaged`, or what `source` throws.
 */
export async function checkedContainer<Header>(
  source: AsyncIterable<Buffer>,
  kind: BackupKind<Header>,
  seen: (run: readonly Pair[]) => void,
  progress: (bytes: number) => void = () => undefined,
): Promise<{ checked: CheckedContainer<Header>; damage: ContentDamage }> {
  let bytes = 0;
  const counted = async function* (): AsyncGenerator<Buffer> {
    for await (const chunk of source) {
      bytes += chunk.length;
      progress(bytes);
      yield chunk;
    }
  };
  const { header, pairs, fileHash } = await readContainer(counted(), kind);
  for (;;) {
    const next = await pairs.next();
    if (next.done) {
      const { bytes: contentBytes, ...damage } = next.value;
      return { checked: { header, bytes, contentBytes, sha256: fileHash() }, damage };
    }
    seen(next.value);
    releaseRun(next.value);
  }
}

/** What was written goes to the disk beside what follows, so that little is left for the sync at the end. */
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

function unwritten(error: unknown, path: string, what: WrittenKind): unknown {
  if (error instanceof BackupDamaged) {
    return new BackupUnwritten('not-whole', `the ${what} did not arrive complete (${error.message}): take it again`);
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
      return new BackupUnwritten('no-folder', `the folder ${dirname(path)} does not exist: make it, or name another`);
    case 'EISDIR':
      return isFolder(path);
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return new BackupUnwritten(
        'no-right',
        `${path} may not be written (${code}): name a folder that you may write to`,
      );
    case 'ENOSPC':
    case 'EDQUOT':
      return new BackupUnwritten(
        'no-space',
        `there is no room for ${path} (${code}): make room, or name another place`,
      );
    default:
      return new BackupUnwritten('failed', `${path} cannot be written (${code}): name another place`);
  }
}

function isFolder(path: string): BackupUnwritten {
  return new BackupUnwritten('is-folder', `${path} is a folder: name a file in it`);
}

function exists(path: string): BackupUnwritten {
  return new BackupUnwritten('exists', `${path} exists already: name another file, or add --force to replace it`);
}
