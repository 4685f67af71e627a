/**
 * RFC 8785 canonical JSON (JCS): the form whose UTF-8 bytes are hashed and signed.
 *
 * The library serialises; this file refuses first what JCS cannot carry and the library lets through: lone surrogates
 * (which UTF-8 would silently replace), `undefined` (which it drops), and anything that is no plain JSON value.
 * canonicalize and not json-canonicalize: that one (3.0.1) does not sort an object with a member named `toJSON`, and
 * takes one value under the names `a` and `ab` for a circle.
 */
import canonicalize from 'canonicalize';

/** Thrown by `canonicalJson` for a value that JCS cannot carry; at the edge it means `malformed`. */
export class NotCanonicalisable extends Error {}

/** Deeper values are refused: no document of the protocol nests further, and the library recurses. */
const DEPTH_MAX = 64;

/** The canonical text of `value`. Throws `NotCanonicalisable`. */
export function canonicalJson(value: unknown): string {
  assertCarriable(value, 0);
  const text = canonicalize(value);
  if (text === undefined) throw new NotCanonicalisable('no JSON value');
  return text;
}

/** The canonical UTF-8 bytes of `value`: what is signed and what is stored. Throws `NotCanonicalisable`. */
export function canonicalBytes(value: unknown): Buffer {
  return Buffer.from(canonicalJson(value), 'utf8');
}

function assertCarriable(value: unknown, depth: number): void {
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
        // `from` shows the holes of a sparse array too.
        for (const element of Array.from(value as unknown[])) assertCarriable(element, depth + 1);
        return;
      }
      assertPlain(value);
      for (const [name, member] of Object.entries(value)) {
        assertCarriable(name, depth);
        assertCarriable(member, depth + 1);
      }
      return;
    default:
      throw new NotCanonicalisable(`a ${typeof value} is no JSON value`);
  }
}

/** A date, a buffer or a map would lose its contents or turn into something else. */
function assertPlain(value: object): void {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) throw new NotCanonicalisable('not a plain object');
}
