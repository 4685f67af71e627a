import { readdir, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { writeBackupAside } from '../../../src/lib/backup-file.ts';
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
  await writeBackupAside(source(), { path: join(folder, 'a.backup'), replaces: false }, async (chunks) => {
    for await (const chunk of chunks) expect(chunk.toString()).toBe('whole');
  });
  expect((await readdir(folder)).toSorted()).toEqual(['a.backup', written, ofAnother]);
});
