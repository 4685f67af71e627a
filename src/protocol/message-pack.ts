/**
 * The binary form of push, pull and ack, beside JSON: the same members, in MessagePack, where wire bytes, keys and
 * signatures are bytes. A page is a sequence of frames, each a length of four bytes and one map.
 *
 * MessagePack has here nil, booleans, integers of 53 bits, texts, bytes, arrays, and maps with texts for keys. There
 * are no floats and no extension types. The records of a relay's log, which hosts read in proofs, have integers beyond
 * 32 bits as doubles: the reader takes those where it is asked to.
 *
 * The reader takes the bytes of strangers. It holds each length against the bytes that are left, and each count and
 * depth against the bounds, before it makes anything of them.
 */
import { isUtf8 } from 'node:buffer';
import { type JsonBounds, REQUEST_JSON_BOUNDS } from './json.ts';
import type { ItemHead } from './items.ts';
import { publicKeyBytes } from './public-key.ts';

/** Texts of this length are mostly ASCII and are looked through here: a call of native code takes longer. */
const SHORT_TEXT_BYTES = 48;
const MAP = 0x80;
const ARRAY = 0x90;
const TEXT = 0xa0;
const NIL = 0xc0;
const FALSE = 0xc2;
const TRUE = 0xc3;
const DOUBLE = 0xcb;
const BYTES_8 = 0xc4;
const TEXT_8 = 0xd9;
const ARRAY_16 = 0xdc;
const MAP_16 = 0xde;

export type MessagePackBounds = JsonBounds & { hasDoubles?: true };

/**
 * Reads the one value that the bytes are. Maps have no prototype; bytes are views of `bytes`. Returns `undefined` when
 * the bytes are no such value, when anything stands behind it, when a map has a key twice, or when they exceed a bound.
 * Every value counts as one; the keys of maps do not count.
 */
export function readMessagePack(bytes: Buffer, bounds: MessagePackBounds): unknown {
  const reader = new MessagePackReader(bytes, bounds);
  const value = reader.value(0);
  return reader.isAtEnd ? value : undefined;
}

/** Each method returns `undefined` where the bytes are malformed or exceed a bound; no value is `undefined`. */
class MessagePackReader {
  readonly #bytes: Buffer;
  readonly #bounds: MessagePackBounds;
  #at = 0;
  #values = 0;

  constructor(bytes: Buffer, bounds: MessagePackBounds) {
    this.#bytes = bytes;
    this.#bounds = bounds;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  /** Passes over exactly these bytes, which begin so many values; false where others stand there. */
  skip(expected: Buffer, values = 0): boolean {
    for (let at = 0; at < expected.length; at++) if (this.#bytes[this.#at + at] !== expected[at]) return false;
    this.#at += expected.length;
    this.#values += values;
    return true;
  }

  /** An array whose elements `element` reads. */
  array<T>(depth: number, element: () => T | undefined): T[] | undefined {
    const type = this.#bytes[this.#at++] ?? 0;
    if (++this.#values > this.#bounds.valuesMax) return undefined;
    if (type >= ARRAY && type < TEXT) return this.#array(type - ARRAY, depth, element);
    return type === ARRAY_16 ? this.#array(this.#integer(2), depth, element) : undefined;
  }

  /** `depth` counts the arrays and maps around the value. */
  value(depth: number): unknown {
    if (++this.#values > this.#bounds.valuesMax) return undefined;
    const type = this.#bytes[this.#at++];
    if (type === undefined) return undefined;
    if (type < MAP) return type;
    if (type < ARRAY) return this.#map(type - MAP, depth);
    if (type < TEXT) return this.#array(type - ARRAY, depth, () => this.value(depth + 1));
    if (type < NIL) return this.#text(type - TEXT);
    if (type >= 0xe0) return type - 0x100;
    if (type === NIL) return null;
    if (type === FALSE || type === TRUE) return type === TRUE;
    if (type >= BYTES_8 && type < 0xc7) return this.#bytesOf(this.#integer(1 << (type - BYTES_8)));
    if (type === DOUBLE && this.#bounds.hasDoubles) return this.#double();
    if (type >= 0xcc && type < 0xd4) return this.#integer(1 << (type & 3), type >= 0xd0);
    if (type >= TEXT_8 && type < ARRAY_16) return this.#text(this.#integer(1 << (type - TEXT_8)));
    if (type >= MAP_16) return this.#map(this.#integer(2 << (type - MAP_16)), depth);
    if (type < ARRAY_16) return undefined;
    return this.#array(this.#integer(2 << (type - ARRAY_16)), depth, () => this.value(depth + 1));
  }

  #array<T>(count: number | undefined, depth: number, element: () => T | undefined): T[] | undefined {
    if (!this.#hasRoom(count, count, depth)) return undefined;
    const values: T[] = [];
    for (let left = count; left > 0; left--) {
      const value = element();
      if (value === undefined) return undefined;
      values.push(value);
    }
    return values;
  }

  #map(count: number | undefined, depth: number): Record<string, unknown> | undefined {
    if (!this.#hasRoom(count, count && 2 * count, depth) || count > this.#bounds.membersMax) return undefined;
    const values = Object.create(null) as Record<string, unknown>;
    for (let left = count; left > 0; left--) {
      const key = this.#key();
      if (key === undefined || Object.hasOwn(values, key)) return undefined;
      const value = this.value(depth + 1);
      if (value === undefined) return undefined;
      values[key] = value;
    }
    return values;
  }

  #key(): string | undefined {
    const type = this.#bytes[this.#at++] ?? 0;
    if (type >= TEXT && type < NIL) return this.#text(type - TEXT);
    return type >= TEXT_8 && type < ARRAY_16 ? this.#text(this.#integer(1 << (type - TEXT_8))) : undefined;
  }

  /** Says whether so many values may come at this depth, which have at least `bytes` bytes. */
  #hasRoom(count: number | undefined, bytes: number | undefined, depth: number): count is number {
    if (count === undefined || bytes === undefined) return false;
    return depth < this.#bounds.depthMax && bytes <= this.#bytes.length - this.#at;
  }

  #text(length: number | undefined): string | undefined {
    if (length === undefined || length > this.#bytes.length - this.#at) return undefined;
    const from = this.#at;
    this.#at += length;
    if (length <= SHORT_TEXT_BYTES && isAscii(this.#bytes, from, this.#at)) {
      return this.#bytes.toString('latin1', from, this.#at);
    }
    return isUtf8(this.#bytes.subarray(from, this.#at)) ? this.#bytes.toString('utf8', from, this.#at) : undefined;
  }

  #bytesOf(length: number | undefined): Buffer | undefined {
    if (length === undefined || length > this.#bytes.length - this.#at) return undefined;
    return this.#bytes.subarray(this.#at, (this.#at += length));
  }

  /** A double that is an integer. */
  #double(): number | undefined {
    const at = this.#at;
    if (8 > this.#bytes.length - at) return undefined;
    this.#at += 8;
    const value = this.#bytes.readDoubleBE(at);
    return Number.isSafeInteger(value) ? value : undefined;
  }

  /** A big-endian number; of one above 2⁵³ the rounded value is above it too. */
  #integer(size: number, isSigned = false): number | undefined {
    const at = this.#at;
    if (size > this.#bytes.length - at) return undefined;
    this.#at += size;
    const first = Math.min(size, 4);
    const high = isSigned ? this.#bytes.readIntBE(at, first) : this.#bytes.readUIntBE(at, first);
    if (size <= 4) return high;
    const value = high * 2 ** 32 + this.#bytes.readUInt32BE(at + 4);
    return Number.isSafeInteger(value) ? value : undefined;
  }
}

function isAscii(bytes: Buffer, from: number, until: number): boolean {
  for (let at = from; at < until; at++) if (bytes[at]! > 0x7f) return false;
  return true;
}

export type Packable =
  | null
  | boolean
  | number
  | string
  | Uint8Array
  | readonly Packable[]
  | { readonly [name: string]: Packable | undefined };

/**
 * Writes a value in the shortest forms, its members in their order and without those that are `undefined`: as a text
 * with one character for each byte. Throws a RangeError for a number that is negative or no safe integer.
 */
export function packed(value: Packable): string {
  if (value === null) return '\xc0';
  switch (typeof value) {
    case 'boolean':
      return value ? '\xc3' : '\xc2';
    case 'number':
      return packedInteger(value);
    case 'string':
      return packedText(value);
    case 'object':
  }
  if (value instanceof Uint8Array) return bytesHead(value.length) + latin1(value);
  if (Array.isArray(value)) {
    let text = arrayHead(value.length);
    for (const element of value as readonly Packable[]) text += packed(element);
    return text;
  }
  let count = 0;
  let members = '';
  for (const [name, member] of Object.entries(value)) {
    if (member === undefined) continue;
    count++;
    members += packedText(name) + packed(member);
  }
  return head(count, MAP, 16, '\0\xde\xdf') + members;
}

/** The same as bytes. */
export function packedBytes(value: Packable): Buffer {
  return Buffer.from(packed(value), 'latin1');
}

export function arrayHead(count: number): string {
  return head(count, ARRAY, 16, '\0\xdc\xdd');
}

export function bytesHead(length: number): string {
  return head(length, 0, 0, '\xc4\xc5\xc6');
}

function packedText(text: string): string {
  const length = Buffer.byteLength(text);
  const bytes = length === text.length ? text : Buffer.from(text).toString('latin1');
  return textHead(length) + bytes;
}

export function textHead(bytes: number): string {
  return head(bytes, TEXT, 32, '\xd9\xda\xdb');
}

function packedInteger(value: number): string {
  if (value < 0 || !Number.isSafeInteger(value)) throw new RangeError('a packed number is a safe integer from 0 on');
  if (value < 2 ** 32) return head(value, 0, 128, '\xcc\xcd\xce');
  return `\xcf${fourBytes(Math.floor(value / 2 ** 32))}${fourBytes(value)}`;
}

/**
 * A count below `smallMax` is one byte with `small`; others stand behind the type of their size, for 1, 2 and 4 bytes.
 * A type that is 0 is none.
 */
function head(count: number, small: number, smallMax: number, types: string): string {
  if (count < smallMax) return String.fromCharCode(small + count);
  if (count < 2 ** 8 && types.charCodeAt(0) > 0) return types.charAt(0) + String.fromCharCode(count);
  if (count < 2 ** 16) return types.charAt(1) + String.fromCharCode(count >>> 8, count & 0xff);
  return types.charAt(2) + fourBytes(count);
}

/** The lower 32 bits. */
export function fourBytes(value: number): string {
  return String.fromCharCode((value >>> 24) & 0xff, (value >>> 16) & 0xff, (value >>> 8) & 0xff, value & 0xff);
}

function latin1({ buffer, byteOffset, length }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, length).toString('latin1');
}

/** Has no parameters. */
export const BINARY_TYPE = 'application/vnd.poste+msgpack';

/**
 * The value of a push body, as `readMessagePack` returns it. Where the members stand in the order in which `packed`
 * writes them, their names are compared and not read, in one pass.
 */
export function readPush(bytes: Buffer): unknown {
  return usualPush(bytes) ?? readMessagePack(bytes, REQUEST_JSON_BOUNDS);
}

const ITEMS = Buffer.from(`\x81${packed('items')}`, 'latin1');
const KIND = Buffer.from(`\x83${packed('kind')}`, 'latin1');
const ITEM_ID = Buffer.from(packed('item_id'), 'latin1');
const TARGETS = Buffer.from(packed('targets'), 'latin1');
const HOST_PUBKEY = Buffer.from(`\x82${packed('host_pubkey')}`, 'latin1');
const WIRE = Buffer.from(packed('wire'), 'latin1');
/** Arrays and maps around a member of an item, and of a target. */
const IN_ITEM = 3;
const IN_TARGET = 5;

function usualPush(bytes: Buffer): object | undefined {
  const reader = new MessagePackReader(bytes, REQUEST_JSON_BOUNDS);
  const member = (name: Buffer, depth: number): unknown => (reader.skip(name) ? reader.value(depth) : undefined);
  const target = (): object | undefined => {
    const key = reader.skip(HOST_PUBKEY, 1) ? reader.value(IN_TARGET) : undefined;
    const wire = key === undefined ? undefined : member(WIRE, IN_TARGET);
    return wire === undefined ? undefined : { host_pubkey: key, wire };
  };
  const item = (): object | undefined => {
    const kind = reader.skip(KIND, 1) ? reader.value(IN_ITEM) : undefined;
    const id = kind === undefined ? undefined : member(ITEM_ID, IN_ITEM);
    const targets = id !== undefined && reader.skip(TARGETS) ? reader.array(IN_ITEM, target) : undefined;
    return targets && { kind, item_id: id, targets };
  };
  const items = reader.skip(ITEMS, 1) ? reader.array(1, item) : undefined;
  return items && reader.isAtEnd ? { items } : undefined;
}

/** One map of a page, with its length in front: as a text with one character for each byte. */
export function frame(map: string, bytesBehind = 0): string {
  return fourBytes(map.length + bytesBehind) + map;
}

const [SEQ, ITS_KIND, ITS_ID, SENDER, ITS_WIRE] = ['seq', 'kind', 'item_id', 'sender_pubkey', 'wire'].map(packed);

/** The frame of an item up to its wire bytes, of which there are so many. */
export function pulledFrameHead({ seq, kind, itemId, senderPubkey }: ItemHead, wireBytes: number): string {
  const item = `\x85${SEQ}${packed(seq)}${ITS_KIND}${packed(kind)}${ITS_ID}${packed(itemId)}`;
  const sender = SENDER + packed(publicKeyBytes(senderPubkey));
  return frame(item + sender + ITS_WIRE + bytesHead(wireBytes), wireBytes);
}

/** The maps of the frames that are whole, at most so many of them. */
export function framesIn(page: Buffer, framesMax: number): Buffer[] {
  const frames: Buffer[] = [];
  for (let at = 0; at + 4 <= page.length && frames.length < framesMax; ) {
    const from = at + 4;
    at = from + page.readUInt32BE(at);
    if (at > page.length) break;
    frames.push(page.subarray(from, at));
  }
  return frames;
}
