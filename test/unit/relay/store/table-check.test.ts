import { randomBytes } from 'node:crypto';
import { readFile, readdir, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type Level, levelAt } from '../../../../src/relay/store/level.ts';
import { liveTables, damagedTables } from '../../../../src/relay/store/level-files.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { IS_THOROUGH } from '../../../support/thorough.ts';

/** One byte of so many of a table is altered; both share no factor with the 8 bits of a byte. */
const STEP = IS_THOROUGH ? 37 : 149;

/** A closed database whose pairs are in tables: some that compress well, some that do not. */
async function tables(pairs = 3_000): Promise<string> {
  const folder = join(await temporaryFolder(), 'level');
  const level: Level = levelAt(folder);
  await level.open();
  for (let from = 0; from < pairs; from += 500) {
    const writes = level.batch();
    for (let at = from; at < from + 500; at++) {
      const key = Buffer.from(`key ${String(at).padStart(8, '0')}`);
      writes.put(key, at % 2 === 0 ? Buffer.alloc(at % 900, at) : randomBytes(at % 900));
    }
    await writes.write();
  }
  await level.compactRange(Buffer.from('a'), Buffer.from('z'));
  await level.close();
  return folder;
}

async function onlyTable(folder: string): Promise<string> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.ldb'));
  expect(names.length).toBeGreaterThan(0);
  return join(folder, names[0] ?? '');
}

describe('a table file', () => {
  test('that is whole is no damage, whatever its blocks look like', async () => {
    expect(await damagedTables(await tables())).toEqual([]);
    expect(await damagedTables(await tables(20_000))).toEqual([]);
  });

  test('in which a byte is another is damaged, wherever it is but in the padding of its end', async () => {
    const folder = await tables(500);
    const file = await onlyTable(folder);
    const whole = await readFile(file);
    const passed: number[] = [];
    for (let at = 0; at < whole.length; at += at < whole.length - 400 ? STEP : 1) {
      const altered = Buffer.from(whole);
      altered.writeUInt8(altered.readUInt8(at) ^ (1 << (at % 8)), at);
      await writeFile(file, altered);
      if ((await damagedTables(folder)).length === 0) passed.push(at - whole.length);
    }
    // The footer pads two handles to 40 bytes.
    expect(passed.filter((at) => at < -48 || at >= -8)).toEqual([]);
    expect(passed.length).toBeLessThan(40);
  });

  test('that is cut is damaged at any length', async () => {
    const folder = await tables(500);
    const file = await onlyTable(folder);
    const { length } = await readFile(file);
    for (const left of [length - 1, length - 48, 1000, 47, 8, 1, 0]) {
      await truncate(file, left);
      expect(await damagedTables(folder)).toMatchObject([{ what: 'has no end' }]);
    }
  });

  test('that the database does not consist of is passed over, as LevelDB deletes it', async () => {
    const folder = await tables(500);
    const whole = (await readdir(folder)).filter((name) => name.endsWith('.ldb'));
    // Of a table that a crash cut short, and of one that was replaced and not deleted yet.
    await writeFile(join(folder, '000900.ldb'), '');
    await writeFile(join(folder, '000901.ldb'), randomBytes(400));
    expect(await damagedTables(folder)).toEqual([]);
    expect(await liveTables(folder)).toEqual(new Set(whole.map((name) => Number.parseInt(name, 10))));
    const level: Level = levelAt(folder);
    await level.open();
    await level.close();
    expect(await readdir(folder)).not.toContain('000900.ldb');
  });

  test('is looked at, whatever it is, where nothing says what the database consists of', async () => {
    const folder = await tables(500);
    await writeFile(join(folder, '000900.ldb'), '');
    await rm(join(folder, 'CURRENT'));
    expect(await damagedTables(folder)).toMatchObject([{ file: '000900.ldb' }]);
  });
});
