/** Stores that are looked at while no relay serves from them: what is left of that on the disk. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openBackup, openOffline } from '../../../../src/relay/replay/offline.ts';
import { LEVEL_FOLDER } from '../../../../src/relay/store/level.ts';
import { pushOf } from '../../../support/commands.ts';
import { damageTables, tablesIn } from '../../../support/damaged-tables.ts';
import { alice, bob } from '../../../support/hosts.ts';
import { relayProcess } from '../../../support/poste-process.ts';
import { backUp } from '../../../support/restores.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { enrolledTestRelay, openTestRelay } from '../../../support/test-relay.ts';

/** A folder for temporary files of this test alone. */
async function ownTemporaries(): Promise<string> {
  const before = process.env['TMPDIR'];
  onTestFinished(() => {
    if (before === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = before;
  });
  const folder = await temporaryFolder();
  process.env['TMPDIR'] = folder;
  return folder;
}

test('a store folder that is looked at has no temporary files, so that none can be left', async () => {
  const relay = await openTestRelay();
  await relay.close();
  const temporaries = await ownTemporaries();
  const offline = await openOffline(relay.folder);
  expect(await readdir(temporaries)).toEqual([]);
  expect(offline.store.lastLsn).toBeGreaterThan(0);
  await offline.close();
});

test('a backup that was looked at, or could not be, leaves none', async () => {
  const relay = await enrolledTestRelay(alice, bob);
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  const file = join(relay.folder, 'relay.backup');
  await backUp(relay, file);
  const temporaries = await ownTemporaries();
  const offline = await openBackup(file);
  expect(await readdir(temporaries)).toHaveLength(1);
  await offline.close();
  await expect(openBackup(join(relay.folder, 'position'))).rejects.toThrow('cannot be used');
  expect(await readdir(temporaries)).toEqual([]);
});

test('a backup whose unpacking is interrupted leaves none', async () => {
  const relay = await enrolledTestRelay(alice);
  const file = join(relay.folder, 'relay.backup');
  await backUp(relay, file);
  const temporaries = await ownTemporaries();
  const reason = new Error('interrupted');
  await expect(openBackup(file, AbortSignal.abort(reason))).rejects.toBe(reason);
  expect(await readdir(temporaries)).toEqual([]);
});

test('a damaged table is refused before the database is opened, which would compact it away', async () => {
  const relay = await enrolledTestRelay(alice, bob);
  // Each start makes a table of what the one before wrote, and at the fourth they are compacted into one.
  for (const id of ['m1', 'm2', 'm3']) {
    await relay.reopen();
    await relay.pushOne(pushOf(alice, id, [[bob, 'x']]));
  }
  await relay.close();
  const [first = ''] = await tablesIn(relay.folder);
  await damageTables(relay.folder, [first]);
  const before = await readdir(join(relay.folder, LEVEL_FOLDER));
  await expect(openOffline(relay.folder, { isChecked: true })).rejects.toThrow(`${first} has no end`);
  expect(await readdir(join(relay.folder, LEVEL_FOLDER))).toEqual(before);
});

test('a store that another process has open is refused as such, and its tables are not looked at', async () => {
  const storeDir = join(await temporaryFolder(), 'store');
  await relayProcess(storeDir);
  await expect(openOffline(storeDir, { isChecked: true })).rejects.toMatchObject({ reason: 'locked' });
});

test('where the lock cannot be asked for the tables are not passed over', async () => {
  const relay = await openTestRelay();
  await relay.close();
  await ownTemporaries();
  process.env['TMPDIR'] = join(relay.folder, 'none');
  await expect(openOffline(relay.folder, { isChecked: true })).rejects.toMatchObject({ code: 'ENOENT' });
});
