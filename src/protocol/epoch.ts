/** The random id of a store generation: 128 bits in Crockford base32, 26 characters, no ordering implied. */

declare const epochBrand: unique symbol;
export type Epoch = string & { readonly [epochBrand]: true };

export const EPOCH_RANDOM_BYTES = 16;
const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

/** Throws `RangeError` unless given 16 bytes. */
export function epochFromRandom(random: Uint8Array): Epoch {
  if (random.length !== EPOCH_RANDOM_BYTES) throw new RangeError('an epoch is made of 16 random bytes');
  let value = BigInt(`0x${Buffer.from(random).toString('hex')}`);
  let text = '';
  for (let digit = 0; digit < 26; digit++) {
    text = ALPHABET.charAt(Number(value & 31n)) + text;
    value >>= 5n;
  }
  return text as Epoch;
}
