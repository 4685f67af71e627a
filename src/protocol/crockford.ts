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
