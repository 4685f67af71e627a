/** The random id of a store generation: 128 bits in Crockford base32, 26 characters. Epochs have no order. */
import { encodeCrockford } from './encodings.ts';

declare const epochBrand: unique symbol;
export type Epoch = string & { readonly [epochBrand]: true };

export const EPOCH_RANDOM_BYTES = 16;

/** Throws `RangeError` unless given 16 bytes. */
export function epochFromRandom(random: Uint8Array): Epoch {
  if (random.length !== EPOCH_RANDOM_BYTES) throw new RangeError('an epoch is made of 16 random bytes');
  return encodeCrockford(random) as Epoch;
}

/** An epoch that any relay may have made: opaque, of characters that a key of our store can hold. */
export function parseEpoch(text: string): Epoch | undefined {
  return /^[!-~]{1,64}$/.test(text) ? (text as Epoch) : undefined;
}
