import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeCrockford } from '../../../src/protocol/crockford.ts';

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
