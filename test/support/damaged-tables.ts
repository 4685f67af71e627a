/** Tables of LevelDB that it cannot read: for tests of what is said of them, and of what goes on without them. */
import { readFile, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { LEVEL_FOLDER } from '../../src/relay/store/level.ts';
import { withRawLevel } from './raw-level.ts';

/** LevelDB's end of a table, without which it is none. */
const FOOTER_BYTES = 48;

/** Everything that the closed store in `folder` holds lies in tables from here on, and in nothing else. */
export function intoTables(folder: string): Promise<void> {
  return withRawLevel(folder, (level) => level.compactRange(Buffer.of(0), Buffer.of(0xff)));
}

export async function tablesIn(folder: string): Promise<string[]> {
  return (await readdir(join(folder, LEVEL_FOLDER))).filter((name) => name.endsWith('.ldb')).toSorted();
}

/** Takes the end off the tables of the store in `folder`, or off those that are named. */
export async function damageTables(folder: string, names?: readonly string[]): Promise<void> {
  for (const name of names ?? (await tablesIn(folder))) {
    const path = join(folder, LEVEL_FOLDER, name);
    const table = await readFile(path);
    table.fill(0, table.length - FOOTER_BYTES);
    await writeFile(path, table);
  }
}
