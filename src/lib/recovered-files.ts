/** Checks what a database of LevelDB begins from, before it is opened. Both halves keep their stores in such. */
import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';

/** Its write-ahead logs, and what names its table files. */
const RECOVERED_FROM = /^(?:CURRENT|MANIFEST-\d+|\d+\.log)$/;
const READ_BYTES = 64 << 10;

interface Unreadable {
  name: string;
  /** The code of the system. */
  code: string;
}

/**
 * The first file that cannot be read of those that LevelDB is about to recover from. LevelDB passes over what it cannot
 * read of its write-ahead log, and deletes that afterwards: an error of the disk, a file of another user or too many
 * open files would lose what is there.
 */
export async function unreadableFile(folder: string): Promise<Unreadable | undefined> {
  const names = await readdir(folder).catch(() => []);
  for (const name of names.filter((one) => RECOVERED_FROM.test(one))) {
    try {
      await readThrough(join(folder, name));
    } catch (error) {
      const { code = 'unknown error' } = error as NodeJS.ErrnoException;
      // The process that has the database open deleted it: the lock will show that.
      if (code !== 'ENOENT') return { name, code };
    }
  }
  return undefined;
}

/** A stream would take new memory for each piece. */
async function readThrough(path: string): Promise<void> {
  const file = await open(path);
  try {
    const piece = Buffer.allocUnsafe(READ_BYTES);
    while ((await file.read(piece)).bytesRead > 0);
  } finally {
    await file.close();
  }
}
