/** A restore whose decision cannot be made durable has not happened. */
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { decideSwap, finishSwap, isSwapUnderWay } from '../../../src/relay/store/restore-swap.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const disk = vi.hoisted(() => ({ fails: false }));
vi.mock('../../../src/system/sync-folder.ts', () => ({
  syncFolder: () => (disk.fails ? Promise.reject(new Error('EIO')) : Promise.resolve()),
}));

test('a decision whose folder cannot be synced is taken back', async () => {
  const folder = await temporaryFolder();
  await mkdir(join(folder, 'log.restoring-00000000'));
  disk.fails = true;
  const swap = {
    restored: 'log.restoring-00000000',
    restoredPosition: 'position.restoring-00000000',
    replaced: null,
    positionFile: null,
  };
  await expect(decideSwap(folder, swap)).rejects.toThrow('EIO');
  disk.fails = false;
  expect(isSwapUnderWay(folder)).toBe(false);
  await finishSwap(folder);
  expect(await readdir(folder)).toEqual(['log.restoring-00000000']);
});
