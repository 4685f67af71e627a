/** Files that must survive a crash: names brought to the disk, folders, and small files replaced as a whole. */
import { constants, copyFileSync, existsSync, statSync } from 'node:fs';
import { mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Brings the names in `folder` to the disk: a rename or a new file is durable only then. */
export async function syncFolder(folder: string): Promise<void> {
  await syncPath(folder, 'r');
}

/** Files that are synced together. */
const SYNCS = 4;

/** Brings the files in `folder` to the disk, and their names. */
export async function syncFiles(folder: string): Promise<void> {
  const names = (await readdir(folder)).values();
  const syncs = Array.from({ length: SYNCS }, async () => {
    for (const name of names) await syncPath(join(folder, name), 'r+');
  });
  await Promise.all(syncs);
  await syncFolder(folder);
}

async function syncPath(path: string, flags: 'r' | 'r+'): Promise<void> {
  const handle = await open(path, flags);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * Makes folders as `mkdir -p`, for their owner alone. Node's own recursion never ends below a folder that takes none,
 * as /proc.
 */
export async function makeFolders(folder: string): Promise<void> {
  if (existsSync(folder) && statSync(folder).isDirectory()) return;
  const parent = dirname(folder);
  if (parent !== folder) await makeFolders(parent);
  await mkdir(folder, { mode: 0o700 });
}

/** A path beside `path` that nothing has: `<path>.<why>-20251120T214823Z`, with `-2` and so on where that is taken. */
export function pathAside(path: string, why: string, nowMs: number): string {
  const stamp = new Date(nowMs).toISOString().replaceAll(/[-:]|\.\d+/g, '');
  for (let number = 1; ; number++) {
    const aside = `${path}.${why}-${stamp}${number === 1 ? '' : `-${number}`}`;
    if (!existsSync(aside)) return aside;
  }
}

/** Copies `path` under a new name beside it, and returns the path of the copy. Throws errors of the system. */
export function copyBeside(path: string, nowMs: number): string {
  for (;;) {
    const copy = pathAside(path, 'before-poste', nowMs);
    try {
      copyFileSync(path, copy, constants.COPYFILE_EXCL);
      return copy;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}

/**
 * Replaces a file by `content`: after a crash it holds either all of that or what it held before. Only its owner can
 * read a new file. Throws errors of the system.
 */
export async function replaceFile(path: string, content: string | Buffer): Promise<void> {
  const mode = statSync(path, { throwIfNoEntry: false })?.mode ?? 0o600;
  const beside = `${path}.poste-${process.pid}`;
  try {
    const file = await open(beside, 'w', mode & 0o777);
    try {
      await file.writeFile(content);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(beside, path);
  } catch (error) {
    await rm(beside, { force: true });
    throw error;
  }
  await syncFolder(dirname(path));
}
