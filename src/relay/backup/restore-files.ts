/** The folders and files of a restore beside those of the store: names, copies, syncs. */
import { randomBytes } from 'node:crypto';
import { constants, existsSync } from 'node:fs';
import { copyFile, link, mkdir, open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { LEVEL_FOLDER } from '../store/level.ts';
import { openLevel } from '../store/open.ts';
import { StoreRefused } from '../store/refused.ts';
import { syncFolder } from '../../lib/sync-folder.ts';

export interface RestoreNames {
  /** The database that is made of the backup. */
  restored: string;
  restoredPosition: string;
  /** What the database that served will be called. */
  replaced: string;
  /** Where a copy of it may be made, to be read. */
  replacedCopy: string;
}

const LEFT_DATABASE = /^log\.restoring-[0-9a-f]{8}$/;
const LEFT_FILE = /^(?:position\.restoring-[0-9a-f]{8}|restore\.json\.new)$/;

export function restoreNames(folder: string, nowMs: number): RestoreNames {
  const [mark, copyMark] = [randomBytes(4).toString('hex'), randomBytes(4).toString('hex')];
  const time = new Date(nowMs).toISOString().slice(0, 19).replaceAll(/[-:]/g, '');
  let replaced = `${LEVEL_FOLDER}.replaced-${time}Z`;
  for (let next = 2; existsSync(join(folder, replaced)); next++) replaced = `${LEVEL_FOLDER}.replaced-${time}Z-${next}`;
  return {
    restored: `${LEVEL_FOLDER}.restoring-${mark}`,
    restoredPosition: `position.restoring-${mark}`,
    replaced,
    replacedCopy: `${LEVEL_FOLDER}.restoring-${copyMark}`,
  };
}

/** Removes what restores that were cut short left behind. Throws `StoreRefused` when one is still under way. */
export async function removeLeftovers(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    if (LEFT_DATABASE.test(name)) {
      await refuseWhenLocked(path, folder);
      await rm(path, { recursive: true, force: true });
    } else if (LEFT_FILE.test(name)) await rm(path, { force: true });
  }
}

async function refuseWhenLocked(path: string, folder: string): Promise<void> {
  try {
    await (await openLevel(path, false, path)).close();
  } catch (error) {
    if (!(error instanceof StoreRefused) || error.reason !== 'locked') return;
    throw new StoreRefused('locked', `another restore into ${folder} is under way: wait for its end`);
  }
}

/**
 * A database that may be opened without a change to the one at `from`. What never changes is shared, not copied.
 * `without` names files that it is not to have.
 */
export async function cloneLevel(from: string, to: string, without: ReadonlySet<string> = new Set()): Promise<void> {
  await mkdir(to, { mode: 0o700 });
  for (const name of await readdir(from)) {
    if (name === 'LOCK' || without.has(name)) continue;
    const [source, copy] = [join(from, name), join(to, name)];
    const isShared = name.endsWith('.ldb') && (await linked(source, copy));
    if (!isShared) await copyFile(source, copy, constants.COPYFILE_FICLONE);
  }
}

/** False where the two places share no file system. */
async function linked(source: string, copy: string): Promise<boolean> {
  try {
    await link(source, copy);
    return true;
  } catch {
    return false;
  }
}

/** Brings every file of a closed database to the disk. */
export async function syncTree(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const file = await open(join(folder, name), 'r');
    try {
      await file.sync();
    } finally {
      await file.close();
    }
  }
  await syncFolder(folder);
}
