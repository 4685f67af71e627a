/** The relay's database with nothing around it: for tests that damage it behind the relay's back. */
import { join } from 'node:path';
import { PREFIX, logKey, prefixRange } from '../../src/relay/store/keys.ts';
import { type Level, levelAt, LEVEL_FOLDER } from '../../src/relay/store/level.ts';
import { isRun, recordsIn } from '../../src/relay/store/record-run.ts';

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

/** Puts every log record under its own key, as schema 2 did, so that a test can take one of them away. */
export async function unpackRecords(level: Level): Promise<void> {
  for (const pair of await level.iterator(prefixRange(PREFIX.log)).all()) {
    if (!isRun(pair[1])) continue;
    for (const [lsn, record] of recordsIn(pair)) await level.put(logKey(lsn), record);
  }
}
