import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { BulkDatabase, BulkFailed } from '../../../../src/relay/store/bulk-database.ts';
import type { Pair } from '../../../../src/lib/pair-block.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

function large(key: string): Pair {
  return [Buffer.from(key), Buffer.alloc(3 << 20, key)];
}

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

test('pairs that are taken are there when they are flushed, in batches that are synced where asked', async () => {
  const { level } = await BulkDatabase.create(join(await temporaryFolder(), 'rows'));
  onTestFinished(() => level.close());
  const synced: (boolean | undefined)[] = [];
  const batch = level.batch.bind(level) as () => ReturnType<typeof level.batch>;
  const made = vi.spyOn(level, 'batch') as unknown as { mockImplementation(make: () => unknown): void };
  onTestFinished(() => void vi.restoreAllMocks());
  made.mockImplementation(() => {
    const one = batch();
    const write = one.write.bind(one);
    return Object.assign(one, {
      write: (options: { sync?: boolean }) => {
        synced.push(options.sync);
        return write(options);
      },
    });
  });
  for (const isSynced of [true, false]) {
    const database = new BulkDatabase(level, { isSynced });
    await database.take([large('a'), large('b'), large('c')]);
    await database.flush();
  }
  expect(synced).toEqual([true, true, false, false]);
  expect(await level.keys().all()).toEqual(['a', 'b', 'c'].map((key) => Buffer.from(key)));
});

test('a batch that fails behind the one being filled is told at the next; the database can be closed', async () => {
  const database = await BulkDatabase.create(join(await temporaryFolder(), 'rows'));
  const batch = database.level.batch.bind(database.level) as () => ReturnType<typeof database.level.batch>;
  const failing = vi.spyOn(database.level, 'batch') as unknown as { mockImplementation(made: () => unknown): void };
  onTestFinished(() => void vi.restoreAllMocks());
  failing.mockImplementation(() =>
    Object.assign(batch(), { write: () => Promise.reject(new Error('no space is left')) }),
  );
  database.put(Buffer.from('1'), Buffer.from('written'));
  await database.handOver();
  database.put(Buffer.from('2'), Buffer.from('lost'));
  await database.handOver();
  database.put(Buffer.from('3'), Buffer.from('behind it'));
  const told = database.handOver();
  await expect(told).rejects.toBeInstanceOf(BulkFailed);
  await expect(told).rejects.toThrow(/no space is left/);
  await expect(database.flush()).rejects.toBeInstanceOf(BulkFailed);
  await database.close();
});
