/**
 * Bytes as text, as the protocol has them:
 *   - SHA-256 as 64 lowercase hexadecimal digits;
 *   - base64 of RFC 4648, section 4: padded and canonical only. `Buffer.from(text, 'base64')` also accepts spaces,
 *     URL-safe letters, missing padding and stray bits in the last character. So each decoder encodes the bytes again
 *     and compares;
 *   - Crockford base32 of bytes, read as one number, with the most significant digit first. 16 bytes make 26 digits,
 *     and 32 bytes make 52. Unused bits are at the front and are zero.
 */
import { hash } from 'node:crypto';

declare const sha256HexBrand: unique symbol;
/** 64 lowercase hexadecimal digits. */
export type Sha256Hex = string & { readonly [sha256HexBrand]: true };

export function sha256Hex(bytes: Uint8Array | string): Sha256Hex {
  return hash('sha256', bytes, 'hex') as Sha256Hex;
}

/** Says whether the bytes exist and have this hash. */
export function hasHash<T extends Uint8Array>(bytes: T | undefined, expected: Sha256Hex): bytes is T {
  return bytes !== undefined && sha256Hex(bytes) === expected;
}

/** Says whether `length` bytes at two places are the same. For a few, that is sooner seen here than in native code. */
export function areSame(one: Uint8Array, at: number, other: Uint8Array, otherAt: number, length: number): boolean {
  for (let nth = 0; nth < length; nth++) if (one[at + nth] !== other[otherAt + nth]) return false;
  return true;
}

/** The bytes of `text`, or `undefined` when `text` is not canonical padded base64. */
export function decodeBase64(text: string): Buffer | undefined {
  if (text.length % 4 !== 0) return undefined;
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? bytes : undefined;
}

/** Returns how long the base64 of so many bytes is. */
export function base64Length(bytes: number): number {
  return 4 * Math.ceil(bytes / 3);
}

export function encodeBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}

/** The texts in front of each of several values, and behind every one: in Latin-1. */
export interface TextsAround {
  before: readonly string[];
  after: string;
  /** True when the values are written as base64, and false when they are written as they are. */
  isBase64: boolean;
}

/** Returns how long values of these lengths are between their texts. */
export function lengthBetween(lengths: readonly number[], { before, after, isBase64 }: TextsAround): number {
  let size = lengths.length * after.length;
  for (const text of before) size += text.length;
  for (const length of lengths) size += isBase64 ? base64Length(length) : length;
  return size;
}

/** Writes the values between their texts; `into` is exactly as long as `lengthBetween` says. */
export function writeBetween(into: Buffer, values: readonly Buffer[], { before, after, isBase64 }: TextsAround): void {
  let at = 0;
  for (const [position, value] of values.entries()) {
    at += into.write(before[position] ?? '', at, 'latin1');
    at += isBase64 ? into.write(value.toString('base64'), at, 'latin1') : value.copy(into, at);
    at += into.write(after, at, 'latin1');
  }
  if (at !== into.length) throw new Error('invariant: values between texts have the length they were planned with');
}

const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const DIGIT_BITS = 5;

export function encodeCrockford(bytes: Uint8Array): string {
  const digits = Math.ceil((bytes.length * 8) / DIGIT_BITS);
  let text = '';
  let value = 0;
  // The number of bits in `value` that are not in `text` yet.
  let bits = digits * DIGIT_BITS - bytes.length * 8;
  for (const byte of bytes) {
    value = (value << 8) | byte;
    for (bits += 8; bits >= DIGIT_BITS; ) {
      bits -= DIGIT_BITS;
      text += ALPHABET.charAt((value >>> bits) & 31);
    }
    value &= (1 << bits) - 1;
  }
  return text;
}

/** Letters that people confuse with digits. */
const LOOKALIKES: Readonly<Record<string, string>> = { O: '0', I: '1', L: '1' };

/**
 * The `count` bytes that the digits encode, in upper or lower case; `undefined` when they do not encode so many bytes.
 */
export function decodeCrockford(text: string, count: number): Buffer | undefined {
  if (text.length !== Math.ceil((count * 8) / DIGIT_BITS)) return undefined;
  let value = 0n;
  for (const letter of text.toUpperCase()) {
    const digit = ALPHABET.indexOf(LOOKALIKES[letter] ?? letter);
    if (digit < 0) return undefined;
    value = (value << 5n) | BigInt(digit);
  }
  const hex = value.toString(16).padStart(count * 2, '0');
  return hex.length === count * 2 ? Buffer.from(hex, 'hex') : undefined;
}
