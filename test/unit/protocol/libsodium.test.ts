import { expect, test } from 'vitest';
import { loadedOnce } from '../../../src/protocol/libsodium.ts';

test.each([
  ['is there', () => 'a library', 'a library'],
  [
    'is not there',
    () => {
      throw new Error('no binary for this platform');
    },
    undefined,
  ],
])('what %s is looked for once, and not before it is asked for', (_what, load, expected) => {
  let times = 0;
  const found = loadedOnce(() => {
    times++;
    return load();
  });
  expect(times).toBe(0);
  expect([found(), found(), found()]).toEqual([expected, expected, expected]);
  expect(times).toBe(1);
});
