import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { BulkDatabase, BulkFailed } from '../../../../src/relay/store/bulk.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

test('a database that cannot be made says where and why', async () => {
  const file = join(await temporaryFolder(), 'file');
  await writeFile(file, '');
  const made = BulkDatabase.create(join(file, 'rows'));
  await expect(made).rejects.toBeInstanceOf(BulkFailed);
  await expect(made).rejects.toThrow(/the database at .*file\/rows cannot be made \(ENOTDIR: .*\)/);
});

test('a database that is there already is not taken for a new one', async () => {
  const folder = join(await temporaryFolder(), 'rows');
  await (await BulkDatabase.create(folder)).close();
  await expect(BulkDatabase.create(folder)).rejects.toBeInstanceOf(BulkFailed);
});
