/**
 * RFC 8785 canonical JSON (JCS): the form whose UTF-8 bytes are hashed and signed.
 *
 * RFC 8785 takes its strings and numbers from ECMAScript, so `JSON.stringify` of a primitive is already canonical;
 * what is left is to sort members by UTF-16 code units and to refuse what JCS cannot carry: lone surrogates (which
 * UTF-8 would silently replace), non-finite numbers, `undefined`, and anything that is no JSON value.
 *
 * Not left to a library: json-canonicalize 3.0.1 does not sort an object that has a member named `toJSON`, and takes
 * one value under the names `a` and `ab` for a circle. The tests compare with it everywhere else.
 */

/** Thrown by `canonicalJson` for a value that JCS cannot carry; at the edge it means `malformed`. */
export class NotCanonicalisable extends Error {}

/** Deeper values are refused: no document of the protocol nests further, and `write` recurses. */
const DEPTH_MAX = 64;

/** The canonical text of `value`. Throws `NotCanonicalisable`. */
export function canonicalJson(value: unknown): string {
  return write(value, 0);
}

/** The canonical UTF-8 bytes of `value`: what is signed and what is stored. Throws `NotCanonicalisable`. */
export function canonicalBytes(value: unknown): Buffer {
  return Buffer.from(canonicalJson(value), 'utf8');
}

function write(value: unknown, depth: number): string {
  if (depth > DEPTH_MAX) throw new NotCanonicalisable('nested too deeply');
  switch (typeof value) {
    case 'string':
      if (!value.isWellFormed()) throw new NotCanonicalisable('a string holds a lone surrogate');
      return JSON.stringify(value);
    case 'number':
      if (!Number.isFinite(value)) throw new NotCanonicalisable('a number is not finite');
      return JSON.stringify(value);
    case 'boolean':
      return value ? 'true' : 'false';
    case 'object':
      if (value === null) return 'null';
      if (Array.isArray(value)) return `[${Array.from(value, (element) => write(element, depth + 1)).join(',')}]`;
      return writeObject(value, depth);
    default:
      throw new NotCanonicalisable(`a ${typeof value} is no JSON value`);
  }
}

function writeObject(value: object, depth: number): string {
  // A date, a buffer or a map would lose its contents or turn into something else.
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) throw new NotCanonicalisable('not a plain object');
  const members = value as Record<string, unknown>;
  // The default order of `sort` is by UTF-16 code units, as RFC 8785 section 3.2.3 asks.
  const written = Object.keys(members)
    .toSorted()
    .map((name) => `${write(name, depth)}:${write(members[name], depth + 1)}`);
  return `{${written.join(',')}}`;
}
