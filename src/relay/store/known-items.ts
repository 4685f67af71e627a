/**
 * Knows in memory of most keys that no dedup row is stored under them: Bloom filters over the keys of all rows.
 *
 * Nearly every pushed item is new, and LevelDB finds out by looking into each of its tables, which takes 5 µs in an
 * empty store and 13 to 26 among millions of rows. Here it takes less than one.
 *
 * Rows cannot be taken out of a filter. So there are several, each of the rows of one time, and one goes when all of
 * its rows may be forgotten (`DedupPurged`). While the rows that were stored before are being read, when there are more
 * than the filters are for, and when neither their index nor the rows themselves say which there are, nothing is known
 * here, and LevelDB is asked.
 *
 * A host that changed its key often may know an item under each pair of keys, and to hash 4,096 of them takes 10 ms. So
 * a row is also held under numbers of its names (`pairs`). What is stored does not say the names of a row: of those
 * from before the start it is known which senders have any.
 */
import { randomBytes } from 'node:crypto';
import { paceWork } from '../../lib/pace.ts';
import { type PublicKey, publicKeyFromBytes } from '../../protocol/public-key.ts';
import type { ItemId } from '../../protocol/names.ts';
import { type KnownKeyPairs, pairsBySender } from '../core/decide-push.ts';
import type { DedupRow } from '../core/rows.ts';
import { DamagedRow, withoutChecksum } from './checksum.ts';
import { type DedupCount, type DedupCounts, countDedupRows, rowsOfSenders } from './dedup-counts.ts';
import { spread } from './held-pairs.ts';
import { DEDUP_RUN_BYTES, PREFIX, firstNumberOf, prefixRange, rowKeyBytes } from './keys.ts';
import type { Level, LevelSnapshot } from './level.ts';
import { decodeRow } from './row-codec.ts';
import { runsOf } from './scan.ts';

/**
 * 4 MiB; with `ROWS_MAX` entries one key in 6,000 that is not there may seem to be. The bits of one entry are in one
 * block, which is a line of the processor's cache: a probe of memory that is not in it takes as long as the rest.
 */
const BLOCKS_LOG2 = 16;
const BLOCK_BITS_LOG2 = 9;
const BLOCK_WORDS = 2 ** BLOCK_BITS_LOG2 / 32;
// Powers are made once: V8 calls a function of the C library for each `2 ** n`.
const PLACE_MASK = 2 ** BLOCK_BITS_LOG2 - 1;
const ROWS_MAX = 1_600_000;
/** The first filter is 1/256 of one: a relay that knows few items has 16 KiB for them. */
const FIRST_PART = 256;
/**
 * 124 MiB, for 49,600,000 rows from before the start, or a third as many from after it, which have three entries. A row
 * that changes later, as by a rotation or an expiry, has as many again.
 */
const FILTERS_MAX = 32;
const PROBES = 9;
/** The probes whose places one number has. */
const PROBES_A_NUMBER = 3;
const NUMBERS = 1 + PROBES / PROBES_A_NUMBER;
/** More rows than these are counted apart from the event loop. */
const COUNTED_HERE_MAX = 20_000;
const PREFIX_BYTES = 1;
/** In an entry of the index: a key of a host is in front of the hash. */
const HASH_AT = 32;
/** Some 4,000 rows, which are a millisecond's work. */
const READ_BYTES = 256 << 10;

interface Filter {
  /** As many words as a power of two. */
  bits: Int32Array;
  rows: number;
  rowsMax: number;
  /** When the last of its rows may be forgotten. */
  untilMs: number;
}

export class KnownItems {
  readonly #rowsMax: number;
  readonly #filters: Filter[] = [];
  /** The senders of the rows from before the start, and when the last of those may be forgotten. */
  readonly #earlier = new Set<PublicKey>();
  #earlierUntilMs = 0;
  #state: 'off' | 'filling' | 'complete' = 'off';
  /** Mixed into every probe, so that nobody can choose an id that seems known. */
  readonly #word: number;

  /** `rowsMax` of one filter, for tests; `word` is random. */
  constructor(rowsMax: number = ROWS_MAX, word: number = randomBytes(4).readInt32LE()) {
    this.#rowsMax = rowsMax;
    this.#word = word;
  }

  /** Says whether it is known of every row that there is. */
  get isComplete(): boolean {
    return this.#state === 'complete';
  }

  /** Says whether no row is stored under `key`, and none was added. */
  lacks(key: Buffer): boolean {
    if (this.#state !== 'complete') return false;
    this.#findKey(key, PREFIX_BYTES);
    return !this.#filters.some(holds);
  }

  /** To be called before the row is written. */
  add(key: Buffer, untilMs: number): void {
    const filter = this.#filterFor(untilMs);
    if (!filter) return;
    this.#findKey(key, PREFIX_BYTES);
    mark(filter);
  }

  /** To be called before anybody may ask for the row. */
  note({ senderPubkey, targetPubkey, itemId, dedupUntilMs }: DedupRow): void {
    const ofSender = spread(numberOf(senderPubkey), numberOf(itemId));
    for (const name of [ofSender, spread(ofSender, numberOf(targetPubkey))]) {
      const filter = this.#filterFor(dedupUntilMs);
      if (!filter) return;
      this.#findName(name);
      mark(filter);
    }
  }

  /** Returns those pairs of these keys under which the item may be stored or noted. */
  pairs(senders: readonly PublicKey[], targets: readonly PublicKey[], itemId: ItemId): KnownKeyPairs[] {
    if (this.#state !== 'complete' || senders.length * targets.length <= 1) return pairsBySender(senders, targets);
    const item = numberOf(itemId);
    const pairs: KnownKeyPairs[] = [];
    for (const sender of senders) {
      let members = targets;
      if (!this.#earlier.has(sender)) {
        const ofSender = spread(numberOf(sender), item);
        if (!this.#mayHold(ofSender)) continue;
        members = targets.filter((target) => this.#mayHold(spread(ofSender, numberOf(target))));
      }
      pairs.push([sender, members]);
    }
    return pairs;
  }

  #mayHold(name: number): boolean {
    this.#findName(name);
    return this.#filters.some(holds);
  }

  /** `at`: where the hash of a key begins. */
  #findKey(bytes: Buffer, at: number): void {
    for (let nth = 0; nth < NUMBERS; nth++) findPlaces(nth, spread(this.#word + nth, bytes.readInt32BE(at + 4 * nth)));
  }

  #findName(name: number): void {
    for (let nth = 0; nth < NUMBERS; nth++) findPlaces(nth, spread(this.#word + nth, name));
  }

  /** The filter for one entry more, which is counted; `undefined` where there is none. */
  #filterFor(untilMs: number): Filter | undefined {
    if (this.#state === 'off') return undefined;
    let filter = this.#filters.at(-1);
    if (!filter || filter.rows >= filter.rowsMax) {
      if (this.#filters.length === FILTERS_MAX) {
        this.#giveUp();
        return undefined;
      }
      const part = this.#filters.length === 0 ? FIRST_PART : 1;
      const bits = new Int32Array((2 ** BLOCKS_LOG2 * BLOCK_WORDS) / part);
      filter = { bits, rows: 0, rowsMax: Math.ceil(this.#rowsMax / part), untilMs };
      this.#filters.push(filter);
    }
    filter.rows++;
    filter.untilMs = Math.max(filter.untilMs, untilMs);
    return filter;
  }

  /** Rows that may be forgotten at `beforeMs` or earlier count as gone, whether or not they are stored. */
  purged(beforeMs: number): void {
    if (this.#state !== 'complete') return;
    const left = this.#filters.filter(({ untilMs }) => untilMs > beforeMs);
    this.#filters.splice(0, this.#filters.length, ...left);
    if (this.#earlierUntilMs <= beforeMs) this.#earlier.clear();
  }

  /**
   * Reads which rows are stored, from the index of when they may be forgotten: it is a third as long as the rows. From
   * this call on, rows that are written must be added. Resolves when all are known, or when that cannot be told:
   * `onDamaged` is called for an entry that is damaged, and the rows are to be added then (`addStored`, `filled`).
   * The index has more entries than rows where some were extended, so their number shows one that is gone, without a
   * word from LevelDB, in a store without such rows.
   */
  async fill(level: Level, onDamaged: (row: DamagedRow) => void = () => undefined): Promise<void> {
    this.#state = 'filling';
    try {
      const snapshot = level.snapshot();
      try {
        const found = await this.#addIndexed(level, snapshot);
        if (found >= (await rowsOfSenders(level, snapshot))) this.filled(true);
      } finally {
        await snapshot.close();
      }
    } catch (error) {
      if (error instanceof DamagedRow) onDamaged(error);
      // Or the database was closed or cannot be read: LevelDB says so when it is asked.
    }
  }

  /** A row from before the start. */
  addStored(key: Buffer, value: Buffer): void {
    const { senderPubkey, dedupUntilMs } = decodeRow('dedup', key, value);
    this.add(key, dedupUntilMs);
    this.#earlier.add(senderPubkey);
    this.#earlierUntilMs = Math.max(this.#earlierUntilMs, dedupUntilMs);
  }

  /** `isAll`: every row from before the start was added. */
  filled(isAll: boolean): void {
    if (!isAll) this.#giveUp();
    else if (this.isFilling) this.#state = 'complete';
  }

  async #addIndexed(level: Level, snapshot: LevelSnapshot): Promise<number> {
    let found = 0;
    for await (const run of runsOf(level, prefixRange(PREFIX.dedupUntil), { snapshot, bytes: READ_BYTES })) {
      if (!this.isFilling) return found;
      for (const [key, value] of run) {
        const untilMs = firstNumberOf(key);
        const names = withoutChecksum(key, value);
        for (let at = HASH_AT; at < names.length; at += DEDUP_RUN_BYTES, found++) {
          const filter = this.#filterFor(untilMs);
          if (filter) {
            this.#findKey(names, at);
            mark(filter);
          }
          this.#earlier.add(publicKeyFromBytes(names.subarray(at - HASH_AT, at)));
        }
        this.#earlierUntilMs = Math.max(this.#earlierUntilMs, untilMs);
      }
    }
    return found;
  }

  get isFilling(): boolean {
    return this.#state === 'filling';
  }

  #giveUp(): void {
    this.#state = 'off';
    this.#filters.length = 0;
    this.#earlier.clear();
  }
}

/** The keys of dedup rows. Each is hashed once: for the push that asks for the row, for its note, and for the batch. */
export class DedupKeys {
  /** Of rows that were noted and not taken yet. */
  readonly #noted = new Map<string, Buffer>();
  #last: { name: string; key: Buffer } = { name: '', key: Buffer.alloc(0) };

  of(name: string): Buffer {
    if (this.#last.name !== name) this.#last = { name, key: rowKeyBytes('dedup', name) };
    return this.#last.key;
  }

  /** As `of`; the key is kept until it is taken. */
  noted(name: string): Buffer {
    const key = this.of(name);
    this.#noted.set(name, key);
    return key;
  }

  /** Takes the note of a row; `undefined` where none waits. A row with one is in the filters already. */
  taken(name: string): Buffer | undefined {
    const key = this.#noted.get(name);
    if (key) this.#noted.delete(name);
    return key;
  }
}

export interface FillOptions {
  /** Milliseconds that never go back. */
  monotonicMs: () => number;
  /** Counts the rows without holding the event loop (`countDedupRows`). */
  countApart?: (() => Promise<DedupCount | undefined>) | undefined;
}

/**
 * Fills `known`, and then counts the rows of this moment, after record `lsn`; many of them by `countApart`. Where the
 * index does not say which rows there are, the rows do: then all are read here.
 */
export async function fillAndCount(
  level: Level,
  lsn: number,
  known: KnownItems,
  counts: DedupCounts,
  { onDamaged, monotonicMs, countApart }: FillOptions & { onDamaged: (row: DamagedRow) => void },
): Promise<void> {
  const snapshot = level.snapshot();
  let count: DedupCount | undefined;
  try {
    await known.fill(level, onDamaged);
    // The index was damaged, or has fewer entries than there are rows.
    const isUnknown = known.isFilling;
    if (isUnknown || !countApart || (await rowsOfSenders(level, snapshot)) <= COUNTED_HERE_MAX) {
      const visit = (key: Buffer, value: Buffer): void => known.addStored(key, value);
      const steps = countDedupRows(level, lsn, snapshot, isUnknown ? visit : undefined);
      count = (await paceWork(steps, { share: 1, monotonicMs, rest: () => true }))?.result;
      if (isUnknown) known.filled(count !== undefined && count.rows + count.flipped === count.expected);
    }
  } catch (error) {
    // Or the database was closed or cannot be read.
    if (error instanceof DamagedRow) onDamaged(error);
    if (known.isFilling) known.filled(false);
    return;
  } finally {
    await snapshot.close();
  }
  count ??= await countApart?.();
  if (count) counts.counted(count);
}

/** Where the bits of one entry are: words of a filter, and the bit in each. Until the next entry is found. */
let block = 0;
const words = new Int32Array(PROBES);
const masks = new Int32Array(PROBES);

/** Takes the numbers of an entry in turn: the first one has its block, and each other one three of its places there. */
function findPlaces(nth: number, number: number): void {
  if (nth === 0) {
    block = (number >>> (32 - BLOCKS_LOG2)) * BLOCK_WORDS;
    return;
  }
  let left = number;
  for (let probe = (nth - 1) * PROBES_A_NUMBER; probe < nth * PROBES_A_NUMBER; probe++) {
    words[probe] = block + ((left & PLACE_MASK) >>> 5);
    masks[probe] = 1 << (left & 31);
    left >>>= BLOCK_BITS_LOG2;
  }
}

function holds({ bits }: Filter): boolean {
  const last = bits.length - 1;
  for (let probe = 0; probe < PROBES; probe++) {
    if (((bits[(words[probe] as number) & last] as number) & (masks[probe] as number)) === 0) return false;
  }
  return true;
}

function mark({ bits }: Filter): void {
  const last = bits.length - 1;
  for (let probe = 0; probe < PROBES; probe++) {
    const word = (words[probe] as number) & last;
    bits[word] = (bits[word] as number) | (masks[probe] as number);
  }
}

/** FNV-1a. Two rows may have the same number of their names; the other one is asked for in vain. */
function numberOf(text: string): number {
  let number = 0x811c_9dc5;
  for (let at = 0; at < text.length; at++) number = Math.imul(number ^ text.charCodeAt(at), 0x0100_0193);
  return number;
}
