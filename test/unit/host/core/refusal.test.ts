import { expect, test } from 'vitest';
import { isRefusal, refusal } from '../../../../src/host/core/refusal.ts';

test('a refusal is told from every other value', () => {
  expect(refusal('BAD_INPUT', 'No.', { field: 'to' })).toEqual({
    type: 'refusal',
    code: 'BAD_INPUT',
    message: 'No.',
    details: { field: 'to' },
  });
  expect(isRefusal(refusal('TOO_LARGE', 'No.'))).toBe(true);
  for (const other of [undefined, null, 0, '', 'refusal', true, {}, [], { type: 'other' }]) {
    expect(isRefusal(other)).toBe(false);
  }
  // What is no object has no type, whatever it carries.
  expect(isRefusal(Object.assign(() => undefined, { type: 'refusal' }))).toBe(false);
});
