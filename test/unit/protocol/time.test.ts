import { expect, test } from 'vitest';
import { TIME_MS_MAX, isTime, isoTime } from '../../../src/protocol/time.ts';

test.each([0, 1, TIME_MS_MAX])('%d is a time, and a calendar shows it', (ms) => {
  expect(isTime(ms)).toBe(true);
  expect(isoTime(ms)).toBe(new Date(ms).toISOString());
});

test.each([-1, 1.5, TIME_MS_MAX + 1, Number.MAX_SAFE_INTEGER, NaN, Infinity])('%d is no time', (ms) => {
  expect(isTime(ms)).toBe(false);
});

test('what is no time is written as it is', () => {
  expect(isTime('1')).toBe(false);
  expect(isoTime(TIME_MS_MAX + 1)).toBe('8640000000000001');
  expect(isoTime(NaN)).toBe('NaN');
});
