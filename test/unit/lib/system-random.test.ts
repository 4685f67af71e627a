import { describe, expect, test } from 'vitest';
import { systemRandom } from '../../../src/lib/clock.ts';

describe('random bytes of the system', () => {
  test('are as many as were asked for, and none of them are given out twice', () => {
    // More than are drawn at once, in pieces that do not divide what is drawn.
    const pieces = Array.from({ length: 2000 }, (_, at) => systemRandom(8 + (at % 5)));
    expect(pieces.map(({ length }) => length)).toEqual(pieces.map((_, at) => 8 + (at % 5)));
    expect(new Set(pieces.map((piece) => piece.subarray(0, 8).toString('hex'))).size).toBe(2000);
  });

  test('stay as they are when others are asked for', () => {
    const first = systemRandom(16);
    const shown = first.toString('hex');
    for (let at = 0; at < 1000; at++) systemRandom(16);
    expect(first.toString('hex')).toBe(shown);
  });

  test.each([0, 32, 4096, 4097, 100_000])('%i of them at once', (count) => {
    const bytes = systemRandom(count);
    expect(bytes).toHaveLength(count);
    expect(count === 0 || bytes.some((byte) => byte !== 0)).toBe(true);
  });
});
