/**
 * Parses JSON that a stranger sent, after counting what it would cost.
 *
 * `JSON.parse` of 8 MiB of `{}` stalls the process for most of a second and takes half a gigabyte. One pass over the
 * bytes counts nesting and values first; the contents of strings are skipped natively, so the pass costs little on
 * real requests, which are mostly long strings.
 */
import { isUtf8 } from 'node:buffer';

export interface JsonBounds {
  /** Arrays and objects inside each other. */
  depthMax: number;
  /** Values in all: every element, member, array and object counts one. */
  valuesMax: number;
}

/** A request body: `items` of `targets` of two members, and room for members that are ignored. */
export const REQUEST_JSON_BOUNDS: JsonBounds = { depthMax: 32, valuesMax: 100_000 };

/** What was sealed by a host: an envelope or a receipt. */
export const WIRE_JSON_BOUNDS: JsonBounds = { depthMax: 32, valuesMax: 10_000 };

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** The value, or `undefined` when the bytes are not well-formed UTF-8, not JSON, begin with a BOM, or pass a bound. */
export function parseJsonBounded(bytes: Buffer, bounds: JsonBounds): unknown {
  if (!isUtf8(bytes) || !isWithin(bytes, bounds)) return undefined;
  try {
    return JSON.parse(bytes.toString('utf8')) as unknown;
  } catch {
    return undefined;
  }
}

function isWithin(bytes: Buffer, bounds: JsonBounds): boolean {
  let depth = 0;
  let values = 1;
  for (let at = 0; at < bytes.length; at++) {
    switch (bytes[at]) {
      case QUOTE:
        at = endOfString(bytes, at + 1);
        break;
      case OPEN_ARRAY:
      case OPEN_OBJECT:
        if (++depth > bounds.depthMax || ++values > bounds.valuesMax) return false;
        break;
      case CLOSE_ARRAY:
      case CLOSE_OBJECT:
        depth--;
        break;
      case COMMA:
        if (++values > bounds.valuesMax) return false;
        break;
    }
  }
  return true;
}

/** The offset of the quote that ends the string whose contents begin at `from`; the end of the bytes if none does. */
function endOfString(bytes: Buffer, from: number): number {
  for (let at = from; ; ) {
    const quote = bytes.indexOf(QUOTE, at);
    if (quote === -1) return bytes.length;
    let backslashes = 0;
    while (quote - 1 - backslashes >= from && bytes[quote - 1 - backslashes] === BACKSLASH) backslashes++;
    if (backslashes % 2 === 0) return quote;
    at = quote + 1;
  }
}
