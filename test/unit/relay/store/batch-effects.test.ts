/** The hash of what batches do tells two logs apart, from the first difference on. */
import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { BatchEffects } from '../../../../src/relay/store/durable-log.ts';

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

function length(bytes: Buffer): Buffer {
  const field = Buffer.alloc(4);
  field.writeUInt32BE(bytes.length);
  return field;
}

test('every length of keys and values is hashed as it is written down', () => {
  const lengths = [
    0,
    1,
    100,
    (64 << 10) - 60,
    (64 << 10) - 50,
    (64 << 10) - 9,
    64 << 10,
    200_000,
    30_000,
    30_000,
    40_000,
  ];
  const key = Buffer.alloc(41, 'k');
  const batch = new BatchEffects();
  const written = createHash('sha256');
  for (const [at, bytes] of lengths.entries()) {
    const value = Buffer.alloc(bytes, at);
    batch.put(key, value);
    written.update(Buffer.of(1)).update(length(key)).update(key).update(length(value)).update(value);
    batch.del(key);
    written.update(Buffer.of(0)).update(length(key)).update(key);
  }
  const expected = createHash('sha256').update(NOTHING).update(written.digest()).digest('hex');
  expect(batch.taken(NOTHING).effects.toString('hex')).toBe(expected);
});
