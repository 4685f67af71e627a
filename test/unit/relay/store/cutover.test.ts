/** The swap of a restore: a decision that cannot be made durable, two who carry it out, and who opens meanwhile. */
import { mkdir, readFile, readdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { levelAt } from '../../../../src/relay/store/level.ts';
import { openServing } from '../../../../src/relay/store/open.ts';
import { decideRestoreCutover, finishRestore, isRestoreUnderWay } from '../../../../src/relay/store/cutover.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const SWAP = {
  restored: 'log.restoring-00000000',
  restoredPosition: 'position.restoring-00000000',
  replaced: 'log.replaced-20260101T000000Z',
  positionFile: null,
};

/** A store folder whose restore is decided. */
async function decided(): Promise<string> {
  const folder = await temporaryFolder();
  for (const [name, what] of [
    ['log', 'old'],
    [SWAP.restored, 'new'],
  ] as const) {
    await mkdir(join(folder, name));
    await writeFile(join(folder, name, 'CURRENT'), what);
  }
  await writeFile(join(folder, 'position'), 'old position');
  await writeFile(join(folder, SWAP.restoredPosition), 'new position');
  await decideRestoreCutover(folder, SWAP);
  return folder;
}

/** The bytes are there, and a power cut may take them away. */
async function writeUnsynced(path: string, bytes: Uint8Array): Promise<void> {
  await writeFile(path, bytes);
  throw new Error('EIO');
}

test('a decision whose folder cannot be synced is taken back', async () => {
  const folder = await temporaryFolder();
  await mkdir(join(folder, SWAP.restored));
  await expect(decideRestoreCutover(folder, SWAP, writeUnsynced)).rejects.toThrow('EIO');
  expect(isRestoreUnderWay(folder)).toBe(false);
  await finishRestore(folder);
  expect(await readdir(folder)).toEqual([SWAP.restored]);
});

const STEPS = [
  'the replaced position is copied aside',
  'the position is replaced',
  'the replaced store goes aside',
  'the restored store takes its place',
  'the position that is in place is removed',
  'the journal is removed',
];

test.each(STEPS)('another carries it out to its end before the step: %s', async (before) => {
  const folder = await decided();
  let isDone = false;
  await finishRestore(folder, {
    step: async (step) => {
      if (step !== before || isDone) return;
      isDone = true;
      await finishRestore(folder);
    },
  });
  expect(isDone).toBe(true);
  expect((await readdir(folder)).toSorted()).toEqual([
    'log',
    SWAP.replaced,
    'position',
    'position.replaced-20260101T000000Z',
  ]);
  expect(await readFile(join(folder, 'log', 'CURRENT'), 'utf8')).toBe('new');
  expect(await readFile(join(folder, SWAP.replaced, 'CURRENT'), 'utf8')).toBe('old');
  expect(await readFile(join(folder, 'position'), 'utf8')).toBe('new position');
});

test('a database that went aside while it was opened is not the one that serves', async () => {
  const folder = await temporaryFolder();
  const place = (name: string): string => join(folder, name);
  for (const name of ['log', 'restored']) {
    const level = levelAt(place(name));
    await level.open();
    await level.close();
  }
  const replaced = levelAt(place('log'));
  const opened = await openServing(folder, async () => {
    await replaced.open();
    await rename(place('log'), place('replaced'));
    await rename(place('restored'), place('log'));
    return replaced;
  });
  expect([opened, replaced.status]).toEqual([undefined, 'closed']);
  const serving = levelAt(place('log'));
  expect(await openServing(folder, async () => (await serving.open(), serving))).toBe(serving);
  await serving.close();
});
