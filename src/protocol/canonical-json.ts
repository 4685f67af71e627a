/**
 * Canonical JSON of RFC 8785 (JCS): its UTF-8 bytes are what is hashed and signed.
 *
 * The library `canonicalize` serialises what `JSON.stringify` does not write in order. Before that, this file refuses
 * the values that JCS cannot represent and that both let through: lone surrogates (UTF-8 would silently replace them),
 * `undefined` (the library drops it), and anything that is not a plain JSON value. The library json-canonicalize
 * (3.0.1) does not sort an object that has a member `toJSON`, and reports a cycle when one value has the names `a` and
 * `ab`.
 */
import canonicalize from 'canonicalize';

/** JCS cannot represent the value. In a request such a value is `malformed`. */
export class NotCanonicalisable extends Error {}

/** Values that nest deeper are refused: no document of the protocol does, and the library recurses. */
const DEPTH_MAX = 64;

/**
 * The canonical text of `value`. Throws `NotCanonicalisable`.
 *
 * JCS writes numbers and texts as `JSON.stringify` does, so where the members of each object stand in order already, as
 * in what was parsed from canonical text, that writes all of it. The library sorts what is left.
 */
export function canonicalJson(value: unknown): string {
  return textOf(value, 0);
}

function textOf(value: unknown, depth: number): string {
  const text = isInOrder(value, depth) ? JSON.stringify(value) : canonicalize(value);
  if (text === undefined) throw new NotCanonicalisable('not a JSON value');
  return text;
}

/** The canonical UTF-8 bytes of `value`, which are signed and stored. Throws `NotCanonicalisable`. */
export function canonicalBytes(value: unknown): Buffer {
  return Buffer.from(canonicalJson(value), 'utf8');
}

/** Does as `canonicalBytes`; `undefined` for a value that JCS cannot represent. */
export function canonicalBytesIfAny(value: unknown): Buffer | undefined {
  try {
    return canonicalBytes(value);
  } catch (error) {
    if (error instanceof NotCanonicalisable) return undefined;
    throw error;
  }
}

/**
 * The members of an object as canonical text, in order: of what is signed, sealed and sent with some of them left out,
 * each member is written once.
 */
export class CanonicalMembers {
  readonly #texts = new Map<string, string>();

  /** Throws `NotCanonicalisable`. */
  constructor(value: object) {
    assertPlain(value);
    for (const [name, member] of Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))) this.set(name, member);
  }

  /** Changes a member; a new one would stand behind the others. */
  set(name: string, member: unknown): void {
    this.#texts.set(name, `${textOf(name, 1)}:${textOf(member, 1)}`);
  }

  /** The canonical bytes of the object without these members. */
  bytesWithout(...names: readonly string[]): Buffer {
    let text = '';
    for (const [name, member] of this.#texts) if (!names.includes(name)) text += text === '' ? member : `,${member}`;
    return Buffer.from(`{${text}}`, 'utf8');
  }
}

/**
 * Says whether all members stand in the order of their names. Throws `NotCanonicalisable` for what JCS cannot
 * represent.
 */
function isInOrder(value: unknown, depth: number): boolean {
  if (depth > DEPTH_MAX) throw new NotCanonicalisable('nested too deeply');
  switch (typeof value) {
    case 'string':
      if (!value.isWellFormed()) throw new NotCanonicalisable('a string holds a lone surrogate');
      return true;
    case 'number':
      if (!Number.isFinite(value)) throw new NotCanonicalisable('a number is not finite');
      return true;
    case 'boolean':
      return true;
    case 'object':
      if (value === null) return true;
      return Array.isArray(value) ? areInOrder(value as unknown[], depth) : hasMembersInOrder(value, depth);
    default:
      throw new NotCanonicalisable(`a ${typeof value} is not a JSON value`);
  }
}

function areInOrder(elements: readonly unknown[], depth: number): boolean {
  let isSorted = true;
  // A hole of a sparse array is `undefined`, which is refused.
  for (let at = 0; at < elements.length; at++) if (!isInOrder(elements[at], depth + 1)) isSorted = false;
  return isSorted;
}

function hasMembersInOrder(value: object, depth: number): boolean {
  assertPlain(value);
  let isSorted = true;
  let before: string | undefined;
  for (const [name, member] of Object.entries(value)) {
    if (!name.isWellFormed()) throw new NotCanonicalisable('a string holds a lone surrogate');
    if (before !== undefined && name < before) isSorted = false;
    before = name;
    if (!isInOrder(member, depth + 1)) isSorted = false;
  }
  return isSorted;
}

/** A date, a buffer or a map would lose its contents, or become something else. */
function assertPlain(value: object): void {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) throw new NotCanonicalisable('not a plain object');
}
