import { sha256 } from '@noble/hashes/sha2.js';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { sha256Hex } from '../../../src/protocol/digest.ts';

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
