/**
 * Points and signatures that no honest signer makes, for the tests of the entry checks and of the verifier.
 *
 * Made with the point arithmetic of @noble/ed25519, which shares no code with the verifier under test (OpenSSL).
 */
import { Point, etc } from '@noble/ed25519';
import { sha512 } from '@noble/hashes/sha2.js';

/** The order of the subgroup that signatures are made in: L of RFC 8032. */
export const GROUP_ORDER = Point.CURVE().n;
/** The field prime, 2^255 - 19. */
export const FIELD_PRIME = Point.CURVE().p;

/** Little-endian, 32 bytes. */
export function littleEndian(value: bigint): Buffer {
  return Buffer.from(Buffer.from(value.toString(16).padStart(64, '0'), 'hex').toReversed());
}

export function fromLittleEndian(bytes: Uint8Array): bigint {
  return BigInt(`0x${Buffer.from(bytes.toReversed()).toString('hex')}`);
}

/** The 14 encodings that decode, leniently, to one of the 8 points whose order divides 8. */
export const SMALL_ORDER_ENCODINGS: readonly { hex: string; order: 1 | 2 | 4 | 8; isCanonical: boolean }[] = [
  { hex: `01${'00'.repeat(31)}`, order: 1, isCanonical: true },
  { hex: `01${'00'.repeat(30)}80`, order: 1, isCanonical: false },
  { hex: `ee${'ff'.repeat(30)}7f`, order: 1, isCanonical: false },
  { hex: `ee${'ff'.repeat(31)}`, order: 1, isCanonical: false },
  { hex: `ec${'ff'.repeat(30)}7f`, order: 2, isCanonical: true },
  { hex: `ec${'ff'.repeat(31)}`, order: 2, isCanonical: false },
  { hex: '00'.repeat(32), order: 4, isCanonical: true },
  { hex: `${'00'.repeat(31)}80`, order: 4, isCanonical: true },
  { hex: `ed${'ff'.repeat(30)}7f`, order: 4, isCanonical: false },
  { hex: `ed${'ff'.repeat(31)}`, order: 4, isCanonical: false },
  { hex: '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05', order: 8, isCanonical: true },
  { hex: '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85', order: 8, isCanonical: true },
  { hex: 'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a', order: 8, isCanonical: true },
  { hex: 'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa', order: 8, isCanonical: true },
];

/** The 7 points of small order that are not the neutral one. */
export function torsionPoints(): Point[] {
  return SMALL_ORDER_ENCODINGS.filter(({ isCanonical, order }) => isCanonical && order > 1).map(({ hex }) =>
    Point.fromHex(hex),
  );
}

/**
 * A signature whose R is `commitment` (encoded as it is given) and whose equation S*B = R + k*A holds for
 * `commitmentScalar`, up to whatever torsion the encoding of R adds. A is `secretScalar`*B plus `keyTorsion`.
 */
export function forgeSignature(parts: {
  secretScalar: bigint;
  publicKey: Uint8Array;
  commitmentScalar: bigint;
  commitment: Uint8Array;
  message: Uint8Array;
}): Buffer {
  const { secretScalar, publicKey, commitmentScalar, commitment, message } = parts;
  const challenge = fromLittleEndian(sha512(etc.concatBytes(commitment, publicKey, message)));
  const response = etc.mod(commitmentScalar + challenge * secretScalar, GROUP_ORDER);
  return Buffer.concat([commitment, littleEndian(response)]);
}
