import { hash } from 'node:crypto';
import { Point } from '@noble/ed25519';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { signerFromSeed } from '../../../src/protocol/ed25519.ts';
import {
  type PublicKey,
  displayFingerprint,
  hostFingerprint,
  parseFingerprint,
  parsePublicKey,
  publicKeyBytes,
  publicKeyFromBytes,
} from '../../../src/protocol/public-key.ts';
import { isAcceptablePoint } from '../../../src/protocol/acceptable-point.ts';
import {
  FIELD_PRIME,
  GROUP_ORDER,
  SMALL_ORDER_ENCODINGS,
  littleEndian,
  torsionPoints,
} from '../../support/edwards25519.ts';

/** RFC 8032 section 7.1, test 1. */
const KEY_HEX = 'd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a';
const KEY = '11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=' as PublicKey;

function keyOf(hex: string): PublicKey {
  return publicKeyFromBytes(Buffer.from(hex, 'hex'));
}

describe('public keys: the text', () => {
  it('is the base64 of the 32 raw bytes', () => {
    expect(publicKeyFromBytes(Buffer.from(KEY_HEX, 'hex'))).toBe(KEY);
    expect(publicKeyBytes(KEY).toString('hex')).toBe(KEY_HEX);
    expect(parsePublicKey(KEY)).toBe(KEY);
  });

  it.each([
    ['31 bytes', Buffer.alloc(31).toString('base64')],
    ['33 bytes', Buffer.alloc(33).toString('base64')],
    ['no bytes', ''],
    ['hexadecimal', KEY_HEX],
    ['missing padding', KEY.slice(0, -1)],
    ['set bits behind the end', `${KEY.slice(0, -2)}p=`],
    ['url-safe letters', KEY.replace('/', '_')],
    ['a leading space', ` ${KEY.slice(0, -1)}`],
    ['a trailing line break', `${KEY}\n`],
    ['a PEM block', `-----BEGIN PUBLIC KEY-----\n${KEY}\n-----END PUBLIC KEY-----\n`],
    ['a number', 44],
    ['null', null],
    ['undefined', undefined],
    ['a list of one key', [KEY]],
    ['an object with the length of a key', { length: 44 }],
  ])('refuses %s', (_why, text) => {
    expect(parsePublicKey(text)).toBeUndefined();
  });

  it('property: every 32 bytes have one text, and the text the bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
        const key = publicKeyFromBytes(bytes);
        expect(parsePublicKey(key)).toBe(key);
        expect(publicKeyBytes(key)).toEqual(Buffer.from(bytes));
      }),
    );
  });

  it('property: is theirs, whichever were read before', () => {
    const key = fc
      .tuple(fc.uint8Array({ minLength: 32, maxLength: 32 }), fc.constantFrom(0, 1, 31), fc.nat(255))
      .map(([any, at, byte]) => {
        // Many that begin alike.
        const bytes = Buffer.alloc(32, 7);
        bytes[at] = byte;
        return byte < 128 ? bytes : Buffer.from(any);
      });
    fc.assert(
      fc.property(fc.array(key, { maxLength: 30 }), (keys) => {
        for (const bytes of keys) {
          const text = bytes.toString('base64');
          expect(publicKeyFromBytes(bytes)).toBe(text);
          expect(parsePublicKey(text)).toBe(text);
          expect(parsePublicKey(`${text.slice(0, -2)}+=`)).toBeUndefined();
        }
      }),
    );
  });

  it.each([0, 31, 33, 64])('makes no key of %i bytes', (length) => {
    expect(() => publicKeyFromBytes(new Uint8Array(length))).toThrow(RangeError);
  });
});

describe('public keys: the point (trap 22)', () => {
  it('the 14 encodings are what they say: all decode leniently to points of these orders, 8 canonically', () => {
    expect(new Set(SMALL_ORDER_ENCODINGS.map(({ hex }) => hex)).size).toBe(14);
    for (const { hex, order, isCanonical } of SMALL_ORDER_ENCODINGS) {
      const multiples = [1, 2, 4, 8].map((n) => Point.fromHex(hex, true).multiply(BigInt(n)).is0());
      expect(multiples.indexOf(true)).toBe([1, 2, 4, 8].indexOf(order));
      expect(Point.fromHex(hex, true).toHex() === hex).toBe(isCanonical);
    }
  });

  it.each(SMALL_ORDER_ENCODINGS)('refuses the key $hex of order $order', ({ hex }) => {
    expect(isAcceptablePoint(keyOf(hex))).toBe(false);
  });

  it('refuses every encoding that is not canonical, whatever its order', () => {
    const encodings = Array.from({ length: 19 }, (_, above) => littleEndian(FIELD_PRIME + BigInt(above)));
    const negated = encodings.map((bytes) =>
      Buffer.concat([bytes.subarray(0, 31), Buffer.of(bytes.readUInt8(31) | 0x80)]),
    );
    const accepted = [...encodings, ...negated].filter((bytes) => isAcceptablePoint(publicKeyFromBytes(bytes)));
    expect(accepted).toEqual([]);
    // Some of them are points, and would get in if they were reduced.
    const points = encodings.filter((bytes) => isLenientPoint(bytes));
    expect(points.length).toBeGreaterThan(2);
  });

  it('refuses a good point to which any torsion was added', () => {
    const good = Point.fromHex(KEY_HEX);
    expect(isAcceptablePoint(keyOf(good.toHex()))).toBe(true);
    expect(torsionPoints()).toHaveLength(7);
    for (const torsion of torsionPoints()) {
      expect(isAcceptablePoint(keyOf(good.add(torsion).toHex()))).toBe(false);
    }
  });

  it('refuses bytes that are no point', () => {
    expect(isAcceptablePoint(keyOf(`02${'00'.repeat(31)}`))).toBe(false);
    expect(isAcceptablePoint(keyOf('ff'.repeat(32)))).toBe(false);
  });

  it('refuses 31 and 33 bytes that came in under the type of a key', () => {
    expect(isAcceptablePoint(Buffer.alloc(31, 1).toString('base64') as PublicKey)).toBe(false);
    const good = Buffer.from(KEY_HEX, 'hex');
    expect(isAcceptablePoint(Buffer.concat([good, Buffer.of(0)]).toString('base64') as PublicKey)).toBe(false);
    expect(isAcceptablePoint(good.subarray(0, 31).toString('base64') as PublicKey)).toBe(false);
  });

  it('property: accepts the key of every seed', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (seed) => {
        expect(isAcceptablePoint(signerFromSeed(seed).publicKey)).toBe(true);
      }),
    );
  });

  it('property: accepts bytes only when they are the encoding of a multiple of the base point', () => {
    // 8 times its inverse is 1 modulo L only, so this is the identity exactly on the prime-order subgroup.
    const eighth = inverseOf8();
    let accepted = 0;
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
        const isAccepted = isAcceptablePoint(publicKeyFromBytes(bytes));
        if (isAccepted) accepted++;
        expect(isAccepted).toBe(isInSubgroup(bytes, eighth));
      }),
      { numRuns: 300 },
    );
    // Every second text is a point, every eighth point is in the subgroup.
    expect(accepted).toBeGreaterThan(0);
  });
});

describe('fingerprints', () => {
  it('host_fp is the lowercase hex SHA-256 of the 32 key bytes', () => {
    expect(hostFingerprint(KEY)).toBe(hash('sha256', Buffer.from(KEY_HEX, 'hex'), 'hex'));
    expect(hostFingerprint(KEY)).toBe('21fe31dfa154a261626bf854046fd2271b7bed4b6abe45aa58877ef47f9721b9');
  });

  it('people see it as ssh shows it: SHA256: and unpadded base64', () => {
    const shown = displayFingerprint(KEY);
    expect(shown).toMatch(/^SHA256:[A-Za-z0-9+/]{43}$/);
    expect(Buffer.from(shown.slice(7), 'base64').toString('hex')).toBe(hostFingerprint(KEY));
  });
});

function isLenientPoint(bytes: Uint8Array): boolean {
  try {
    Point.fromBytes(bytes, true);
    return true;
  } catch {
    return false;
  }
}

function inverseOf8(): bigint {
  for (let quotient = 1n; ; quotient++) {
    if ((quotient * GROUP_ORDER + 1n) % 8n === 0n) return (quotient * GROUP_ORDER + 1n) / 8n;
  }
}

function isInSubgroup(bytes: Uint8Array, eighth: bigint): boolean {
  try {
    const point = Point.fromBytes(bytes, true);
    const isCanonical = Buffer.from(point.toBytes()).equals(bytes);
    return isCanonical && !point.clearCofactor().is0() && point.clearCofactor().multiply(eighth).equals(point);
  } catch {
    return false;
  }
}

describe('public keys: a fingerprint that somebody typed', () => {
  const shown = displayFingerprint(KEY);

  it('is read as people see it and as host_fp, in letters of either case', () => {
    expect(parseFingerprint(shown)).toBe(hostFingerprint(KEY));
    expect(parseFingerprint(hostFingerprint(KEY))).toBe(hostFingerprint(KEY));
    expect(parseFingerprint(hostFingerprint(KEY).toUpperCase())).toBe(hostFingerprint(KEY));
  });

  it.each([
    ['padding', `${shown}=`],
    ['a letter less', shown.slice(0, -1)],
    ['a letter more', `${shown}A`],
    ['set bits behind the end', `SHA256:${'A'.repeat(42)}B`],
    ['url-safe letters', `SHA256:${'_'.repeat(42)}A`],
    ['another hash', shown.replace('SHA256', 'MD5')],
    ['lower case', shown.replace('SHA256', 'sha256')],
    ['no prefix', shown.slice('SHA256:'.length)],
    ['63 hex digits', hostFingerprint(KEY).slice(1)],
    ['a line break', `${shown}\n`],
    ['a key', KEY],
    ['nothing', ''],
  ])('refuses %s', (_why, text) => {
    expect(parseFingerprint(text)).toBeUndefined();
  });
});
