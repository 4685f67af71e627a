/** Small files that others may have written: replaced as a whole, with a copy of what was there when that is asked. */
import { constants, copyFileSync, statSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { syncFolder } from './sync-folder.ts';

/** Copies `path` under a name beside it that nobody has, and returns the copy's path. Throws errors of the system. */
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

/** All of it or nothing, also in a crash. A new file is its owner's alone. Throws errors of the system. */
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
