import { type FileHandle, open, readdir, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { writeImageFile } from '../../../src/lib/image-file.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

async function* source(): AsyncGenerator<Buffer> {
  yield Buffer.from('whole');
}

test('what a killed writer of the file left is removed by a later one, and what may still be written to stays', async () => {
  const folder = await temporaryFolder();
  const [left, written, ofAnother] = ['a.backup.part-00000001', 'a.backup.part-00000002', 'b.backup.part-00000003'];
  for (const name of [left, written, ofAnother]) await writeFile(join(folder, name), '');
  const then = new Date(Date.now() - 2 * 3_600_000);
  for (const name of [left, ofAnother]) await utimes(join(folder, name), then, then);
  await writeImageFile(source(), { path: join(folder, 'a.backup'), replaces: false }, async (chunks) => {
    for await (const chunk of chunks) expect(chunk.toString()).toBe('whole');
  });
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

async function readAll(chunks: AsyncIterable<Buffer>): Promise<number> {
  let bytes = 0;
  for await (const chunk of chunks) bytes += chunk.length;
  return bytes;
}

const MANY_BYTES = Buffer.alloc(16 << 20);

async function* large(): AsyncGenerator<Buffer> {
  yield MANY_BYTES;
}

async function* breaking(): AsyncGenerator<Buffer> {
  yield* large();
  throw new Error('the store failed');
}

test('a sync that fails while more is written leaves no file and is told', async () => {
  const folder = await temporaryFolder();
  await failEarlySyncs(folder);
  const written = writeImageFile(large(), { path: join(folder, 'a.backup'), replaces: false }, readAll);
  await expect(written).rejects.toThrow('EIO');
  expect(await readdir(folder)).toEqual(['any']);
});

test('the error of a source is told also where a sync failed before it', async () => {
  const folder = await temporaryFolder();
  await failEarlySyncs(folder);
  const written = writeImageFile(breaking(), { path: join(folder, 'a.backup'), replaces: false }, readAll);
  await expect(written).rejects.toThrow('the store failed');
  expect(await readdir(folder)).toEqual(['any']);
});
