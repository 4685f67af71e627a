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

/** How long the base64 of so many bytes is. */
export function base64Length(bytes: number): number {
  return 4 * Math.ceil(bytes / 3);
}

export function encodeBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}
