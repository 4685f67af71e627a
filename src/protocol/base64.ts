/**
 * Base64 of RFC 4648, section 4: padded and canonical only.
 *
 * `Buffer.from(text, 'base64')` also accepts spaces, URL-safe letters, missing padding and stray bits in the last
 * character. So each decoder encodes the bytes again and compares.
 */

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
}

/** Returns how long values of these lengths are as base64 between their texts. */
export function lengthBetween(lengths: readonly number[], { before, after }: TextsAround): number {
  let size = lengths.length * after.length;
  for (const text of before) size += text.length;
  for (const length of lengths) size += base64Length(length);
  return size;
}

/** Writes the values as base64 between their texts; `into` is exactly as long as `lengthBetween` says. */
export function writeBetween(into: Buffer, values: readonly Buffer[], { before, after }: TextsAround): void {
  let at = 0;
  for (const [position, value] of values.entries()) {
    at += into.write(before[position] ?? '', at, 'latin1');
    at += into.write(value.toString('base64'), at, 'latin1');
    at += into.write(after, at, 'latin1');
  }
  if (at !== into.length) throw new Error('invariant: values between texts have the length they were planned with');
}
