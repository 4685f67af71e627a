/**
 * Canonical JSON of RFC 8785 (JCS): its UTF-8 bytes are what is hashed and signed.
 *
 * The library `canonicalize` serialises. Before that, this file refuses the values that JCS cannot represent and that
 * the library lets through: lone surrogates (UTF-8 would silently replace them), `undefined` (the library drops it),
 * and anything that is not a plain JSON value. The library json-canonicalize (3.0.1) does not sort an object that has a
 * member `toJSON`, and reports a cycle when one value has the names `a` and `ab`.
 */
import canonicalize from 'canonicalize';

/** Thrown by `canonicalJson` for a value that JCS cannot represent. In a request such a value is `malformed`. */
export class NotCanonicalisable extends Error {}

/** Values that nest deeper are refused: no document of the protocol does, and the library recurses. */
const DEPTH_MAX = 64;

/** The canonical text of `value`. Throws `NotCanonicalisable`. */
export function canonicalJson(value: unknown): string {
  assertRepresentable(value, 0);
  const text = canonicalize(value);
  if (text === undefined) throw new NotCanonicalisable('not a JSON value');
  return text;
}

/** The canonical UTF-8 bytes of `value`, which are signed and stored. Throws `NotCanonicalisable`. */
export function canonicalBytes(value: unknown): Buffer {
  return Buffer.from(canonicalJson(value), 'utf8');
}

function assertRepresentable(value: unknown, depth: number): void {
  if (depth > DEPTH_MAX) throw new NotCanonicalisable('nested too deeply');
  switch (typeof value) {
    case 'string':
      if (!value.isWellFormed()) throw new NotCanonicalisable('a string holds a lone surrogate');
      return;
    case 'number':
      if (!Number.isFinite(value)) throw new NotCanonicalisable('a number is not finite');
      return;
    case 'boolean':
      return;
    case 'object':
      if (value === null) return;
      if (Array.isArray(value)) {
        // `Array.from` turns the holes of a sparse array into `undefined`, which is refused.
        for (const element of Array.from(value as unknown[])) assertRepresentable(element, depth + 1);
        return;
      }
      assertPlain(value);
      for (const [name, member] of Object.entries(value)) {
        assertRepresentable(name, depth);
        assertRepresentable(member, depth + 1);
      }
      return;
    default:
      throw new NotCanonicalisable(`a ${typeof value} is not a JSON value`);
  }
}

/** A date, a buffer or a map would lose its contents, or become something else. */
function assertPlain(value: object): void {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) throw new NotCanonicalisable('not a plain object');
}
