/**
 * The forms of MessagePack that almost every record and row has, read and written where they lie: a replay goes through
 * millions of them, and to make arrays of fields first takes three times as long.
 *
 * A reader that comes by another form stops (`isWhole` is false), and a writer that has no room or no form for a value
 * does (`taken` answers nothing): then the general way of packing.ts takes over, which gives the same. No form is
 * written that msgpackr would write otherwise; a property test compares them.
 */
import type { Sha256Hex } from '../../protocol/encodings.ts';
import { type PublicKey, keyTextAt } from '../../protocol/public-key.ts';

const KEY = 32;
/** The first bytes that MessagePack has for 32 bytes, a text of 32 to 255 bytes, a large number, and others. */
const BYTES_32 = 0xc420;
const TEXT_8 = 0xd9;
const NULL = 0xc0;
const FALSE = 0xc2;
const FLOAT_64 = 0xcb;
const UINT_8 = 0xcc;
const UINT_16 = 0xcd;
const UINT_32 = 0xce;
const SHORT_ARRAY = 0x90;
const SHORT_TEXT = 0xa0;
const TEXT_MAX = 0xff;

export class PlainReader {
  #bytes: Buffer = Buffer.alloc(0);
  #at = 0;
  #isPlain = true;

  begin(bytes: Buffer, at: number): void {
    this.#bytes = bytes;
    this.#at = at;
    this.#isPlain = true;
  }

  /** Says whether everything was of a form that is read here, up to the last byte. */
  get isWhole(): boolean {
    return this.#isPlain && this.#at === this.#bytes.length;
  }

  /** Says whether everything was so far. */
  get isPlain(): boolean {
    return this.#isPlain;
  }

  /** A text, or null. */
  textOrNull(): string | null {
    if (this.#bytes[this.#at] !== NULL) return this.text();
    this.#at++;
    return null;
  }

  /** The length of an array of less than 16 members. */
  array(): number {
    const form = this.#bytes[this.#at++] as number;
    if ((form & 0xf0) !== SHORT_ARRAY) this.#isPlain = false;
    return form & 0x0f;
  }

  number(): number {
    const bytes = this.#bytes;
    const at = this.#at;
    const form = bytes[at] as number;
    if (form < 0x80) {
      this.#at = at + 1;
      return form;
    }
    const end = at + (form === FLOAT_64 ? 9 : form === UINT_32 ? 5 : form === UINT_16 ? 3 : 2);
    if (end > bytes.length || (form !== UINT_8 && end === at + 2)) {
      this.#isPlain = false;
      return 0;
    }
    this.#at = end;
    if (form === FLOAT_64) return bytes.readDoubleBE(at + 1);
    if (form === UINT_32) return bytes.readUInt32BE(at + 1);
    return form === UINT_16 ? bytes.readUInt16BE(at + 1) : (bytes[at + 1] as number);
  }

  boolean(): boolean {
    const form = this.#bytes[this.#at++] as number;
    if (form !== FALSE && form !== FALSE + 1) this.#isPlain = false;
    return form !== FALSE;
  }

  text(): string {
    const form = this.#bytes[this.#at++] as number;
    const isShort = (form & 0xe0) === SHORT_TEXT;
    const length = isShort ? form & 0x1f : (this.#bytes[this.#at++] ?? 0);
    const from = this.#at;
    this.#at = from + length;
    if ((isShort || form === TEXT_8) && this.#at <= this.#bytes.length)
      return this.#bytes.toString('utf8', from, this.#at);
    this.#isPlain = false;
    return '';
  }

  key(): PublicKey {
    const from = this.#take32();
    return this.#isPlain ? keyTextAt(this.#bytes, from) : ('' as PublicKey);
  }

  hash(): Sha256Hex {
    const from = this.#take32();
    return (this.#isPlain ? this.#bytes.toString('hex', from, from + KEY) : '') as Sha256Hex;
  }

  #take32(): number {
    const from = this.#at + 2;
    this.#at = from + KEY;
    if (this.#at > this.#bytes.length || this.#bytes.readUInt16BE(from - 2) !== BYTES_32) this.#isPlain = false;
    return from;
  }
}

/** Fields of a record or a row that is short, behind room for what stands before them. */
const MEMORY_BYTES = 4096;
/** More than any field but a text needs. */
const FIELD_BYTES = 40;
const WORD = 2 ** 32;

export class PlainWriter {
  readonly #memory: Buffer = Buffer.allocUnsafeSlow(MEMORY_BYTES);
  #at = 0;
  #isPlain = true;

  begin(): void {
    this.#at = 0;
    this.#isPlain = true;
  }

  /**
   * Returns what was written, until the next `begin`; `undefined` when a value has no form here, or too little room.
   */
  get taken(): Buffer | undefined {
    return this.#isPlain ? this.#memory.subarray(0, this.#at) : undefined;
  }

  array(length: number): void {
    this.#need(FIELD_BYTES);
    if (length < 16) this.#memory[this.#at++] = SHORT_ARRAY | length;
    else this.#isPlain = false;
  }

  number(value: number): void {
    const memory = this.#memory;
    const at = this.#at;
    this.#need(FIELD_BYTES);
    if (!this.#isPlain) return;
    if (!(value >= 0)) this.#isPlain = false;
    else if (value >= WORD || !Number.isInteger(value)) {
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
    if (this.#isPlain) this.#memory[this.#at++] = value ? FALSE + 1 : FALSE;
  }

  /** An ASCII text, or null. */
  textOrNull(value: string | null): void {
    if (value !== null) {
      this.text(value);
      return;
    }
    this.#need(FIELD_BYTES);
    if (this.#isPlain) this.#memory[this.#at++] = NULL;
  }

  /** ASCII. */
  text(value: string): void {
    const { length } = value;
    this.#need(FIELD_BYTES + length);
    if (!this.#isPlain) return;
    if (length > TEXT_MAX) {
      this.#isPlain = false;
      return;
    }
    if (length >= 0x20) this.#memory[this.#at++] = TEXT_8;
    this.#memory[this.#at++] = length >= 0x20 ? length : SHORT_TEXT | length;
    for (let nth = 0; nth < length; nth++) {
      const code = value.charCodeAt(nth);
      if (code > 0x7f) this.#isPlain = false;
      this.#memory[this.#at++] = code;
    }
  }

  key(value: PublicKey): void {
    this.#bytes32(value, 'base64');
  }

  hash(value: Sha256Hex): void {
    this.#bytes32(value, 'hex');
  }

  #bytes32(value: string, encoding: 'base64' | 'hex'): void {
    this.#need(FIELD_BYTES);
    if (!this.#isPlain) return;
    const at = this.#memory.writeUInt16BE(BYTES_32, this.#at);
    if (this.#memory.write(value, at, encoding) !== KEY) this.#isPlain = false;
    this.#at = at + KEY;
  }

  #need(bytes: number): void {
    if (this.#at + bytes > MEMORY_BYTES) this.#isPlain = false;
  }
}
