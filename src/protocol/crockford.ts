/**
 * Crockford base32 of bytes as one number: the most significant digit first, in as many digits as the bits need.
 *
 * 16 bytes make 26 digits and 32 bytes make 52; the bits that are over stand in front and are zero.
 */
const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const DIGIT_BITS = 5;

export function encodeCrockford(bytes: Uint8Array): string {
  let value = BigInt(`0x0${Buffer.from(bytes).toString('hex')}`);
  let text = '';
  for (let digit = 0; digit < Math.ceil((bytes.length * 8) / DIGIT_BITS); digit++) {
    text = ALPHABET.charAt(Number(value & 31n)) + text;
    value >>= 5n;
  }
  return text;
}

/** What people write for a digit that looks like it. */
const LOOKALIKES: Readonly<Record<string, string>> = { O: '0', I: '1', L: '1' };

/** The `count` bytes that the digits stand for, letters in either case; `undefined` when they stand for others. */
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
