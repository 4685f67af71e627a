import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeCrockford } from '../../../src/protocol/crockford.ts';
import { EPOCH_RANDOM_BYTES, epochFromRandom } from '../../../src/protocol/epoch.ts';

const DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

describe('Crockford base32', () => {
  it.each([
    ['', ''],
    ['00', '00'],
    ['ff', '7Z'],
    ['00'.repeat(5), '0'.repeat(8)],
    ['ff'.repeat(5), 'Z'.repeat(8)],
    ['ff'.repeat(32), `1${'Z'.repeat(51)}`],
    [`${'00'.repeat(31)}20`, `${'0'.repeat(50)}10`],
    [`80${'00'.repeat(15)}`, `4${'0'.repeat(25)}`],
    // The example of the ULID specification.
    ['01563e3ab5d3d6764c61efb99302bd5b', '01ARZ3NDEKTSV4RRFFQ69G5FAV'],
  ])('%s is %s', (hex, text) => {
    expect(encodeCrockford(Buffer.from(hex, 'hex'))).toBe(text);
  });

  it('property: as many digits as the bits need, and they are the number that the bytes are', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 40 }), (bytes) => {
        const text = encodeCrockford(bytes);
        let value = 0n;
        for (const digit of text) value = value * 32n + BigInt(DIGITS.indexOf(digit));
        expect(text).toHaveLength(Math.ceil((bytes.length * 8) / 5));
        expect(value).toBe(BigInt(`0x${Buffer.from(bytes).toString('hex')}`));
      }),
    );
  });
});

describe('an epoch', () => {
  it('is 16 bytes in Crockford base32', () => {
    const bytes = Buffer.from('01563e3ab5d3d6764c61efb99302bd5b', 'hex');
    expect(EPOCH_RANDOM_BYTES).toBe(16);
    expect(epochFromRandom(bytes)).toBe(encodeCrockford(bytes));
  });

  it.each([0, 15, 17])('is not made of %i bytes', (length) => {
    expect(() => epochFromRandom(new Uint8Array(length))).toThrow(RangeError);
  });
});
