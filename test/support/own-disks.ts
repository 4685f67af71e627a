/** Whether a test can give a program a small disk of its own: it is root, and the system lets it mount one. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { disposableFolder } from './temporary-folder.ts';

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
