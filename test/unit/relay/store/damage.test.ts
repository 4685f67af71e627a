import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { BulkFailed } from '../../../../src/relay/store/bulk-database.ts';
import { damageIn, unusableStore } from '../../../../src/relay/store/refused.ts';
import { openOffline } from '../../../../src/relay/replay/offline.ts';
import { LEVEL_FOLDER } from '../../../../src/relay/store/level.ts';
import { pushOf } from '../../../support/commands.ts';
import { alice, bob } from '../../../support/hosts.ts';
import { enrolledTestRelay } from '../../../support/test-relay.ts';

function ioError(said: string): Error {
  return Object.assign(new Error(`IO error: /store/log/000007.ldb: ${said}`), { code: 'LEVEL_IO_ERROR' });
}

test.each([
  'Input/output error',
  'No space left on device',
  'Permission denied',
  'Structure needs cleaning',
  'Disk quota exceeded',
  'Stale file handle',
])('%s is the word of the system, of no byte', (said) => {
  expect(damageIn(ioError(said))).toBeUndefined();
});

test('a file that is gone is damage', () => {
  expect(damageIn(ioError('No such file or directory'))).toContain('No such file');
  expect(damageIn(Object.assign(new Error('Corruption: bad block'), { code: 'LEVEL_CORRUPTION' }))).toContain('bad');
});

test('a database that cannot be written is told by its cause where that has a code, and as itself otherwise', () => {
  const [full, other] = [Object.assign(new Error('full'), { code: 'ENOSPC' }), new Error('the batch is closed')].map(
    (cause) => new BulkFailed('the database at /store cannot be written', { cause }),
  );
  expect(unusableStore(full, '/store')).toMatchObject({
    reason: 'unusable',
    message: expect.stringContaining('the store at /store cannot be used (ENOSPC)') as string,
  });
  expect(unusableStore(other, '/store')).toBe(other);
});

test('what the system cannot read while opening is told as that, without advice to begin empty', async () => {
  const relay = await enrolledTestRelay(bob);
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]));
  await relay.close();
  const folder = join(relay.folder, LEVEL_FOLDER);
  const names = await readdir(folder);
  const log = join(folder, names.find((name) => name.endsWith('.log')) ?? '');
  await rename(log, `${log}.aside`);
  // Reading it fails as a disk does that fails: by the system's own word.
  await mkdir(log);
  await expect(relay.open()).rejects.toMatchObject({ reason: 'unusable' });
  await expect(relay.open()).rejects.toThrow(
    /\(EISDIR while reading .*\): look at the disk, and start the relay again$/,
  );
  await expect(openOffline(relay.folder)).rejects.toMatchObject({ reason: 'unusable' });
  // Nothing was made of it meanwhile: with the disk well again, everything is there.
  await rm(log, { recursive: true });
  await rename(`${log}.aside`, log);
  await relay.open();
  expect(relay.notices).toEqual([]);
  expect(await relay.wires(bob)).toEqual(['one']);
});
