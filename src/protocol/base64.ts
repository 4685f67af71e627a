/**
 * RFC 4648 section 4 base64: padded, canonical, nothing else.
 *
 * `Buffer.from(text, 'base64')` also takes spaces, url-safe letters, missing padding and set bits behind the end;
 * so every decode is encoded again and compared.
 */

/** The bytes of `text`, or `undefined` when it is not the canonical padded base64 of any bytes. */
export function decodeBase64(text: string): Buffer | undefined {
  if (text.length % 4 !== 0) return undefined;
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? bytes : undefined;
}

export function encodeBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}
