/**
 * Parses JSON that a stranger sent, after counting what it would cost.
 *
 * `JSON.parse` of 8 MiB of `{}` stalls the process for most of a second and takes half a gigabyte. One pass over the
 * bytes counts nesting, values, strings and members first; the contents of strings are skipped natively, so the pass
 * costs little on real requests, which are mostly long strings.
 */
import { isUtf8 } from 'node:buffer';

export interface JsonBounds {
  /** Arrays and objects inside each other. */
  depthMax: number;
  /** Values in all: every element, member, array and object counts one. Twice as many strings may stand in them. */
  valuesMax: number;
  /** Members of one object: an object with many is slow to make. */
  membersMax: number;
}

/** A request body: `items` of `targets` of two members, and room for members that are ignored. */
export const REQUEST_JSON_BOUNDS: JsonBounds = { depthMax: 32, valuesMax: 60_000, membersMax: 1000 };

/** One item of a page, which has five members, and room for members that are ignored. */
export const ITEM_JSON_BOUNDS: JsonBounds = { depthMax: 8, valuesMax: 200, membersMax: 100 };

/** An envelope as a host sealed it. */
export const ENVELOPE_JSON_BOUNDS: JsonBounds = { depthMax: 32, valuesMax: 10_000, membersMax: 1000 };

/** A delivery receipt, which is verified in canonical form. */
export const RECEIPT_JSON_BOUNDS: JsonBounds = { depthMax: 8, valuesMax: 200, membersMax: 100 };

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_ARRAY = 0x5b;
const OPEN_OBJECT = 0x7b;

/** What a byte outside strings means here: a table is several times faster than comparing. */
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

/** The value, or `undefined` when the bytes are not well-formed UTF-8, not JSON, begin with a BOM, or pass a bound. */
export function parseJsonBounded(bytes: Buffer, bounds: JsonBounds): unknown {
  if (!isUtf8(bytes) || !isWithin(bytes, bounds)) return undefined;
  try {
    return JSON.parse(bytes.toString('utf8')) as unknown;
  } catch {
    return undefined;
  }
}

/** A page in parts. */
export interface SplitJson {
  /** The value with the array left empty; `undefined` as `parseJsonBounded` answers it. */
  rest: unknown;
  /** The bytes of each element, in their order. Each is still to be parsed, and may be no JSON. */
  elements: Buffer[];
}

/**
 * Takes the elements of the array `member` out of a JSON object before anything is parsed: an element that cannot be
 * read leaves the others readable. At most `elementsMax`; what follows the one before the last is the last.
 */
export function splitJsonArray(bytes: Buffer, member: string, bounds: JsonBounds, elementsMax: number): SplitJson {
  const array = findArray(bytes, `"${member}"`, elementsMax);
  if (!array) return { rest: parseJsonBounded(bytes, bounds), elements: [] };
  const { from, until, commas } = array;
  const around = Buffer.concat([bytes.subarray(0, from), bytes.subarray(until)]);
  const starts = [from, ...commas.map((at) => at + 1)];
  const elements = starts.map((start, at) => trimmed(bytes.subarray(start, commas[at] ?? until)));
  const isEmpty = elements.length === 1 && elements[0]?.length === 0;
  return { rest: parseJsonBounded(around, bounds), elements: isEmpty ? [] : elements };
}

/** Where the contents of the array are, and the commas between its elements. */
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

function trimmed(bytes: Buffer): Buffer {
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
  /** Commas seen in each open container; an array's are not held against `membersMax`. */
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

/** The offset of the quote that ends the string whose contents begin at `from`; the end of the bytes if none does. */
function endOfString(bytes: Buffer, from: number): number {
  const quote = bytes.indexOf(QUOTE, from);
  if (quote === -1) return bytes.length;
  if (bytes[quote - 1] !== BACKSLASH || quote === from) return quote;
  // A string with escaped quotes: byte by byte from the first backslash on.
  for (let at = bytes.indexOf(BACKSLASH, from); at < bytes.length; at++) {
    if (bytes[at] === BACKSLASH) at++;
    else if (bytes[at] === QUOTE) return at;
  }
  return bytes.length;
}
