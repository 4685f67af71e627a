/**
 * Layouts: which members of a value are stored, in which order, and each member in which form.
 *
 * A layout is an object whose members stand in the order in which they are stored. DO NOT CHANGE the order of a stored
 * layout: add a version. `unpack` trusts the types of what is stored: a checksum vouches for them.
 */
import type { Sha256Hex } from '../../protocol/digest.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { hashBytes, hashFrom, keyBytes, keyFrom, listed } from './packing.ts';

/** How one member is stored. */
export interface Field<V> {
  pack(this: void, value: V): unknown;
  unpack(this: void, stored: unknown): V;
}

/** Every member of `T`. */
export type Layout<T> = { readonly [K in keyof T]-?: Field<T[K]> };

/** Numbers, texts, booleans, null and lists of them, as they are. */
// oxlint-disable-next-line typescript/no-explicit-any -- one field for members of every plain type
export const asIs: Field<any> = { pack: (value: unknown) => value, unpack: (stored) => stored };

export const key: Field<PublicKey> = { pack: keyBytes, unpack: keyFrom };

export const hash: Field<Sha256Hex> = { pack: hashBytes, unpack: hashFrom };

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
export interface TupleField<T> extends Field<T> {
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
