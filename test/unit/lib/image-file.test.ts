import { randomBytes } from 'node:crypto';
import { type FileHandle, open, readdir, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { type ImageKind, writeImage } from '../../../src/lib/image.ts';
import { writeImageFile } from '../../../src/lib/image-file.ts';
import type { Pair } from '../../../src/lib/pair-block.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const KIND: ImageKind<object, { runs: number }> = {
  magic: 'image of a test 1\n',
  parseHeader: (value) => value as object,
  noun: 'backup',
  isNone: 'no image of a test',
  check: () => {
    let runs = 0;
    return { see: () => void runs++, end: () => ({ runs }) };
  },
};

function imageOf(runs: AsyncIterable<Pair[]>): AsyncGenerator<Buffer> {
  return writeImage(KIND.magic, {}, runs);
}

async function* one(): AsyncGenerator<Pair[]> {
  yield [[Buffer.from('key'), Buffer.from('value')]];
}

test('what a killed writer of the file left is removed by a later one; what may still be written stays', async () => {
  const folder = await temporaryFolder();
  const [left, written, ofAnother] = ['a.backup.part-00000001', 'a.backup.part-00000002', 'b.backup.part-00000003'];
  for (const name of [left, written, ofAnother]) await writeFile(join(folder, name), '');
  const then = new Date(Date.now() - 2 * 3_600_000);
  for (const name of [left, ofAnother]) await utimes(join(folder, name), then, then);
  const path = join(folder, 'a.backup');
  expect(await writeImageFile(imageOf(one()), { path, replaces: false }, KIND)).toMatchObject({ runs: 1 });
  expect((await readdir(folder)).toSorted()).toEqual(['a.backup', written, ofAnother]);
});

afterEach(() => void vi.restoreAllMocks());

/** Every sync but the last of a file fails from now on. */
async function failEarlySyncs(folder: string): Promise<void> {
  const file = await open(join(folder, 'any'), 'w');
  await file.close();
  const failed = Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO', syscall: 'fdatasync' });
  vi.spyOn(Object.getPrototypeOf(file) as FileHandle, 'datasync').mockRejectedValue(failed);
}

/** More than is synced at once, and so little like itself that it stays as long. */
async function* large(): AsyncGenerator<Pair[]> {
  const noise = randomBytes(1 << 20);
  for (let nth = 0; nth < 28; nth++) yield [[Buffer.of(nth), noise]];
}

async function* breaking(): AsyncGenerator<Pair[]> {
  yield* large();
  throw new Error('the store failed');
}

test('a sync that fails while more is written leaves no file and is told', async () => {
  const folder = await temporaryFolder();
  await failEarlySyncs(folder);
  const written = writeImageFile(imageOf(large()), { path: join(folder, 'a.backup'), replaces: false }, KIND);
  await expect(written).rejects.toThrow('EIO');
  expect(await readdir(folder)).toEqual(['any']);
});

test('the error of a source is told also where a sync failed before it', async () => {
  const folder = await temporaryFolder();
  await failEarlySyncs(folder);
  const written = writeImageFile(imageOf(breaking()), { path: join(folder, 'a.backup'), replaces: false }, KIND);
  await expect(written).rejects.toThrow('the store failed');
  expect(await readdir(folder)).toEqual(['any']);
});
