import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EPOCH_RANDOM_BYTES, epochFromRandom } from '../../../src/protocol/epoch.ts';

const random = fc.uint8Array({ minLength: 16, maxLength: 16 });

describe('epoch', () => {
  it.each([
    ['00'.repeat(16), '0'.repeat(26)],
    ['ff'.repeat(16), `7${'Z'.repeat(25)}`],
    [`${'00'.repeat(15)}01`, `${'0'.repeat(25)}1`],
    [`${'00'.repeat(15)}20`, `${'0'.repeat(24)}10`],
    [`80${'00'.repeat(15)}`, `4${'0'.repeat(25)}`],
    // The example of the ULID specification.
    ['01563e3ab5d3d6764c61efb99302bd5b', '01ARZ3NDEKTSV4RRFFQ69G5FAV'],
  ])('%s is %s', (hex, text) => {
    expect(epochFromRandom(Buffer.from(hex, 'hex'))).toBe(text);
  });

  it('property: is 26 characters of Crockford base32 that hold all 128 bits', () => {
    fc.assert(
      fc.property(random, (bytes) => {
        const epoch = epochFromRandom(bytes);
        expect(epoch).toMatch(/^[0-7][0-9A-HJKMNP-TV-Z]{25}$/);
        expect(bitsOf(epoch)).toBe(BigInt(`0x${Buffer.from(bytes).toString('hex')}`));
      }),
    );
  });

  it.each([0, 15, 17])('is not made of %i bytes', (length) => {
    expect(EPOCH_RANDOM_BYTES).toBe(16);
    expect(() => epochFromRandom(new Uint8Array(length))).toThrow(RangeError);
  });
});

function bitsOf(epoch: string): bigint {
  const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
  return epoch.split('').reduce((bits, digit) => bits * 32n + BigInt(alphabet.indexOf(digit)), 0n);
}
