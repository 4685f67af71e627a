/**
 * The pairs of an audit, which nothing outlives: in memory, sorted when they are read, and in a temporary database as
 * soon as they are more than memory is meant for. A replay writes most of them once and reads few of them again, so
 * that a database for all of them would take most of its time.
 *
 * In memory, one pair after another: key length u8, value length u32 (all ones: deleted), key, value. A table of places
 * finds the newest of a key.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Pair } from '../../lib/pair-block.ts';
import { BulkDatabase } from './bulk.ts';
import { type KeyRange, runsOf } from './scan.ts';

const HEADER_BYTES = 5;
const DELETED = 0xffff_ffff;
/** Memory for pairs, and its first piece. */
const MEMORY_BYTES = 128 << 20;
const FIRST_BYTES = 1 << 20;
/** Of pairs in memory; `SORT_FACTOR` leaves room for as many behind four bytes of a key in one number. */
const PAIRS_MAX = 2_000_000;
const SORT_FACTOR = 2 ** 21;
const RUN_PAIRS = 1000;

type ScratchRange = Pick<KeyRange, 'gt' | 'gte' | 'lt' | 'lte'>;

export class ScratchPairs {
  readonly #database: BulkDatabase;
  readonly #memoryBytes: number;
  #memory = Buffer.allocUnsafeSlow(FIRST_BYTES);
  #used = 0;
  #pairs = 0;
  /** Places of pairs plus one, by the hashes of their keys; 0: free. */
  #places = new Int32Array(1 << 16);
  /** Places of the newest pair of each key, in the order of the keys, until the next change. */
  #sorted: Uint32Array | undefined;
  #isSpilled = false;

  constructor(database: BulkDatabase, memoryBytes: number) {
    this.#database = database;
    this.#memoryBytes = memoryBytes;
  }

  /** Whether it is time to `spill`. */
  get isFull(): boolean {
    return this.#used >= this.#memoryBytes || this.#pairs >= PAIRS_MAX;
  }

  put(key: Buffer, value: Buffer): void {
    const at = this.#add(key, value.length, value.length);
    this.#memory.set(value, at + HEADER_BYTES + key.length);
  }

  del(key: Buffer): void {
    this.#add(key, DELETED, 0);
  }

  /** Good until the next change. */
  get(key: Buffer): Buffer | undefined {
    const place = this.#places[this.#slotOf(key)] ?? 0;
    if (place > 0) return this.#valueAt(place - 1);
    return this.#isSpilled ? this.#database.level.getSync(key) : undefined;
  }

  /** Every pair of the range, ascending, in runs that are not empty; good until the next change. */
  async *runs(range: ScratchRange): AsyncGenerator<Pair[]> {
    const held = new Run(this.#heldIn(range));
    if (this.#isSpilled) {
      for await (const stored of runsOf(this.#database.level, range)) {
        const run: Pair[] = [];
        for (const pair of stored) {
          while (held.key && Buffer.compare(held.key, pair[0]) < 0) held.takeInto(run);
          if (held.key?.equals(pair[0])) held.takeInto(run);
          else run.push(pair);
        }
        if (run.length > 0) yield run;
      }
    }
    while (held.key) {
      const run: Pair[] = [];
      while (held.key && run.length < RUN_PAIRS) held.takeInto(run);
      if (run.length > 0) yield run;
    }
  }

  /** Brings what is in memory to the database, but for pairs that nobody asks for any more. */
  async spill(isDropped: (key: Buffer) => boolean = () => false): Promise<void> {
    for (const [key, value] of this.#heldIn({})) {
      if (value === undefined) this.#database.del(key);
      else if (!isDropped(key)) this.#database.put(key, value);
      if (this.#database.isFull) await this.#database.flush();
    }
    await this.#database.flush();
    this.#isSpilled = true;
    [this.#used, this.#pairs, this.#sorted] = [0, 0, undefined];
    this.#places.fill(0);
  }

  /** Deletes the pairs of a range that were brought to the database, and none that are in memory. */
  async clearSpilled(range: { gt: Buffer; lte: Buffer }): Promise<void> {
    if (this.#isSpilled) await this.#database.clear(range);
  }

  /** The place of a new pair, whose key is written. */
  #add(key: Buffer, length: number, valueBytes: number): number {
    const at = this.#used;
    const end = at + HEADER_BYTES + key.length + valueBytes;
    if (end > this.#memory.length) this.#grow(end);
    this.#memory[at] = key.length;
    this.#memory.writeUInt32LE(length, at + 1);
    this.#memory.set(key, at + HEADER_BYTES);
    if (2 * this.#pairs >= this.#places.length) this.#placeAnew();
    this.#places[this.#slotOf(key)] = at + 1;
    this.#used = end;
    this.#pairs++;
    this.#sorted = undefined;
    return at;
  }

  #grow(bytes: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.max(bytes, 2 * this.#memory.length));
    this.#memory.copy(larger, 0, 0, this.#used);
    this.#memory = larger;
  }

  #placeAnew(): void {
    const before = this.#places;
    this.#places = new Int32Array(2 * before.length);
    const mask = this.#places.length - 1;
    for (const place of before) {
      if (place === 0) continue;
      const at = place - 1 + HEADER_BYTES;
      let slot = hashAt(this.#memory, at, this.#memory[place - 1] as number) & mask;
      while (this.#places[slot] !== 0) slot = (slot + 1) & mask;
      this.#places[slot] = place;
    }
  }

  /** Where the place of the key stands in the table, or would. */
  #slotOf(key: Buffer): number {
    const mask = this.#places.length - 1;
    for (let slot = hashAt(key, 0, key.length) & mask; ; slot = (slot + 1) & mask) {
      const place = this.#places[slot] ?? 0;
      if (place === 0 || this.#hasKey(place - 1, key)) return slot;
    }
  }

  #hasKey(at: number, key: Buffer): boolean {
    if (this.#memory[at] !== key.length) return false;
    const from = at + HEADER_BYTES;
    return this.#memory.compare(key, 0, key.length, from, from + key.length) === 0;
  }

  #keyAt(at: number): Buffer {
    const from = at + HEADER_BYTES;
    return this.#memory.subarray(from, from + (this.#memory[at] as number));
  }

  #valueAt(at: number): Buffer | undefined {
    const length = this.#memory.readUInt32LE(at + 1);
    const from = at + HEADER_BYTES + (this.#memory[at] as number);
    return length === DELETED ? undefined : this.#memory.subarray(from, from + length);
  }

  /** What memory says of the range, ascending; `undefined` for a key that was deleted. */
  *#heldIn({ gt, gte = gt, lt, lte = lt }: ScratchRange): Generator<[key: Buffer, value: Buffer | undefined]> {
    const sorted = (this.#sorted ??= this.#order());
    for (let nth = gte ? this.#firstFrom(sorted, gte) : 0; nth < sorted.length; nth++) {
      const at = sorted[nth] as number;
      const key = this.#keyAt(at);
      if (gt?.equals(key)) continue;
      const order = lte ? Buffer.compare(key, lte) : -1;
      if (order > 0 || (order === 0 && lt)) return;
      yield [key, this.#valueAt(at)];
    }
  }

  /** The first of the sorted places whose key is not below `key`. */
  #firstFrom(sorted: Uint32Array, key: Buffer): number {
    let [low, high] = [0, sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (Buffer.compare(this.#keyAt(sorted[middle] as number), key) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Sorts numbers, which is fast: the first bytes of each key, and which key it is. Then what begins alike. */
  #order(): Uint32Array {
    const places = this.#places.filter((place) => place > 0).toSorted();
    const numbers = new Float64Array(places.length);
    for (const [nth, place] of places.entries()) numbers[nth] = this.#beginningAt(place - 1) * SORT_FACTOR + nth;
    numbers.sort();
    const sorted = new Uint32Array(numbers.length);
    for (const [nth, number] of numbers.entries()) sorted[nth] = (places[number % SORT_FACTOR] ?? 1) - 1;
    for (let from = 0; from < sorted.length; ) {
      const beginning = this.#beginningAt(sorted[from] as number);
      let end = from + 1;
      while (end < sorted.length && this.#beginningAt(sorted[end] as number) === beginning) end++;
      this.#sortAlike(sorted.subarray(from, end));
      from = end;
    }
    return sorted;
  }

  /** Mostly they were written in their order. */
  #sortAlike(places: Uint32Array): void {
    for (let nth = 1; nth < places.length; nth++) {
      if (this.#compare(places[nth - 1] as number, places[nth] as number) <= 0) continue;
      places.sort((a, b) => this.#compare(a, b));
      return;
    }
  }

  #compare(a: number, b: number): number {
    const [ofA, ofB] = [a + HEADER_BYTES, b + HEADER_BYTES];
    const [endA, endB] = [ofA + (this.#memory[a] as number), ofB + (this.#memory[b] as number)];
    return this.#memory.compare(this.#memory, ofB, endB, ofA, endA);
  }

  /** The first four bytes of the key, with zeros for those that it lacks. */
  #beginningAt(at: number): number {
    const from = at + HEADER_BYTES;
    const length = this.#memory[at] as number;
    if (length >= 4) return this.#memory.readUInt32BE(from);
    return this.#memory.readUIntBE(from, length) * 256 ** (4 - length);
  }
}

/** Of the key at `at`. */
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

/** Pairs one by one, of which the deleted ones leave nothing. */
class Run {
  readonly #pairs: Iterator<[key: Buffer, value: Buffer | undefined]>;
  #next: [key: Buffer, value: Buffer | undefined] | undefined;

  constructor(pairs: Iterator<[key: Buffer, value: Buffer | undefined]>) {
    this.#pairs = pairs;
    this.#advance();
  }

  get key(): Buffer | undefined {
    return this.#next?.[0];
  }

  takeInto(run: Pair[]): void {
    const [key, value] = this.#next ?? [];
    if (key && value) run.push([key, value]);
    this.#advance();
  }

  #advance(): void {
    const { done, value } = this.#pairs.next();
    this.#next = done ? undefined : value;
  }
}

export interface Scratch {
  pairs: ScratchPairs;
  close(): Promise<void>;
}

/** Pairs whose database is in a temporary folder, which `close` removes. */
export async function openScratch(memoryBytes: number = MEMORY_BYTES): Promise<Scratch> {
  const folder = await mkdtemp(join(tmpdir(), 'poste-audit-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    const database = await BulkDatabase.create(join(folder, 'rows'));
    const close = async (): Promise<void> => {
      await database.close();
      await remove();
    };
    return { pairs: new ScratchPairs(database, memoryBytes), close };
  } catch (error) {
    await remove();
    throw error;
  }
}
