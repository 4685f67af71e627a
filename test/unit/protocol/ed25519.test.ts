import { readFileSync } from 'node:fs';
import { hash } from 'node:crypto';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { Point, hashes, sign as nobleSign, verify as nobleVerify } from '@noble/ed25519';
import { sha512 } from '@noble/hashes/sha2.js';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { signerFromSeed, verifySignature } from '../../../src/protocol/ed25519.ts';
import { type PublicKey, publicKeyBytes, publicKeyFromBytes } from '../../../src/protocol/public-key.ts';
import { isAcceptablePoint } from '../../../src/protocol/acceptable-point.ts';
import {
  FIELD_PRIME,
  GROUP_ORDER,
  SMALL_ORDER_ENCODINGS,
  forgeSignature,
  fromLittleEndian,
  littleEndian,
  torsionPoints,
} from '../../support/edwards25519.ts';
import { share } from '../../support/thorough.ts';

hashes.sha512 = sha512;

const VECTORS = join(import.meta.dirname, '../../vectors/third-party');

/** The rule of the project: the key passed the entry checks, and the signature verifies. */
function isValid(key: PublicKey, message: Uint8Array, signature: Uint8Array): boolean {
  return isAcceptablePoint(key) && verifySignature(key, message, Buffer.from(signature).toString('base64'));
}

function nobleVerifies(key: PublicKey, message: Uint8Array, signature: Uint8Array): boolean {
  return nobleVerify(signature, message, publicKeyBytes(key), { zip215: false });
}

function hex(text: string): Buffer {
  return Buffer.from(text, 'hex');
}

/** The same R with another S. */
function withScalar(signature: Uint8Array, scalar: bigint): Buffer {
  return Buffer.concat([signature.subarray(0, 32), littleEndian(scalar)]);
}

const seedBytes = fc.uint8Array({ minLength: 32, maxLength: 32 });

const SIGNER = signerFromSeed(hash('sha256', 'ed25519 test', 'buffer'));
const MESSAGE = Buffer.from('message');
const SIGNATURE = hex(Buffer.from(SIGNER.sign(MESSAGE), 'base64').toString('hex'));
/** A key of which the tests know the scalar, so that they can sign as no signer would. */
const SCALAR = fromLittleEndian(hash('sha256', 'scalar', 'buffer')) % GROUP_ORDER;
const SCALAR_KEY = publicKeyFromBytes(Point.BASE.multiply(SCALAR).toBytes());

describe('Ed25519 signer (RFC 8032)', () => {
  // Section 7.1.
  const tests = [
    {
      name: 'TEST 1',
      seed: '9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60',
      key: 'd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a',
      message: '',
      signature:
        'e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155' +
        '5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b',
    },
    {
      name: 'TEST 2',
      seed: '4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb',
      key: '3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c',
      message: '72',
      signature:
        '92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da' +
        '085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00',
    },
    {
      name: 'TEST 3',
      seed: 'c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7',
      key: 'fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025',
      message: 'af82',
      signature:
        '6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac' +
        '18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a',
    },
    {
      name: 'TEST SHA(abc)',
      seed: '833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42',
      key: 'ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf',
      message:
        'ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a' +
        '2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f',
      signature:
        'dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b589' +
        '09351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704',
    },
  ];

  it.each(tests)('section 7.1, $name', ({ seed, key, message, signature }) => {
    const signer = signerFromSeed(hex(seed));
    expect(publicKeyBytes(signer.publicKey).toString('hex')).toBe(key);
    expect(Buffer.from(signer.sign(hex(message)), 'base64').toString('hex')).toBe(signature);
    expect(isValid(signer.publicKey, hex(message), hex(signature))).toBe(true);
  });

  it('property: signs exactly as @noble/ed25519 does', () => {
    fc.assert(
      fc.property(seedBytes, fc.uint8Array({ maxLength: 200 }), (seed, message) => {
        const signature = signerFromSeed(seed).sign(message);
        expect(signature).toHaveLength(88);
        expect(signature).toBe(Buffer.from(nobleSign(message, seed)).toString('base64'));
      }),
      { numRuns: share(100) },
    );
  });

  it('signs the same on the thread pool', async () => {
    const messages = Array.from({ length: 20 }, (_, index) => Buffer.from(`message ${index}`));
    const inPool = await Promise.all(messages.map((message) => SIGNER.signInPool(message)));
    expect(inPool).toEqual(messages.map((message) => SIGNER.sign(message)));
  });

  it.each([0, 31, 33, 64])('refuses a seed of %i bytes, and does not say what was in it', (length) => {
    const seed = Buffer.alloc(length, 'secret');
    expect(() => signerFromSeed(seed)).toThrow(new RangeError('an Ed25519 seed has 32 bytes'));
  });

  it('does not carry the seed where a log could pick it up', () => {
    const seed = hash('sha256', 'secret', 'buffer');
    const shown = JSON.stringify(signerFromSeed(seed)) + inspect(signerFromSeed(seed), { depth: 9, showHidden: true });
    for (const encoding of ['hex', 'base64'] as const) expect(shown).not.toContain(seed.toString(encoding));
  });
});

describe('Ed25519 verifier', () => {
  it('property: agrees with @noble/ed25519 on signatures and on everything one change away from one', () => {
    const change = fc.record({
      where: fc.constantFrom('nothing', 'key', 'message', 'R', 'S'),
      byte: fc.nat({ max: 31 }),
      bit: fc.nat({ max: 7 }),
    });
    const seen = { valid: 0, invalid: 0 };
    fc.assert(
      fc.property(
        seedBytes,
        fc.uint8Array({ minLength: 32, maxLength: 80 }),
        change,
        (seed, message, { where, byte, bit }) => {
          const signer = signerFromSeed(seed);
          const signature = Buffer.from(signer.sign(message), 'base64');
          const keyBytes = publicKeyBytes(signer.publicKey);
          const changed = { nothing: undefined, key: keyBytes, message, R: signature, S: signature.subarray(32) }[
            where
          ];
          if (changed) changed[byte] = (changed[byte] ?? 0) ^ (1 << bit);
          const key = publicKeyFromBytes(keyBytes);
          const valid = isValid(key, message, signature);
          expect(valid).toBe(where === 'nothing');
          expect(valid).toBe(isAcceptablePoint(key) && nobleVerifies(key, message, signature));
          seen[valid ? 'valid' : 'invalid']++;
        },
      ),
      { numRuns: share(1600) },
    );
    expect(Math.min(seen.valid, seen.invalid)).toBeGreaterThan(0);
  });

  it('property: agrees with @noble/ed25519 on 64 random bytes', () => {
    fc.assert(
      fc.property(seedBytes, fc.uint8Array({ minLength: 64, maxLength: 64 }), (seed, signature) => {
        const key = signerFromSeed(seed).publicKey;
        expect(isValid(key, MESSAGE, signature)).toBe(false);
        expect(nobleVerifies(key, MESSAGE, signature)).toBe(false);
      }),
      { numRuns: share(100) },
    );
  });

  it.each([
    ['no string', 64],
    ['nothing', undefined],
    ['null', null],
    ['raw bytes', SIGNATURE],
    ['no characters', ''],
    ['hexadecimal', SIGNATURE.toString('hex')],
    ['63 bytes', SIGNATURE.subarray(0, 63).toString('base64')],
    ['65 bytes', Buffer.concat([SIGNATURE, Buffer.of(0)]).toString('base64')],
    ['66 bytes, of 88 characters too', Buffer.concat([SIGNATURE, Buffer.of(0, 0)]).toString('base64')],
    ['missing padding', SIGNATURE.toString('base64').slice(0, -2)],
    ['url-safe letters', SIGNATURE.toString('base64url').padEnd(88, '=')],
    ['set bits behind the end', SIGNATURE.toString('base64').replace(/.==$/, lastLetterWithBits)],
    ['spaces for the padding', `${SIGNATURE.toString('base64').slice(0, -2)}  `],
    ['a list of one signature', [SIGNATURE.toString('base64')]],
  ])('takes %s for no signature', (_what, signature) => {
    expect(verifySignature(SIGNER.publicKey, MESSAGE, SIGNATURE.toString('base64'))).toBe(true);
    expect(verifySignature(SIGNER.publicKey, MESSAGE, signature)).toBe(false);
  });

  it('refuses S >= L: every other scalar that is the same modulo L', () => {
    const scalar = fromLittleEndian(SIGNATURE.subarray(32));
    expect(isValid(SIGNER.publicKey, MESSAGE, withScalar(SIGNATURE, scalar))).toBe(true);
    for (let times = 1n; scalar + times * GROUP_ORDER < 1n << 256n; times++) {
      const malleated = withScalar(SIGNATURE, scalar + times * GROUP_ORDER);
      expect(isValid(SIGNER.publicKey, MESSAGE, malleated)).toBe(false);
      expect(nobleVerifies(SIGNER.publicKey, MESSAGE, malleated)).toBe(false);
    }
  });

  it('refuses S = L where S = 0 would verify', () => {
    const commitmentScalar = 5n;
    const commitment = Point.BASE.multiply(commitmentScalar).toBytes();
    const signature = forgeSignature({ ...forgedParts(), commitmentScalar, commitment });
    expect(isValid(SCALAR_KEY, MESSAGE, signature)).toBe(true);
    for (const scalar of [0n, GROUP_ORDER - 1n, GROUP_ORDER, GROUP_ORDER + 1n, (1n << 256n) - 1n]) {
      expect(isValid(SCALAR_KEY, MESSAGE, withScalar(signature, scalar))).toBe(false);
    }
  });

  it('refuses an R that is not canonical although the equation holds', () => {
    const identity = Point.ZERO.toBytes();
    const canonical = forgeSignature({ ...forgedParts(), commitmentScalar: 0n, commitment: identity });
    // The forgery is right in its canonical form: noble takes it. OpenSSL does too up to 3.0 and refuses it from 3.5
    // on.
    expect(nobleVerifies(SCALAR_KEY, MESSAGE, canonical)).toBe(true);
    const lenient = SMALL_ORDER_ENCODINGS.filter(({ order, isCanonical }) => order === 1 && !isCanonical);
    expect(lenient).toHaveLength(3);
    for (const encoding of lenient) {
      const signature = forgeSignature({ ...forgedParts(), commitmentScalar: 0n, commitment: hex(encoding.hex) });
      expect(nobleVerify(signature, MESSAGE, publicKeyBytes(SCALAR_KEY), { zip215: true })).toBe(true);
      expect(nobleVerifies(SCALAR_KEY, MESSAGE, signature)).toBe(false);
      expect(isValid(SCALAR_KEY, MESSAGE, signature)).toBe(false);
    }
  });

  it('refuses an R with torsion: the equation without cofactor is the one that counts', () => {
    // The only place where the verifier and noble differ: noble multiplies by 8, as RFC 8032 also allows. Nobody but
    // the holder of the key can make such a signature, and one verifier everywhere keeps it from dividing hosts.
    for (const torsion of torsionPoints()) {
      const commitment = Point.BASE.multiply(7n).add(torsion).toBytes();
      const signature = forgeSignature({ ...forgedParts(), commitmentScalar: 7n, commitment });
      expect(nobleVerifies(SCALAR_KEY, MESSAGE, signature)).toBe(true);
      expect(isValid(SCALAR_KEY, MESSAGE, signature)).toBe(false);
    }
  });

  it('one fixed signature verifies no message under a key of small order', () => {
    // R = neutral point, S = 0: with k*A neutral too, OpenSSL alone takes it for any message.
    const fixed = Buffer.concat([Point.ZERO.toBytes(), littleEndian(0n)]);
    for (const { hex: key } of SMALL_ORDER_ENCODINGS) {
      const messages = Array.from({ length: 16 }, (_, index) => Buffer.of(index));
      const verified = messages.filter((message) => isValid(publicKeyFromBytes(hex(key)), message, fixed));
      expect(verified).toEqual([]);
    }
  });

  it('refuses an R whose y is the field prime or above', () => {
    for (const above of [0n, 1n, 18n]) {
      const commitment = littleEndian(FIELD_PRIME + above);
      expect(isValid(SIGNER.publicKey, MESSAGE, Buffer.concat([commitment, SIGNATURE.subarray(32)]))).toBe(false);
    }
  });

  it('refuses a signature of another key and one of another message', () => {
    const other = signerFromSeed(hash('sha256', 'another', 'buffer'));
    expect(verifySignature(other.publicKey, MESSAGE, SIGNER.sign(MESSAGE))).toBe(false);
    expect(verifySignature(SIGNER.publicKey, Buffer.from('messagE'), SIGNER.sign(MESSAGE))).toBe(false);
    expect(verifySignature(SIGNER.publicKey, Buffer.alloc(0), SIGNER.sign(MESSAGE))).toBe(false);
  });

  it('goes on verifying rightly after more keys than it keeps', () => {
    const signature = SIGNER.sign(MESSAGE);
    const strangers = Array.from({ length: 4200 }, (_none, at) => hash('sha256', `stranger ${at}`, 'buffer'));
    expect(strangers.filter((key) => verifySignature(publicKeyFromBytes(key), MESSAGE, signature))).toEqual([]);
    expect(verifySignature(SIGNER.publicKey, MESSAGE, signature)).toBe(true);
  });
});

interface WycheproofCase {
  tcId: number;
  comment: string;
  pk: string;
  msg: string;
  sig: string;
  result: 'valid' | 'invalid';
}

describe('Ed25519 verifier against Wycheproof', () => {
  const { cases } = JSON.parse(readFileSync(join(VECTORS, 'ed25519-wycheproof.json'), 'utf8')) as {
    cases: WycheproofCase[];
  };

  it.each(cases)('$tcId $comment: $result', ({ pk, msg, sig, result }) => {
    const key = publicKeyFromBytes(hex(pk));
    expect(isAcceptablePoint(key)).toBe(true);
    expect(isValid(key, hex(msg), hex(sig))).toBe(result === 'valid');
  });

  it('has malleable signatures that would verify if S were reduced', () => {
    const malleable = cases.filter(({ comment }) => /^s \+ [248]?L$/.test(comment));
    expect(malleable).toHaveLength(4);
    for (const { pk, msg, sig } of malleable) {
      const reduced = withScalar(hex(sig), fromLittleEndian(hex(sig).subarray(32)) % GROUP_ORDER);
      expect(isValid(publicKeyFromBytes(hex(pk)), hex(msg), reduced)).toBe(true);
    }
  });
});

interface SpeccheckCase {
  comment: string;
  msg: string;
  pk: string;
  sig: string;
}

describe('Ed25519 verifier against ed25519-speccheck', () => {
  const { cases } = JSON.parse(readFileSync(join(VECTORS, 'ed25519-speccheck.json'), 'utf8')) as {
    cases: SpeccheckCase[];
  };

  it.each(cases)('$comment: refused', ({ pk, msg, sig }) => {
    expect(isValid(publicKeyFromBytes(hex(pk)), hex(msg), hex(sig))).toBe(false);
  });

  it('13 of the 15 by their key, which alone already keeps out what verifiers disagree about', () => {
    const byKey = cases.filter(({ pk }) => !isAcceptablePoint(publicKeyFromBytes(hex(pk))));
    expect(byKey).toHaveLength(13);
    const disputed = byKey.filter(({ pk, msg, sig }) => {
      const key = publicKeyFromBytes(hex(pk));
      const ours = verifySignature(key, hex(msg), hex(sig).toString('base64'));
      return ours !== nobleVerifies(key, hex(msg), hex(sig));
    });
    expect(disputed.length).toBeGreaterThan(0);
  });
});

function forgedParts(): { secretScalar: bigint; publicKey: Uint8Array; message: Uint8Array } {
  return { secretScalar: SCALAR, publicKey: publicKeyBytes(SCALAR_KEY), message: MESSAGE };
}

/** `X==` with the lowest of the four unused bits set. */
function lastLetterWithBits(end: string): string {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  return `${alphabet.charAt(alphabet.indexOf(end.charAt(0)) + 1)}==`;
}
