/**
 * MessagePack as the store uses it: arrays of plain values, every one readable alone.
 *
 * Shared record structures are off (a value would be unreadable without them). Only bytes that this program wrote are
 * ever unpacked. Keys and hashes are packed as their raw bytes.
 */
import { Packr } from 'msgpackr';
import type { Sha256Hex } from '../../protocol/digest.ts';
import { type PublicKey, publicKeyBytes, publicKeyFromBytes } from '../../protocol/public-key.ts';

const packr = new Packr({ useRecords: false, mapsAsObjects: true });

export function pack(value: unknown): Buffer {
  return packr.pack(value);
}

/** The array that was packed. Throws when the bytes are no MessagePack array. */
export function unpackArray(bytes: Buffer): unknown[] {
  const value: unknown = packr.unpack(bytes);
  if (!Array.isArray(value)) throw new Error('invariant: a stored value is an array');
  return value;
}

/** Thrown for a stored position that lies in no list of this software. */
export class NotListed extends Error {}

/** What a stored position means. */
export function listed<V>(values: readonly V[], position: unknown): V {
  const value = values[position as number];
  if (value === undefined) throw new NotListed('invariant: a stored position lies in its list');
  return value;
}

export const keyBytes = publicKeyBytes;

export function keyFrom(value: unknown): PublicKey {
  return publicKeyFromBytes(value as Buffer);
}

export function hashBytes(hash: Sha256Hex): Buffer {
  return Buffer.from(hash, 'hex');
}

export function hashFrom(value: unknown): Sha256Hex {
  return Buffer.from(value as Buffer).toString('hex') as Sha256Hex;
}
