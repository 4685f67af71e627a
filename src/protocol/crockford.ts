/**
 * Crockford base32 of bytes, read as one number, with the most significant digit first.
 *
 * 16 bytes make 26 digits, and 32 bytes make 52. Unused bits are at the front and are zero.
 */
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
