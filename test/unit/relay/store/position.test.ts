import { constants } from 'node:fs';
import { cp, mkdir, readFile, readdir, readlink, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type Position, PositionFile, positionPathOf, settlePosition } from '../../../../src/relay/store/position.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const SLOT_BYTES = 512;
/** Magic, number, LSN, hash, epoch and checksum; the rest of a slot is padding. */
const MEANINGFUL_BYTES = 82;

const positionAt = (lsn: number): Position => ({ lsn, recordHash: Buffer.alloc(32, lsn), epoch: epochNumbered(lsn) });

async function positionPath(): Promise<string> {
  return join(await temporaryFolder(), 'position');
}

async function write(path: string, ...positions: readonly Position[]): Promise<void> {
  const { file } = await PositionFile.open(path);
  for (const position of positions) await file.write(position);
  await file.close();
}

async function read(path: string): Promise<Position | undefined> {
  const { file, position } = await PositionFile.open(path);
  await file.close();
  return position;
}

test('a new file holds no position, and only its owner may read it', async () => {
  const path = await positionPath();
  expect(await read(path)).toBeUndefined();
  expect((await stat(path)).mode & 0o777).toBe(0o600);
});

test.runIf(process.platform === 'linux')(
  'each write is durable when it returns, without a sync behind it',
  async () => {
    const path = await positionPath();
    // Made anew, and opened again.
    for (let times = 0; times < 2; times++) {
      const { file } = await PositionFile.open(path);
      expect((await flagsOf(path)) & constants.O_DSYNC).toBe(constants.O_DSYNC);
      await file.close();
    }
  },
);

/** The flags with which this process has the file open. */
async function flagsOf(path: string): Promise<number> {
  for (const descriptor of await readdir('/proc/self/fd')) {
    if ((await readlink(`/proc/self/fd/${descriptor}`).catch(() => '')) !== path) continue;
    const info = await readFile(`/proc/self/fdinfo/${descriptor}`, 'latin1');
    return Number.parseInt(/^flags:\s+([0-7]+)$/m.exec(info)?.[1] ?? '0', 8);
  }
  return 0;
}

test('the newest position is found, however many were written', async () => {
  const path = await positionPath();
  for (let lsn = 1; lsn <= 5; lsn++) {
    await write(path, positionAt(lsn));
    expect(await read(path)).toEqual(positionAt(lsn));
  }
  await write(path, positionAt(6), positionAt(7), positionAt(8));
  expect(await read(path)).toEqual(positionAt(8));
});

test('the newest is the one written last, also when its LSN is lower', async () => {
  const path = await positionPath();
  await write(path, positionAt(9), positionAt(4));
  expect(await read(path)).toEqual(positionAt(4));
});

test('the largest numbers survive', async () => {
  const path = await positionPath();
  const large = { lsn: Number.MAX_SAFE_INTEGER, recordHash: Buffer.alloc(32, 0xff), epoch: epochNumbered(255) };
  await write(path, large);
  expect(await read(path)).toEqual(large);
});

/** The file after positions 1 and 2 were written: number 1 lies in the second slot, number 2 in the first. */
async function twoPositions(): Promise<{ path: string; bytes: Buffer }> {
  const path = await positionPath();
  await write(path, positionAt(1), positionAt(2));
  return { path, bytes: await readFile(path) };
}

describe('damage', () => {
  test.each([
    ['newer', 0, 1],
    ['older', SLOT_BYTES, 2],
  ])('a torn write of the %s slot leaves the other one', async (_which, start, left) => {
    const { path, bytes } = await twoPositions();
    for (const torn of [0, 1, 4, 12, 20, 52, 78, 81]) {
      const damaged = Buffer.from(bytes);
      damaged.fill(0, start + torn, start + SLOT_BYTES);
      await writeFile(path, damaged);
      expect(await read(path)).toEqual(positionAt(left));
    }
  });

  test.each([
    ['newer', 0, 1],
    ['older', SLOT_BYTES, 2],
  ])('a flip in any byte of the %s slot leaves the other one', async (_which, start, left) => {
    const { path, bytes } = await twoPositions();
    const undetected: number[] = [];
    for (let at = start; at < start + MEANINGFUL_BYTES; at++) {
      const damaged = Buffer.from(bytes);
      damaged[at]! ^= 1 << (at & 7);
      await writeFile(path, damaged);
      if ((await read(path))?.lsn !== left) undetected.push(at);
    }
    expect(undetected).toEqual([]);
  });

  test('a flip in the padding changes nothing', async () => {
    const { path, bytes } = await twoPositions();
    const damaged = Buffer.from(bytes);
    damaged[MEANINGFUL_BYTES]! ^= 0xff;
    damaged[SLOT_BYTES - 1]! ^= 0xff;
    await writeFile(path, damaged);
    expect(await read(path)).toEqual(positionAt(2));
  });

  test('two damaged slots, an empty or a cut file hold no position', async () => {
    const { path, bytes } = await twoPositions();
    const damaged = Buffer.from(bytes);
    damaged[30]! ^= 1;
    damaged[SLOT_BYTES + 30]! ^= 1;
    for (const content of [damaged, Buffer.alloc(0), bytes.subarray(0, 40), Buffer.alloc(1024)]) {
      await writeFile(path, content);
      expect(await read(path)).toBeUndefined();
    }
  });

  test('a file cut in its second slot holds the first', async () => {
    const { path, bytes } = await twoPositions();
    await writeFile(path, bytes.subarray(0, SLOT_BYTES + 10));
    expect(await read(path)).toEqual(positionAt(2));
  });

  test('the next write goes over the damaged slot, never over the whole one', async () => {
    const { path, bytes } = await twoPositions();
    const damaged = Buffer.from(bytes);
    damaged[30]! ^= 1;
    await writeFile(path, damaged);
    await write(path, positionAt(3));
    const slots = await readFile(path);
    expect(slots.subarray(SLOT_BYTES).equals(bytes.subarray(SLOT_BYTES))).toBe(true);
    expect(await read(path)).toEqual(positionAt(3));
  });
});

test('a written position lies in the file at once', async () => {
  const path = await positionPath();
  const { file } = await PositionFile.open(path);
  await file.write(positionAt(1));
  expect(await read(path)).toEqual(positionAt(1));
  await file.close();
});

test('a folder in the place of the file is an error that names its code', async () => {
  await expect(PositionFile.open(await temporaryFolder())).rejects.toMatchObject({ code: 'EISDIR' });
});

const places = async (): Promise<{ folder: string; inFolder: string; home: string }> => {
  const around = await temporaryFolder();
  const folder = join(around, 'store');
  await mkdir(folder);
  return { folder, inFolder: join(folder, 'position'), home: join(around, 'state', 'poste') };
};
const settled = async (): Promise<{ folder: string; inFolder: string; home: string; path: string }> => {
  const made = await places();
  await write(made.inFolder, positionAt(7));
  return { ...made, path: await settlePosition(made.folder, { positionHome: made.home }) };
};

describe('where the position of a store stands', () => {
  test('one in the store folder moves to a file that only its owner may read, where everything finds it', async () => {
    const { folder, home, path } = await settled();
    expect(dirname(path)).toBe(home);
    expect(await read(path)).toEqual(positionAt(7));
    expect([(await stat(home)).mode & 0o777, (await stat(path)).mode & 0o777]).toEqual([0o700, 0o600]);
    expect(await readdir(folder)).toEqual(['position-place']);
    expect(positionPathOf(folder, undefined)).toBe(path);
    expect(await settlePosition(folder, { positionHome: join(home, 'other') })).toBe(path);
    expect(await settlePosition(folder, {})).toBe(path);
    const linked = join(await temporaryFolder(), 'link');
    await symlink(folder, linked);
    expect(positionPathOf(linked, undefined)).toBe(path);
  });

  test('what a crash left in the store folder once the pointer stood is removed, and does not count', async () => {
    const { folder, inFolder, home, path } = await settled();
    await write(inFolder, positionAt(6));
    expect(positionPathOf(folder, undefined)).toBe(path);
    expect(await settlePosition(folder, { positionHome: home })).toBe(path);
    expect([await read(path), await readdir(folder)]).toEqual([positionAt(7), ['position-place']]);
  });

  test('what an older version noted in the store folder since counts', async () => {
    const { folder, inFolder, home, path } = await settled();
    await write(inFolder, positionAt(8));
    expect(await settlePosition(folder, { positionHome: home })).toBe(path);
    expect([await read(path), await readdir(folder)]).toEqual([positionAt(8), ['position-place']]);
  });

  test('before the pointer stands, the one in the store folder counts, whatever lies beyond it', async () => {
    const { folder, inFolder, home } = await places();
    await write(inFolder, positionAt(7));
    await mkdir(join(folder, 'position-place'));
    expect(await settlePosition(folder, { positionHome: home })).toBe(inFolder);
    expect(await read(inFolder)).toEqual(positionAt(7));
  });

  test('the file that a flag names wins, and nothing is chosen or moved', async () => {
    const { folder, inFolder, home, path } = await settled();
    await write(inFolder, positionAt(6));
    const named = join(dirname(folder), 'named');
    expect(await settlePosition(folder, { positionFile: named, positionHome: home })).toBe(named);
    expect([await read(path), await read(inFolder)]).toEqual([positionAt(7), positionAt(6)]);
  });

  test('a copy of the folder elsewhere does not share it, and chooses its own', async () => {
    const { folder, home, path } = await settled();
    const copy = join(dirname(folder), 'copy');
    await cp(folder, copy, { recursive: true });
    expect(positionPathOf(copy, undefined)).toBe(join(copy, 'position'));
    const own = await settlePosition(copy, { positionHome: home });
    expect([dirname(own), own === path]).toEqual([home, false]);
    expect([positionPathOf(folder, undefined), positionPathOf(copy, undefined)]).toEqual([path, own]);
  });

  test('when the state folder is lost, it is as if the position were missing; another place is chosen', async () => {
    const { folder, inFolder, home } = await settled();
    await rm(dirname(home), { recursive: true });
    expect(positionPathOf(folder, undefined)).toBe(inFolder);
    const path = await settlePosition(folder, { positionHome: home });
    expect([dirname(path), await read(path)]).toEqual([home, undefined]);
  });

  test('it stays in the store folder where nothing beyond it can be written, or nothing is beyond it', async () => {
    const { folder, inFolder } = await places();
    await write(inFolder, positionAt(7));
    const file = join(dirname(folder), 'file');
    await writeFile(file, '');
    for (const positionHome of [undefined, join(file, 'poste'), '/proc/poste', join(folder, '.local', 'state'), folder])
      expect(await settlePosition(folder, { positionHome })).toBe(inFolder);
    expect(await read(inFolder)).toEqual(positionAt(7));
  });
});
