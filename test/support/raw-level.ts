/** The relay's database with nothing around it: for tests that damage it behind the relay's back. */
import { join } from 'node:path';
import { type Level, levelAt, LEVEL_FOLDER } from '../../src/relay/store/level.ts';

/** Opens the closed store in `folder`, lets `work` at it, and closes it again. */
export async function withRawLevel<T>(folder: string, work: (level: Level) => Promise<T>): Promise<T> {
  const level = levelAt(join(folder, LEVEL_FOLDER));
  await level.open({ createIfMissing: false });
  try {
    return await work(level);
  } finally {
    await level.close();
  }
}
