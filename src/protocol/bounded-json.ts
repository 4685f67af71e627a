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
