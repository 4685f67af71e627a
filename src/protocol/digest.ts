/** SHA-256 in the form of the protocol: 64 lowercase hexadecimal digits. */
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
