import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createHostStore, openHostStore } from '../../../../src/host/store/open.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

function failed(error: unknown): void {
  throw error;
}

test('a store whose write-ahead log cannot be read is refused, and nothing of it is lost', async () => {
  const folder = join(await temporaryFolder(), 'store');
  const made = await createHostStore(folder, failed);
  await made.transact((tx) => tx.put('counter', ['kept'], 7));
  await made.close();
  const log = join(folder, (await readdir(folder)).find((name) => name.endsWith('.log')) ?? '');
  await rename(log, `${log}.aside`);
  // Reading it fails as a disk does that fails: by the system's own word.
  await mkdir(log);
  await expect(openHostStore(folder, failed)).rejects.toMatchObject({
    fault: 'unusable',
    message: expect.stringMatching(/\(EISDIR while reading \d+\.log\): mend that and try again$/),
  });
  await rm(log, { recursive: true });
  await rename(`${log}.aside`, log);
  const store = await openHostStore(folder, failed);
  expect(await store.read((reader) => reader.get('counter', 'kept'))).toBe(7);
  await store.close();
});
