/**
 * The forms of MessagePack that records and rows of items have, read and written where they lie: a replay goes through
 * millions of them, and to make arrays of fields first, as packing.ts does, takes three times as long.
 *
 * What is written has the form that msgpackr gives it; a property test compares them.
 */
import type { Sha256Hex } from '../../protocol/encodings.ts';
import { type PublicKey, keyTextAt } from '../../protocol/public-key.ts';

const KEY = 32;
/** The first bytes that MessagePack has for 32 bytes, a text of 32 to 255 bytes, a large number, and others. */
const BYTES_32 = 0xc420;
const TEXT_8 = 0xd9;
const TEXT_16 = 0xda;
const NULL = 0xc0;
const FALSE = 0xc2;
const FLOAT_64 = 0xcb;
const UINT_8 = 0xcc;
const UINT_16 = 0xcd;
const UINT_32 = 0xce;
const SHORT_ARRAY = 0x90;
const ARRAY_16 = 0xdc;
const SHORT_TEXT = 0xa0;

/** Each method reads the next value, and throws where another one or none stands. */
export class PlainReader {
  #bytes: Buffer = Buffer.alloc(0);
  #at = 0;

  begin(bytes: Buffer, at = 0): void {
    this.#bytes = bytes;
    this.#at = at;
  }

  /** Throws where anything is left. */
  end(): void {
    if (this.#at !== this.#bytes.length) throw new Error('something stands behind the value');
  }

  /** The length of an array, whose members come next. */
  array(): number {
    const form = this.#bytes[this.#at++] as number;
    if ((form & 0xf0) === SHORT_ARRAY) return form & 0x0f;
    if (form !== ARRAY_16) throw new Error('the value is no array');
    return this.#uint16();
  }

  /** Begins an array of so many members. */
  tuple(length: number): void {
    if (this.array() !== length) throw new Error('the array has another length');
  }

  number(): number {
    const bytes = this.#bytes;
    const at = this.#at + 1;
    const form = bytes[this.#at] as number;
    if (form < 0x80) {
      this.#at = at;
      return form;
    }
    switch (form) {
      case FLOAT_64:
        this.#at = at + 8;
        return bytes.readDoubleBE(at);
      case UINT_32:
        this.#at = at + 4;
        return bytes.readUInt32BE(at);
      case UINT_16:
        this.#at = at + 2;
        return bytes.readUInt16BE(at);
      case UINT_8:
        this.#at = at + 1;
        return bytes.readUInt8(at);
      default:
        throw new Error('the value is no number');
    }
  }

  boolean(): boolean {
    const form = this.#bytes[this.#at++];
    if (form !== FALSE && form !== FALSE + 1) throw new Error('the value is no boolean');
    return form !== FALSE;
  }

  text(): string {
    const form = this.#bytes[this.#at++] as number;
    const length = (form & 0xe0) === SHORT_TEXT ? form & 0x1f : this.#lengthOfLong(form);
    const from = this.#take(length);
    return this.#bytes.toString('utf8', from, from + length);
  }

  /** A text, or null. */
  textOrNull(): string | null {
    if (this.#bytes[this.#at] !== NULL) return this.text();
    this.#at++;
    return null;
  }

  key(): PublicKey {
    return keyTextAt(this.#bytes, this.#take32());
  }

  hash(): Sha256Hex {
    const from = this.#take32();
    return this.#bytes.toString('hex', from, from + KEY) as Sha256Hex;
  }

  #lengthOfLong(form: number): number {
    if (form === TEXT_8) return this.#bytes.readUInt8(this.#at++);
    if (form !== TEXT_16) throw new Error('the value is no text');
    return this.#uint16();
  }

  #uint16(): number {
    this.#at += 2;
    return this.#bytes.readUInt16BE(this.#at - 2);
  }

  #take32(): number {
    const from = this.#take(2 + KEY);
    if (this.#bytes.readUInt16BE(from) !== BYTES_32) throw new Error('the value has not 32 bytes');
    return from + 2;
  }

  /** Returns where the next bytes begin, and passes over them. */
  #take(bytes: number): number {
    const from = this.#at;
    this.#at = from + bytes;
    if (this.#at > this.#bytes.length) throw new Error('the value is cut');
    return from;
  }
}

/** The memory of a writer begins with this. */
const FIRST_BYTES = 4096;
/** More than any field but a text needs. */
const FIELD_BYTES = 40;
const WORD = 2 ** 32;

/** Writes values one behind another. */
export class PlainWriter {
  #memory: Buffer = Buffer.allocUnsafeSlow(FIRST_BYTES);
  #at = 0;

  begin(): void {
    this.#at = 0;
  }

  /** Returns what was written, until the next `begin`. */
  get taken(): Buffer {
    return this.#memory.subarray(0, this.#at);
  }

  /** Begins an array, whose members are written next. */
  array(length: number): void {
    this.#need(FIELD_BYTES);
    if (length < 0x10) this.#memory[this.#at++] = SHORT_ARRAY | length;
    else {
      this.#memory[this.#at] = ARRAY_16;
      this.#at = this.#memory.writeUInt16BE(length, this.#at + 1);
    }
  }

  /** Throws where it is negative. */
  number(value: number): void {
    if (value < 0) throw new Error('invariant: no number of a record or a row is negative');
    this.#need(FIELD_BYTES);
    const memory = this.#memory;
    const at = this.#at;
    if (value >= WORD || !Number.isInteger(value)) {
      memory[at] = FLOAT_64;
      this.#at = memory.writeDoubleBE(value, at + 1);
    } else if (value < 0x80) {
      memory[at] = value;
      this.#at = at + 1;
    } else if (value < 0x100) {
      memory[at] = UINT_8;
      memory[at + 1] = value;
      this.#at = at + 2;
    } else if (value < 0x1_0000) {
      memory[at] = UINT_16;
      this.#at = memory.writeUInt16BE(value, at + 1);
    } else {
      memory[at] = UINT_32;
      this.#at = memory.writeUInt32BE(value, at + 1);
    }
  }

  boolean(value: boolean): void {
    this.#need(FIELD_BYTES);
    this.#memory[this.#at++] = value ? FALSE + 1 : FALSE;
  }

  /** A text, or null. */
  textOrNull(value: string | null): void {
    this.#need(FIELD_BYTES);
    if (value === null) this.#memory[this.#at++] = NULL;
    else this.text(value);
  }

  /** Well-formed, and of less than 64 KiB. */
  text(value: string): void {
    const { length } = value;
    this.#need(FIELD_BYTES + 3 * length);
    const memory = this.#memory;
    const start = this.#at;
    this.#headOfText(length);
    let at = this.#at;
    let all = 0;
    for (let nth = 0; nth < length; nth++) {
      const code = value.charCodeAt(nth);
      all |= code;
      memory[at++] = code;
    }
    this.#at = at;
    if (all < 0x80) return;
    this.#at = start;
    this.#headOfText(Buffer.byteLength(value));
    this.#at += memory.write(value, this.#at);
  }

  key(value: PublicKey): void {
    this.#bytes32(value, 'base64');
  }

  hash(value: Sha256Hex): void {
    this.#bytes32(value, 'hex');
  }

  #headOfText(bytes: number): void {
    const memory = this.#memory;
    if (bytes < 0x20) memory[this.#at++] = SHORT_TEXT | bytes;
    else if (bytes < 0x100) {
      memory[this.#at++] = TEXT_8;
      memory[this.#at++] = bytes;
    } else {
      memory[this.#at] = TEXT_16;
      this.#at = memory.writeUInt16BE(bytes, this.#at + 1);
    }
  }

  #bytes32(value: string, encoding: 'base64' | 'hex'): void {
    this.#need(FIELD_BYTES);
    const at = this.#memory.writeUInt16BE(BYTES_32, this.#at);
    if (this.#memory.write(value, at, encoding) !== KEY) throw new Error('invariant: keys and hashes have 32 bytes');
    this.#at = at + KEY;
  }

  #need(bytes: number): void {
    const end = this.#at + bytes;
    if (end <= this.#memory.length) return;
    const larger = Buffer.allocUnsafeSlow(2 * end);
    this.#memory.copy(larger, 0, 0, this.#at);
    this.#memory = larger;
  }
}

/** One of each, as nothing is read or written before the last was taken. */
export const reader: PlainReader = new PlainReader();
export const writer: PlainWriter = new PlainWriter();
