/**
 * The lock of a database that is not opened: for what must look at its files before LevelDB does, which begins to
 * compact as soon as it has opened them, and so reads tables and writes them anew.
 *
 * The lock is LevelDB's own, of an empty database in a temporary folder whose LOCK file is a link to the other one.
 */
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { levelAt } from './level.ts';
import { isCurrentTorn, mendCurrent } from './live-tables.ts';
import { damagedTables, type TableDamage } from './table-check.ts';

export interface LevelLock {
  close(): Promise<void>;
}

/**
 * `undefined` where the lock cannot be had: to open the database then says why. Throws errors of the system about the
 * temporary folder. Not for a database that this process has open: the system drops a process's lock on a file as soon
 * as one of its descriptors is closed.
 */
export async function lockLevel(folder: string): Promise<LevelLock | undefined> {
  const beside = await mkdtemp(join(tmpdir(), 'poste-lock-'));
  const remove = () => rm(beside, { recursive: true, force: true });
  try {
    await symlink(join(resolve(folder), 'LOCK'), join(beside, 'LOCK'));
    const level = levelAt(beside);
    await level.open();
    const close = async (): Promise<void> => {
      await level.close();
      await remove();
    };
    return { close };
  } catch (error) {
    await remove();
    const { code, message } = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
    if (code === 'LEVEL_LOCKED' || /\/LOCK: /.test(message)) return undefined;
    throw error;
  }
}

/** The damaged tables of a database that this process does not have open; none where its lock cannot be had. */
export async function damagedTablesUnopened(folder: string): Promise<TableDamage[]> {
  const lock = await lockLevel(folder);
  try {
    return lock ? await damagedTables(folder) : [];
  } finally {
    await lock?.close();
  }
}

/** As `mendCurrent`, for a database that is not open here: `undefined` too where nothing is to be mended. */
export async function mendCurrentUnopened(folder: string): Promise<string | undefined> {
  if (!(await isCurrentTorn(folder))) return undefined;
  const lock = await lockLevel(folder);
  try {
    return lock && (await mendCurrent(folder));
  } finally {
    await lock?.close();
  }
}
