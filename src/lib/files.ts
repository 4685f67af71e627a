/** Files that must survive a crash: names brought to the disk, and small files replaced as a whole. */
import { constants, copyFileSync, statSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Brings the names in `folder` to the disk: a rename or a new file is durable only then. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Copies `path` under a new name beside it, and returns the path of the copy. Throws errors of the system. */
export function copyBeside(path: string, nowMs: number): string {
  const stamp = new Date(nowMs).toISOString().replaceAll(/[-:]|\.\d+/g, '');
  for (let number = 1; ; number++) {
    const copy = `${path}.before-poste-${stamp}${number === 1 ? '' : `-${number}`}`;
    try {
      copyFileSync(path, copy, constants.COPYFILE_EXCL);
      return copy;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}

/**
 * Replaces a file by `text`: after a crash it holds either all of `text` or what it held before. Only its owner can read
 * a new file. Throws errors of the system.
 */
export async function replaceFile(path: string, text: string): Promise<void> {
  const mode = statSync(path, { throwIfNoEntry: false })?.mode ?? 0o600;
  const beside = `${path}.poste-${process.pid}`;
  try {
    const file = await open(beside, 'w', mode & 0o777);
    try {
      await file.writeFile(text);
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
