/**
 * Pairs in one piece of memory, written one behind the other, sorted when they are read (scratch.ts).
 *
 * One pair: key length u8, value length u32 (all ones: deleted), key, value. Of pairs with the same key the newest
 * counts. Most are written once and never asked for by their key, so places are looked up in a table that is made of
 * the pairs under one prefix when the first of those is asked for.
 */
import { areSame } from '../../protocol/encodings.ts';

const HEADER_BYTES = 5;
const DELETED = 0xffff_ffff;
const FIRST_BYTES = 64 << 10;
/** `SORT_FACTOR` leaves room for as many behind four bytes of a key in one number. */
export const PAIRS_MAX = 2_000_000;
const SORT_FACTOR = 2 ** 21;
const PREFIXES = 256;
const NOTHING = Buffer.alloc(0);

export interface HeldRange {
  gt?: Buffer;
  gte?: Buffer;
  lt?: Buffer;
  lte?: Buffer;
}

/** `undefined` for a key that was deleted. */
type HeldPair = [key: Buffer, value: Buffer | undefined];

export class HeldPairs {
  #memory = Buffer.allocUnsafeSlow(FIRST_BYTES);
  #used = 0;
  #count = 0;
  /** By prefix: how many pairs were written, and the places of those that were asked for. */
  readonly #written = new Int32Array(PREFIXES);
  readonly #places = new Map<number, Places>();
  /** Places of the newest pair of each key, in the order of the keys, until the next change. */
  #sorted: Uint32Array | undefined;

  get bytes(): number {
    return this.#used;
  }

  /** All that were written, older ones of the same key too. */
  get count(): number {
    return this.#count;
  }

  /** The value may come in two parts. */
  put(key: Buffer, value: Buffer, rest: Buffer = NOTHING): void {
    const length = value.length + rest.length;
    const at = this.#add(key, length, length) + HEADER_BYTES + key.length;
    this.#memory.set(value, at);
    if (rest.length > 0) this.#memory.set(rest, at + value.length);
  }

  del(key: Buffer): void {
    this.#add(key, DELETED, 0);
  }

  /** Good until the next change; `'deleted'` where the newest pair of the key says so. */
  get(key: Buffer): Buffer | 'deleted' | undefined {
    const prefix = key[0] as number;
    const written = this.#written[prefix] as number;
    if (written === 0) return undefined;
    let places = this.#places.get(prefix);
    if (!places) this.#places.set(prefix, (places = new Places()));
    if (places.count < written) places.catchUp(this.#memory, this.#used, prefix);
    const at = places.find(this.#memory, key);
    return at === undefined ? undefined : (valueAt(this.#memory, at) ?? 'deleted');
  }

  clear(): void {
    [this.#used, this.#count, this.#sorted] = [0, 0, undefined];
    this.#written.fill(0);
    this.#places.clear();
  }

  /** The newest pair of each key of the range, ascending. Good until the next change. */
  within({ gt, gte, lt, lte }: HeldRange): HeldWalk {
    const sorted = (this.#sorted ??= this.#order());
    const from = gt ? this.#countBelow(sorted, gt, true) : gte ? this.#countBelow(sorted, gte, false) : 0;
    const end = lt ? this.#countBelow(sorted, lt, false) : lte ? this.#countBelow(sorted, lte, true) : sorted.length;
    return new HeldWalk(this.#memory, sorted.subarray(from, Math.max(from, end)));
  }

  /** The place of a new pair, whose key is written. */
  #add(key: Buffer, length: number, valueBytes: number): number {
    const at = this.#used;
    const end = at + HEADER_BYTES + key.length + valueBytes;
    if (end > this.#memory.length) this.#grow(end);
    const memory = this.#memory;
    memory[at] = key.length;
    memory.writeUInt32LE(length, at + 1);
    memory.set(key, at + HEADER_BYTES);
    this.#written[key[0] as number]!++;
    this.#used = end;
    this.#count++;
    this.#sorted = undefined;
    return at;
  }

  #grow(bytes: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.max(bytes, 2 * this.#memory.length));
    this.#memory.copy(larger, 0, 0, this.#used);
    this.#memory = larger;
  }

  /** Returns how many of the sorted places have keys below `key`, or up to it. */
  #countBelow(sorted: Uint32Array, key: Buffer, withKey: boolean): number {
    let [low, high] = [0, sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const order = Buffer.compare(keyAt(this.#memory, sorted[middle] as number), key);
      if (order < 0 || (order === 0 && withKey)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Sorts numbers, which is fast: the first bytes of each key, and which pair it is. Then what begins alike. */
  #order(): Uint32Array {
    const memory = this.#memory;
    const places = new Uint32Array(this.#count);
    const numbers = new Float64Array(this.#count);
    for (let at = 0, nth = 0; at < this.#used; at = endOf(memory, at), nth++) {
      places[nth] = at;
      numbers[nth] = beginningAt(memory, at) * SORT_FACTOR + nth;
    }
    numbers.sort();
    const sorted = new Uint32Array(this.#count);
    for (let nth = 0; nth < sorted.length; nth++)
      sorted[nth] = places[(numbers[nth] as number) % SORT_FACTOR] as number;
    let kept = 0;
    for (let from = 0; from < sorted.length; ) {
      const beginning = Math.floor((numbers[from] as number) / SORT_FACTOR);
      let end = from + 1;
      while (end < sorted.length && Math.floor((numbers[end] as number) / SORT_FACTOR) === beginning) end++;
      kept = this.#newestOf(sorted, from, end, kept);
      from = end;
    }
    return sorted.subarray(0, kept);
  }

  /** Sorts places whose keys begin alike, and keeps the newest of each key, from `to` on. Answers where they end. */
  #newestOf(places: Uint32Array, from: number, end: number, to: number): number {
    // Mostly they were written in their order.
    for (let nth = from + 1; nth < end; nth++) {
      if (this.#compare(places[nth - 1] as number, places[nth] as number) <= 0) continue;
      places.subarray(from, end).sort((a, b) => this.#compare(a, b) || a - b);
      break;
    }
    let kept = to;
    for (let nth = from; nth < end; nth++) {
      const place = places[nth] as number;
      const isOlder = nth + 1 < end && this.#compare(place, places[nth + 1] as number) === 0;
      if (!isOlder) places[kept++] = place;
    }
    return kept;
  }

  #compare(a: number, b: number): number {
    const [ofA, ofB] = [a + HEADER_BYTES, b + HEADER_BYTES];
    const [endA, endB] = [ofA + (this.#memory[a] as number), ofB + (this.#memory[b] as number)];
    return this.#memory.compare(this.#memory, ofB, endB, ofA, endA);
  }
}

/** Pairs one by one, in the order of their keys. */
export class HeldWalk {
  readonly #memory: Buffer;
  readonly #places: Uint32Array;
  #nth = 0;

  constructor(memory: Buffer, places: Uint32Array) {
    this.#memory = memory;
    this.#places = places;
  }

  /** Returns the key of the next pair; `undefined` at the end. */
  get key(): Buffer | undefined {
    return this.isAtEnd ? undefined : keyAt(this.#memory, this.#places[this.#nth] as number);
  }

  get isAtEnd(): boolean {
    return this.#nth >= this.#places.length;
  }

  /** The next pair. Not to be called at the end. */
  take(): HeldPair {
    const at = this.#places[this.#nth++] as number;
    return [keyAt(this.#memory, at), valueAt(this.#memory, at)];
  }
}

function keyAt(memory: Buffer, at: number): Buffer {
  const from = at + HEADER_BYTES;
  return memory.subarray(from, from + (memory[at] as number));
}

function valueAt(memory: Buffer, at: number): Buffer | undefined {
  const length = memory.readUInt32LE(at + 1);
  const from = at + HEADER_BYTES + (memory[at] as number);
  return length === DELETED ? undefined : memory.subarray(from, from + length);
}

function endOf(memory: Buffer, at: number): number {
  const length = memory.readUInt32LE(at + 1);
  return at + HEADER_BYTES + (memory[at] as number) + (length === DELETED ? 0 : length);
}

/** The first four bytes of the key, with zeros for those that it lacks. */
function beginningAt(memory: Buffer, at: number): number {
  const from = at + HEADER_BYTES;
  const length = memory[at] as number;
  if (length >= 4) return memory.readUInt32BE(from);
  return memory.readUIntBE(from, length) * 256 ** (4 - length);
}

/** Finds the newest pair of each key under one prefix. */
class Places {
  /** Places plus one, by the hashes of their keys; 0: free. */
  #table = new Int32Array(1 << 10);
  #taken = 0;
  /** Every pair before it was seen. */
  #through = 0;
  /** Pairs under the prefix among them. */
  count = 0;

  catchUp(memory: Buffer, used: number, prefix: number): void {
    for (let at = this.#through; at < used; at = endOf(memory, at)) {
      if (memory[at + HEADER_BYTES] !== prefix) continue;
      this.#place(memory, at);
      this.count++;
    }
    this.#through = used;
  }

  find(memory: Buffer, key: Buffer): number | undefined {
    const place = this.#table[this.#slotOf(memory, key, 0, key.length)] as number;
    return place === 0 ? undefined : place - 1;
  }

  #place(memory: Buffer, at: number): void {
    if (2 * this.#taken >= this.#table.length) this.#enlarge(memory);
    const slot = this.#slotOf(memory, memory, at + HEADER_BYTES, memory[at] as number);
    if (this.#table[slot] === 0) this.#taken++;
    this.#table[slot] = at + 1;
  }

  #enlarge(memory: Buffer): void {
    const before = this.#table;
    this.#table = new Int32Array(4 * before.length);
    const mask = this.#table.length - 1;
    for (const place of before) {
      if (place === 0) continue;
      let slot = hashAt(memory, place - 1 + HEADER_BYTES, memory[place - 1] as number) & mask;
      while (this.#table[slot] !== 0) slot = (slot + 1) & mask;
      this.#table[slot] = place;
    }
  }

  /** Returns where the place of the key at `from` stands in the table, or would. */
  #slotOf(memory: Buffer, bytes: Buffer, from: number, length: number): number {
    const mask = this.#table.length - 1;
    for (let slot = hashAt(bytes, from, length) & mask; ; slot = (slot + 1) & mask) {
      const at = (this.#table[slot] as number) - 1;
      if (at < 0) return slot;
      const held = at + HEADER_BYTES;
      if (memory[at] === length && areSame(bytes, from, memory, held, length)) return slot;
    }
  }
}

/** Returns the hash of the key at `at`. */
function hashAt(bytes: Buffer, at: number, length: number): number {
  const prefix = bytes[at] as number;
  if (length < 9) return prefix;
  return spread(bytes.readUInt32LE(at + 1) ^ prefix, bytes.readUInt32LE(at + length - 4));
}

/** A number to find a key by, of its first and last bytes: keys are hashes, or end in a number that counts. */
export function spread(first: number, last: number): number {
  let hash = Math.imul(first, 0x9e37_79b1) ^ last;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85eb_ca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2_ae35);
  return hash ^ (hash >>> 16);
}
