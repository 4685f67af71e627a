/** The database in the folder of a stopped relay, a view or a store of its own, for a command that moves a log. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { finishCutovers } from '../store/cutover.ts';
import { LEVEL_FOLDER, type Level } from '../store/level.ts';
import { openLevel, openServing } from '../store/open.ts';
import { StoreRefused } from '../store/refused.ts';
import { type ViewMark, readViewMark } from '../store/view-mark.ts';
import { type NotesPlace, witnessFile } from './witness.ts';

/** Opens it, which locks it, and closes it again. Throws `StoreRefused`. */
export async function inStoppedStore<T>(
  place: NotesPlace,
  work: (level: Level, mark: ViewMark | undefined) => Promise<T>,
): Promise<T> {
  const { folder, positionFile } = place;
  await finishCutovers(folder, { positionFile });
  const levelFolder = join(folder, LEVEL_FOLDER);
  if (!existsSync(levelFolder))
    throw new StoreRefused('missing', `there is no store at ${folder}: name its folder with --store-dir`);
  for (;;) {
    const level = await openServing(folder, () => openLevel(levelFolder, true, witnessFile(place)));
    if (!level) continue;
    try {
      return await work(level, await readViewMark(level));
    } finally {
      await level.close();
    }
  }
}
