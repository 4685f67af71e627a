import { describe, expect, test } from 'vitest';
import { DiskGuard } from '../../../../src/relay/jobs/disk-guard.ts';
import { ManualTimers } from '../../../support/manual-time.ts';
import { settled } from '../../../support/settled.ts';

const FLOOR = 1_000;

async function guarded(free: { bytes: number; fails?: boolean }) {
  const timers = new ManualTimers();
  const changes: [boolean, number][] = [];
  const found: number[] = [];
  let asked = 0;
  const guard = await DiskGuard.start({
    freeBytes: () => {
      asked++;
      return free.fails ? Promise.reject(new Error('no such file system')) : Promise.resolve(free.bytes);
    },
    floorBytes: FLOOR,
    timers,
    onError: (error) => {
      throw error;
    },
    onFound: (bytes) => found.push(bytes),
    onChange: (isLow, bytes) => changes.push([isLow, bytes]),
  });
  return { guard, timers, changes, found, asked: () => asked };
}

describe('room on the disk', () => {
  test('is there at the floor and not below it', async () => {
    expect((await guarded({ bytes: FLOOR })).guard.isLow).toBe(false);
    expect((await guarded({ bytes: FLOOR - 1 })).guard.isLow).toBe(true);
  });

  test('is asked for every five seconds, and a change is told once', async () => {
    const free = { bytes: 5_000 };
    const { guard, timers, changes, found } = await guarded(free);
    free.bytes = 10;
    timers.pass(4_999);
    await settled({});
    expect(guard.isLow).toBe(false);
    timers.pass(1);
    await settled({});
    timers.pass(5_000);
    await settled({});
    expect([guard.isLow, guard.freeBytes, changes]).toEqual([true, 10, [[true, 10]]]);
    expect(found).toEqual([5_000, 10, 10]);
    free.bytes = 2_000;
    timers.pass(5_000);
    await settled({});
    expect([guard.isLow, changes]).toEqual([
      false,
      [
        [true, 10],
        [false, 2_000],
      ],
    ]);
    await guard.stop();
  });

  test('is asked for at once when much was taken', async () => {
    const free = { bytes: 5_000 };
    const { guard, asked } = await guarded(free);
    free.bytes = 900;
    guard.takeRoom(100);
    expect(asked()).toBe(1);
    guard.takeRoom(25);
    await settled({});
    expect([asked(), guard.isLow]).toEqual([2, true]);
    guard.takeRoom(124);
    await settled({});
    expect(asked()).toBe(2);
    await guard.stop();
  });

  test('that cannot be asked for stays as it was last', async () => {
    const free = { bytes: 10, fails: false };
    const { guard, timers } = await guarded(free);
    free.fails = true;
    timers.pass(5_000);
    await settled({});
    expect([guard.isLow, guard.freeBytes]).toEqual([true, 10]);
    await guard.stop();
  });

  test('what is to be written has room when pushes are taken with it on the disk, too', async () => {
    const free = { bytes: 5_000 };
    const { guard, asked } = await guarded(free);
    expect(await guard.hasRoomFor(5_000 - FLOOR)).toBe(true);
    expect(await guard.hasRoomFor(5_000 - FLOOR + 1)).toBe(false);
    free.bytes = FLOOR;
    expect(await guard.hasRoomFor(1)).toBe(false);
    expect(asked()).toBe(4);
    await guard.stop();
  });

  test('a closed guard asks no more', async () => {
    const { guard, timers, asked } = await guarded({ bytes: 10 });
    await guard.stop();
    timers.pass(60_000);
    await settled({});
    expect(asked()).toBe(1);
  });
});
