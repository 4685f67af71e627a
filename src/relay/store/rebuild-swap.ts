/**
 * Puts a rebuilt database in the place of the store's own, by renames:
 *
 *   log.rebuilding                 being filled; worth nothing, whoever finds it may remove it
 *   log.rebuilt                    whole and durable
 *   log -> log.replaced-<time>     and from here on the store has no database
 *   log.rebuilt -> log             until this
 *
 * A crash between the last two is mended by the next start, which takes the last step itself. One before them leaves
 * the old database in use; a `log.rebuilt` beside it is out of date as soon as a relay runs, so that one removes it.
 */
import { existsSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { LEVEL_FOLDER, levelAt } from './level.ts';
import { StoreRefused } from './refused.ts';
import { syncFolder } from '../../system/sync-folder.ts';

export const REBUILDING_FOLDER = `${LEVEL_FOLDER}.rebuilding`;
const REBUILT_FOLDER = `${LEVEL_FOLDER}.rebuilt`;

/**
 * Swaps the finished `log.rebuilding` in; answers where the former database is kept. Nobody may have that one open: an
 * open one goes on writing to, and deleting from, the folder that has its name. Throws `StoreRefused`.
 */
export async function swapIn(folder: string, nowMs: number): Promise<string> {
  const place = (name: string): string => join(folder, name);
  await rm(place(REBUILT_FOLDER), { recursive: true, force: true });
  await rename(place(REBUILDING_FOLDER), place(REBUILT_FOLDER));
  await syncFolder(folder);
  const replaced = place(`${LEVEL_FOLDER}.replaced-${new Date(nowMs).toISOString().replace(/[:.]/g, '')}`);
  await rename(place(LEVEL_FOLDER), replaced);
  await refuseOpen(replaced, place(LEVEL_FOLDER));
  await syncFolder(folder);
  await takeLastStep(folder);
  return replaced;
}

/** Puts the former database back when a relay was started on it in the last moment. */
async function refuseOpen(replaced: string, current: string): Promise<void> {
  const level = levelAt(replaced);
  try {
    await level.open({ createIfMissing: false });
    await level.close();
  } catch (error) {
    if ((error as { cause?: { code?: string } }).cause?.code !== 'LEVEL_LOCKED') return;
    await rename(replaced, current);
    throw new StoreRefused(
      'locked',
      `a relay was started on the store at ${current} meanwhile: stop it, and begin again`,
    );
  }
}

/** Whether a rebuilt database waits to take the place of one that went aside. */
export function isRebuildUnderWay(folder: string): boolean {
  return !existsSync(join(folder, LEVEL_FOLDER)) && existsSync(join(folder, REBUILT_FOLDER));
}

/** Finishes a swap that was interrupted. Does nothing where a database is in its place. */
export async function finishRebuild(folder: string): Promise<void> {
  if (isRebuildUnderWay(folder)) await takeLastStep(folder);
}

/** Removes what an interrupted rebuild left beside the database that is in use. The caller holds its lock. */
export async function dropRebuilt(folder: string): Promise<void> {
  for (const name of [REBUILDING_FOLDER, REBUILT_FOLDER]) {
    await rm(join(folder, name), { recursive: true, force: true });
  }
}

async function takeLastStep(folder: string): Promise<void> {
  try {
    await rename(join(folder, REBUILT_FOLDER), join(folder, LEVEL_FOLDER));
  } catch (error) {
    // A relay that was started in between took it.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || !existsSync(join(folder, LEVEL_FOLDER))) throw error;
  }
  await syncFolder(folder);
}
