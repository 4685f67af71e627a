/**
 * Knows in memory of most keys that no dedup row is stored under them: Bloom filters over the keys of all rows.
 *
 * Nearly every pushed item is new, and LevelDB finds out by looking into each of its tables, which takes 5 µs in an
 * empty store and 13 to 26 among millions of rows. Here it takes less than one.
 *
 * Rows cannot be taken out of a filter. So there are several, each of the rows of one time, and one goes when all of
 * its rows may be forgotten (`DedupPurged`). While the rows that were stored before are being read, when there are more
 * than the filters are for, and when their index is damaged, nothing is known here, and LevelDB is asked.
 *
 * A host that changed its key often may know an item under each pair of keys, and to hash 4,096 of them takes 10 ms. So
 * a row is also held under numbers of its names (`pairs`). What is stored does not say the names of a row: of those
 * from before the start it is known which senders have any.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { ItemId } from '../../protocol/names.ts';
import { type KnownKeyPairs, pairsBySender } from '../core/decide-push.ts';
import type { DedupRow } from '../core/rows.ts';
import { withoutChecksum } from './checksum.ts';
import { spread } from './held-pairs.ts';
import { keyFrom } from './packing.ts';
import { DEDUP_RUN_BYTES, PREFIX, dueTimeOf, prefixRange } from './keys.ts';
import type { Level, LevelSnapshot } from './level.ts';
import { decodeRow } from './row-codec.ts';
import { runsOf } from './scan.ts';

/** 2 MiB; with `ROWS_MAX` entries one key in 200 that is not there may seem to be. */
const FILTER_BITS_LOG2 = 24;
const ROWS_MAX = 1_600_000;
/**
 * 64 MiB, for 51,200,000 rows from before the start, or a third as many from after it, which have three entries. A row
 * that changes later, as by a rotation or an expiry, has as many again.
 */
const FILTERS_MAX = 32;
/** A dedup key is a hash behind its prefix: each probe is four bytes of it. */
const PROBES = 7;
const PREFIX_BYTES = 1;
/** In an entry of the index: a key of a host is in front of the hash. */
const HASH_AT = 32;
/** Some 4,000 rows, which are a millisecond's work. */
const READ_BYTES = 256 << 10;

interface Filter {
  bits: Uint8Array;
  rows: number;
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

  /** `rowsMax` of one filter, for tests. */
  constructor(rowsMax: number = ROWS_MAX) {
    this.#rowsMax = rowsMax;
  }

  /** Says whether no row is stored under `key`, and none was added. */
  lacks(key: Buffer): boolean {
    return this.#state === 'complete' && !this.#filters.some(({ bits }) => mayHold(bits, key, PREFIX_BYTES));
  }

  /** To be called before the row is written. */
  add(key: Buffer, untilMs: number): void {
    const filter = this.#filterFor(untilMs);
    if (filter) mark(filter.bits, key, PREFIX_BYTES);
  }

  /** To be called before anybody may ask for the row. */
  note({ senderPubkey, targetPubkey, itemId, dedupUntilMs }: DedupRow): void {
    const ofSender = spread(numberOf(senderPubkey), numberOf(itemId));
    for (const name of [ofSender, spread(ofSender, numberOf(targetPubkey))]) {
      const filter = this.#filterFor(dedupUntilMs);
      if (!filter) return;
      for (let probe = 0; probe < PROBES; probe++) markBit(filter.bits, namedBit(name, probe));
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

  #mayHold(first: number): boolean {
    for (const { bits } of this.#filters) {
      let probe = 0;
      while (probe < PROBES && hasBit(bits, namedBit(first, probe))) probe++;
      if (probe === PROBES) return true;
    }
    return false;
  }

  /** The filter for one entry more, which is counted; `undefined` where there is none. */
  #filterFor(untilMs: number): Filter | undefined {
    if (this.#state === 'off') return undefined;
    let filter = this.#filters.at(-1);
    if (!filter || filter.rows >= this.#rowsMax) {
      if (this.#filters.length === FILTERS_MAX) {
        this.#giveUp();
        return undefined;
      }
      filter = { bits: new Uint8Array(2 ** FILTER_BITS_LOG2 / 8), rows: 0, untilMs };
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
   * this call on, rows that are written must be added. Resolves when all are known, or when that cannot be told.
   */
  async fill(level: Level): Promise<void> {
    this.#state = 'filling';
    try {
      const snapshot = level.snapshot();
      try {
        const found = await this.#addStored(level, snapshot);
        if (found < (await countedRows(level, snapshot))) this.#giveUp();
      } finally {
        await snapshot.close();
      }
    } catch {
      // A damaged entry, or a database that was closed or cannot be read: LevelDB says so when it is asked.
      this.#giveUp();
    }
    if (this.#isFilling) this.#state = 'complete';
  }

  async #addStored(level: Level, snapshot: LevelSnapshot): Promise<number> {
    let found = 0;
    for await (const run of runsOf(level, prefixRange(PREFIX.dedupUntil), { snapshot, bytes: READ_BYTES })) {
      if (!this.#isFilling) return found;
      for (const [key, value] of run) {
        const untilMs = dueTimeOf(key);
        const names = withoutChecksum(key, value);
        for (let at = HASH_AT; at < names.length; at += DEDUP_RUN_BYTES, found++) {
          const filter = this.#filterFor(untilMs);
          if (filter) mark(filter.bits, names, at);
          this.#earlier.add(keyFrom(names.subarray(at - HASH_AT, at)));
        }
        this.#earlierUntilMs = Math.max(this.#earlierUntilMs, untilMs);
      }
    }
    return found;
  }

  get #isFilling(): boolean {
    return this.#state === 'filling';
  }

  #giveUp(): void {
    this.#state = 'off';
    this.#filters.length = 0;
    this.#earlier.clear();
  }
}

/**
 * Returns how many rows the senders are said to have. The index has more entries than rows where some were extended, so
 * this finds one that is gone, without a word from LevelDB, in a store without such rows.
 */
async function countedRows(level: Level, snapshot: LevelSnapshot): Promise<number> {
  let rows = 0;
  for await (const run of runsOf(level, prefixRange(PREFIX.sender), { snapshot }))
    for (const [key, value] of run) rows += decodeRow('sender', key, value).dedupRows;
  return rows;
}

function mayHold(bits: Uint8Array, bytes: Buffer, at: number): boolean {
  for (let probe = 0; probe < PROBES; probe++) {
    if (!hasBit(bits, bitOf(bytes, at, probe))) return false;
  }
  return true;
}

function hasBit(bits: Uint8Array, bit: number): boolean {
  return ((bits[bit >>> 3] ?? 0) & (1 << (bit & 7))) !== 0;
}

function markBit(bits: Uint8Array, bit: number): void {
  bits[bit >>> 3] = (bits[bit >>> 3] ?? 0) | (1 << (bit & 7));
}

function mark(bits: Uint8Array, bytes: Buffer, at: number): void {
  for (let probe = 0; probe < PROBES; probe++) {
    markBit(bits, bitOf(bytes, at, probe));
  }
}

/** FNV-1a. */
function numberOf(text: string): number {
  let number = 0x811c_9dc5;
  for (let at = 0; at < text.length; at++) number = Math.imul(number ^ text.charCodeAt(at), 0x0100_0193);
  return number;
}

/**
 * Returns a bit of the number of a row's names: 32 bits, of which two rows may have the same; that row is asked for in
 * vain.
 */
function namedBit(first: number, probe: number): number {
  return (probe === 0 ? first : spread(first, probe)) >>> (32 - FILTER_BITS_LOG2);
}

function bitOf(bytes: Buffer, at: number, probe: number): number {
  return bytes.readUInt32BE(at + 4 * probe) >>> (32 - FILTER_BITS_LOG2);
}
