/** Small disks of a program's own, which can be full: where the tests are root's and the system lets them mount one. */
import { execFile } from 'node:child_process';
import { cp, mkdir, open, rename, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { disposableFolder } from './temporary-folder.ts';
import { atTestEnd } from './test-end.ts';

/** Room for a server with little in it, and its WAL. */
export const POSTGRES_DISK_BYTES = 384 << 20;

export async function hasOwnDisks(): Promise<boolean> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return false;
  const { folder, remove } = await disposableFolder();
  try {
    await promisify(execFile)('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder]);
    await promisify(execFile)('umount', [folder]);
    return true;
  } catch {
    return false;
  } finally {
    await remove();
  }
}

const FILLER = 'filler';
const CHUNK_BYTES = 1 << 20;

/** The folder is a disk of so many bytes from now on, with what it held, until the test is over. */
export async function diskAt(folder: string, bytes: number): Promise<void> {
  const held = `${folder}.held`;
  await rename(folder, held);
  await mkdir(folder);
  await promisify(execFile)('mount', ['-t', 'tmpfs', '-o', `size=${bytes},mode=700`, 'tmpfs', folder]);
  atTestEnd(async () => {
    await promisify(execFile)('umount', ['-l', folder]);
  });
  await cp(held, folder, { recursive: true });
  await rm(held, { recursive: true });
}

/** Nothing more can be written there. */
export async function fillDisk(folder: string): Promise<void> {
  const { bavail, bsize } = await statfs(folder);
  const file = await open(join(folder, FILLER), 'w');
  try {
    for (let left = bavail * bsize; left > 0; left -= CHUNK_BYTES)
      await file.write(Buffer.alloc(Math.min(left, CHUNK_BYTES)));
  } catch (error) {
    // A program wrote meanwhile.
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  } finally {
    await file.close();
  }
}

export async function freeDisk(folder: string): Promise<void> {
  await rm(join(folder, FILLER), { force: true });
}
