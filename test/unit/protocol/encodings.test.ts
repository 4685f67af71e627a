import { sha256 } from '@noble/hashes/sha2.js';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeBase64, encodeBase64, encodeCrockford, sha256Hex } from '../../../src/protocol/encodings.ts';
import { EPOCH_RANDOM_BYTES, epochFromRandom } from '../../../src/protocol/names.ts';

describe('SHA-256', () => {
  // FIPS 180-2.
  it.each([
    ['', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'],
    ['abc', 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'],
    [
      'abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq',
      '248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1',
    ],
  ])('%j', (text, digest) => {
    expect(sha256Hex(text)).toBe(digest);
    expect(sha256Hex(Buffer.from(text))).toBe(digest);
  });

  it('property: agrees with @noble/hashes, for texts over their UTF-8 bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.string({ unit: 'grapheme' }), (bytes, text) => {
        expect(sha256Hex(bytes)).toBe(Buffer.from(sha256(bytes)).toString('hex'));
        expect(sha256Hex(text)).toBe(Buffer.from(sha256(new TextEncoder().encode(text))).toString('hex'));
      }),
    );
  });

  it('hashes a view, and not the whole buffer behind it', () => {
    expect(sha256Hex(Buffer.from('xabcx').subarray(1, 4))).toBe(sha256Hex('abc'));
  });
});

describe('strict base64', () => {
  // RFC 4648 section 10.
  it.each([
    ['', ''],
    ['f', 'Zg=='],
    ['fo', 'Zm8='],
    ['foo', 'Zm9v'],
    ['foob', 'Zm9vYg=='],
    ['fooba', 'Zm9vYmE='],
    ['foobar', 'Zm9vYmFy'],
  ])('RFC 4648: %j is %j', (text, encoded) => {
    expect(encodeBase64(Buffer.from(text))).toBe(encoded);
    expect(decodeBase64(encoded)?.toString()).toBe(text);
  });

  it.each([
    ['set bits behind the end', 'QR=='],
    ['set bits behind the end of two bytes', 'QUJ='],
    ['garbage behind the padding', 'QQ==garbage'],
    ['garbage of a full group behind the padding', 'QQ==QQ=='],
    ['missing padding', 'QQ'],
    ['half of the padding', 'QQ='],
    ['padding alone', '===='],
    ['too much padding', 'QUI=='],
    ['padding of nothing', 'QUJD===='],
    ['one letter left over', 'QUJDR'],
    ['a leading space', ' QUJD'],
    ['spaces of a full group', 'QUJD    '],
    ['a space inside', 'QU JD==='],
    ['a line break', 'QUJD\nQUJD'],
    ['four line breaks', 'QUJD\n\n\n\n'],
    ['a trailing line break', 'QUJD\n'],
    ['url-safe letters for +', '-_-_'],
    ['url-safe letters mixed in', '+_-/'],
    ['a letter outside ASCII', 'QUJ\u00e9'],
    ['a byte of zero', 'QUJ\u0000'],
    ['letters that are no base64', '!!!!'],
    ['a full-width letter', '\uff31UJD'],
  ])('refuses %s', (_why, text) => {
    expect(decodeBase64(text)).toBeUndefined();
  });

  it('property: decodes what it encodes, as Buffer encodes it', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        const text = encodeBase64(bytes);
        expect(text).toBe(Buffer.from(bytes).toString('base64'));
        expect(decodeBase64(text)).toEqual(Buffer.from(bytes));
      }),
    );
  });

  it('property: everything accepted encodes to itself again, so no bytes have two texts', () => {
    const nearlyBase64 = fc.string({ unit: fc.constantFrom(...'AQRZaz019+/-_= \n'.split('')), maxLength: 12 });
    let accepted = 0;
    fc.assert(
      fc.property(fc.oneof(nearlyBase64, fc.base64String({ maxLength: 40 }), fc.string()), (text) => {
        const bytes = decodeBase64(text);
        if (bytes === undefined) return;
        accepted++;
        expect(text).toMatch(/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/);
        expect(encodeBase64(bytes)).toBe(text);
      }),
      { numRuns: 1000 },
    );
    expect(accepted).toBeGreaterThan(0);
  });

  it('encodes a view, and not the whole buffer behind it', () => {
    const view = new Uint8Array([0, 1, 2, 3, 4, 5]).subarray(2, 4);
    expect(encodeBase64(view)).toBe('AgM=');
  });
});

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
