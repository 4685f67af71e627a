/** The hash of what batches do tells two logs apart, from the first difference on. */
import { expect, test } from 'vitest';
import { BatchEffects } from '../../../../src/relay/store/batch-effects.ts';

const NOTHING = Buffer.alloc(0);

/** The hash after batches that put these values, in their order. */
function after(...batches: readonly string[][]): string {
  let effects: Buffer = NOTHING;
  for (const values of batches) {
    const batch = new BatchEffects();
    for (const value of values) batch.put(Buffer.from('key'), Buffer.from(value));
    ({ effects } = batch.taken(effects));
  }
  return effects.toString('hex');
}

test('two logs that end with the same batch have one hash only if all before it is the same', () => {
  expect(after(['one'], ['two'])).toBe(after(['one'], ['two']));
  expect(after(['another'], ['two'])).not.toBe(after(['one'], ['two']));
  expect(after(['two'])).not.toBe(after(['one'], ['two']));
});

test('the boundaries of batches count', () => {
  expect(after(['one', 'two'])).not.toBe(after(['one'], ['two']));
});
