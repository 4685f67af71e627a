/**
 * MessagePack as the store uses it: arrays of plain values, every one readable alone, and the layouts of those arrays.
 *
 * Shared record structures are off (a value would be unreadable without them). Only bytes that this program wrote are
 * ever unpacked. Keys and hashes are packed as their raw bytes.
 *
 * A layout is an object whose members stand in the order in which they are stored. DO NOT CHANGE the order of a stored
 * layout: add a version. `unpack` does not check types: the checksum around the stored bytes vouches for them.
 */
import { Packr } from 'msgpackr';
import type { EnrolmentRecord } from '../core/rows.ts';
import type { Sha256Hex } from '../../protocol/encodings.ts';
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

export function listed<V>(values: readonly V[], position: unknown): V {
  const value = values[position as number];
  if (value === undefined) throw new NotListed('invariant: a stored position lies in its list');
  return value;
}

/** A field says how one member is stored. */
interface Field<V> {
  pack(this: void, value: V): unknown;
  unpack(this: void, stored: unknown): V;
}

export type Layout<T> = { readonly [K in keyof T]-?: Field<T[K]> };

/** Numbers, texts, booleans, null and lists of them, as they are. */
// oxlint-disable-next-line typescript/no-explicit-any -- one field for members of every plain type
export const asIs: Field<any> = { pack: (value: unknown) => value, unpack: (stored) => stored };

export const key: Field<PublicKey> = {
  pack: publicKeyBytes,
  unpack: (stored) => publicKeyFromBytes(stored as Buffer),
};

export const hash: Field<Sha256Hex> = {
  pack: (value) => Buffer.from(value, 'hex'),
  unpack: (stored) => {
    const { buffer, byteOffset, length } = stored as Buffer;
    return Buffer.from(buffer, byteOffset, length).toString('hex') as Sha256Hex;
  },
};

export function orNull<V>({ pack, unpack }: Field<V>): Field<V | null> {
  return {
    pack: (value) => (value === null ? null : pack(value)),
    unpack: (stored) => (stored === null ? null : unpack(stored)),
  };
}

/** Stored as its position: DO NOT CHANGE the order of `values`. */
export function oneOf<V>(values: readonly V[]): Field<V> {
  return { pack: (value) => values.indexOf(value), unpack: (stored) => listed(values, stored) };
}

export function listOf<V>({ pack, unpack }: Field<V>): Field<V[]> {
  return { pack: (values) => values.map(pack), unpack: (stored) => (stored as unknown[]).map(unpack) };
}

/** An array of the members of `T`. */
interface TupleField<T> extends Field<T> {
  pack(this: void, value: T): unknown[];
}

export function tuple<T extends object>(layout: Layout<T>): TupleField<T> {
  const members = Object.entries<Field<unknown>>(layout as Record<string, Field<unknown>>);
  const { length } = members;
  return {
    pack: (value) => {
      const stored: unknown[] = [];
      for (const [name, field] of members) {
        const member = (value as Record<string, unknown>)[name];
        stored.push(field === asIs ? member : field.pack(member));
      }
      return stored;
    },
    unpack: (stored) => {
      const value: Record<string, unknown> = {};
      for (let at = 0; at < length; at++) {
        const [name, field] = members[at] as (typeof members)[number];
        const member = (stored as unknown[])[at];
        value[name] = field === asIs ? member : field.unpack(member);
      }
      return value as T;
    },
  };
}

/** The record of an admitted key: in the events that admit one, and at the beginning of its row. */
export const ENROLMENT_LAYOUT: Layout<EnrolmentRecord> = {
  hostName: asIs,
  ownerFp: asIs,
  account: asIs,
  org: asIs,
  clientId: asIs,
  authorizedBy: asIs,
  enrolledAtMs: asIs,
  validUntilMs: asIs,
};
