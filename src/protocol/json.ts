/**
 * Parses JSON from untrusted peers, after a check of what parsing it would cost.
 *
 * `JSON.parse` of 8 MiB of `{}` blocks the process for most of a second and takes half a gigabyte. So one pass over the
 * bytes first counts nesting, values, strings and members. Native code skips the contents of strings, so the pass is
 * cheap on real requests, which are mostly long strings.
 */
import { isUtf8 } from 'node:buffer';

export interface JsonBounds {
  /** Nesting depth of arrays and objects. */
  depthMax: number;
  /** Total count of values: each element, member, array and object counts as one. Strings may be twice as many. */
  valuesMax: number;
  /** Members of one object: objects with very many members are slow to build. */
  membersMax: number;
}

/** A request body: `items` with `targets` of two members each, with room for unknown members. */
export const REQUEST_JSON_BOUNDS: JsonBounds = { depthMax: 32, valuesMax: 60_000, membersMax: 1000 };

/** One item of a page, which has five members, with room for unknown members. */
export const ITEM_JSON_BOUNDS: JsonBounds = { depthMax: 8, valuesMax: 200, membersMax: 100 };

/** An envelope as its host sealed it. */
export const ENVELOPE_JSON_BOUNDS: JsonBounds = { depthMax: 32, valuesMax: 10_000, membersMax: 1000 };

/** A delivery receipt in its canonical form. */
export const RECEIPT_JSON_BOUNDS: JsonBounds = { depthMax: 8, valuesMax: 200, membersMax: 100 };

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_ARRAY = 0x5b;
const OPEN_OBJECT = 0x7b;

/** The meaning of each byte outside strings. A table is several times faster than comparisons. */
const NOTHING = 0;
const STRING = 1;
const COMMA = 2;
const OPEN = 3;
const CLOSE = 4;
const MEANING = new Uint8Array(256);
MEANING[QUOTE] = STRING;
MEANING[0x2c] = COMMA;
MEANING[OPEN_ARRAY] = MEANING[OPEN_OBJECT] = OPEN;
MEANING[0x5d] = MEANING[0x7d] = CLOSE;

/**
 * The value, or `undefined` when the bytes are not well-formed UTF-8, are not JSON, begin with a BOM, or exceed a
 * bound.
 */
export function parseJsonBounded(bytes: Buffer, bounds: JsonBounds): unknown {
  return isUtf8(bytes) && isWithin(bytes, bounds) ? jsonIn(bytes.toString('utf8')) : undefined;
}

/** The value, of a text that nobody made to be slow; `undefined` when it is not JSON. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** A JSON object, and the elements that were taken out of one of its arrays. */
interface SplitJson {
  /** The object with that array empty; `undefined` where `parseJsonBounded` would return it. */
  rest: unknown;
  /** The bytes of each element, in order. They are not parsed yet, and may not be JSON. */
  elements: Buffer[];
}

/**
 * Takes the elements of the array `member` out of a JSON object before anything is parsed, so that one broken element
 * does not spoil the others. Returns at most `elementsMax` elements; the last one then holds all the rest.
 */
export function splitJsonArray(bytes: Buffer, member: string, bounds: JsonBounds, elementsMax: number): SplitJson {
  const array = findArray(bytes, `"${member}"`, elementsMax);
  if (!array) return { rest: parseJsonBounded(bytes, bounds), elements: [] };
  const { from, until, commas } = array;
  const around = Buffer.concat([bytes.subarray(0, from), bytes.subarray(until)]);
  const starts = [from, ...commas.map((at) => at + 1)];
  const elements = starts.map((start, at) => trim(bytes.subarray(start, commas[at] ?? until)));
  const isEmpty = elements.length === 1 && elements[0]?.length === 0;
  return { rest: parseJsonBounded(around, bounds), elements: isEmpty ? [] : elements };
}

/** Finds the contents of the array, and the commas between its elements. */
function findArray(
  bytes: Buffer,
  name: string,
  elementsMax: number,
): { from: number; until: number; commas: number[] } | undefined {
  const commas: number[] = [];
  let depth = 0;
  let isName = false;
  let isNamed = false;
  let from = -1;
  for (let at = 0; at < bytes.length; at++) {
    switch (MEANING[bytes[at]!]!) {
      case STRING: {
        const end = endOfString(bytes, at + 1);
        if (depth === 1 && isName) {
          isNamed = bytes.toString('latin1', at, end + 1) === name;
          isName = false;
        }
        at = end;
        break;
      }
      case COMMA:
        if (depth === 1) isName = true;
        else if (depth === 2 && from >= 0 && commas.length < elementsMax - 1) commas.push(at);
        break;
      case OPEN:
        depth++;
        if (depth === 1) isName = bytes[at] === OPEN_OBJECT;
        else if (depth === 2 && isNamed && bytes[at] === OPEN_ARRAY) from = at + 1;
        break;
      case CLOSE:
        depth--;
        if (depth === 1 && from >= 0) return { from, until: at, commas };
        break;
      default:
    }
  }
  return undefined;
}

function trim(bytes: Buffer): Buffer {
  let from = 0;
  let until = bytes.length;
  while (from < until && isSpace(bytes[from])) from++;
  while (until > from && isSpace(bytes[until - 1])) until--;
  return bytes.subarray(from, until);
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function isWithin(bytes: Buffer, { depthMax, valuesMax, membersMax }: JsonBounds): boolean {
  /** Commas seen in each open container; `membersMax` does not apply to arrays. */
  const commas = new Int32Array(depthMax + 1);
  let depth = 0;
  let values = 1;
  let strings = 0;
  for (let at = 0; at < bytes.length; at++) {
    const meaning = MEANING[bytes[at]!]!;
    if (meaning === NOTHING) continue;
    switch (meaning) {
      case STRING:
        if (++strings > 2 * valuesMax) return false;
        at = endOfString(bytes, at + 1);
        break;
      case COMMA:
        if (++values > valuesMax || ++commas[depth]! >= membersMax) return false;
        break;
      case OPEN:
        if (++depth > depthMax || ++values > valuesMax) return false;
        commas[depth] = bytes[at] === OPEN_OBJECT ? 0 : -valuesMax;
        break;
      default:
        if (depth > 0) depth--;
    }
  }
  return true;
}

/**
 * The offset of the quote that ends the string whose contents begin at `from`; the end of the bytes when there is none.
 */
function endOfString(bytes: Buffer, from: number): number {
  const quote = bytes.indexOf(QUOTE, from);
  if (quote === -1) return bytes.length;
  if (bytes[quote - 1] !== BACKSLASH || quote === from) return quote;
  // The string may have escaped quotes: go byte by byte from its first backslash on.
  for (let at = bytes.indexOf(BACKSLASH, from); at < bytes.length; at++) {
    if (bytes[at] === BACKSLASH) at++;
    else if (bytes[at] === QUOTE) return at;
  }
  return bytes.length;
}

/** Says whether a parsed JSON value is an object. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
