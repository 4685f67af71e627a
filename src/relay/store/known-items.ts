/**
 * Which dedup rows there are for certain not: a Bloom filter over the keys of those that there may be, in memory.
 *
 * Nearly every pushed item is new, and LevelDB finds out by looking into each of its tables, which takes 5 µs in an empty
 * store and 13 to 26 among millions of rows. Here it takes less than one.
 *
 * Rows cannot be taken out of a filter. So there are several, each of the rows of one time, and one goes when all of its
 * rows may be forgotten (`DedupPurged`). While the rows that were stored before are being read, and when there are more
 * than the filters are for, nothing is known here, and LevelDB is asked.
 */
import { PREFIX, dueTimeOf, prefixRange } from './keys.ts';
import type { Level } from './level.ts';

/** 2 MiB; with `ROWS_MAX` rows one key in 200 that is not there may seem to be. */
const FILTER_BITS_LOG2 = 24;
const ROWS_MAX = 1_600_000;
/** 32 MiB, for 25,600,000 rows. */
const FILTERS_MAX = 16;
/** A dedup key is a hash: each probe is four bytes of it, behind the prefix. */
const PROBES = 7;
const KEYS_AT_ONCE = 1000;

interface Filter {
  bits: Uint8Array;
  rows: number;
  /** When the last of its rows may be forgotten. */
  untilMs: number;
}

export class KnownItems {
  readonly #rowsMax: number;
  readonly #filters: Filter[] = [];
  #state: 'off' | 'filling' | 'complete' = 'off';

  /** `rowsMax` of one filter, for tests. */
  constructor(rowsMax: number = ROWS_MAX) {
    this.#rowsMax = rowsMax;
  }

  /** Whether no row is stored under `key`, and none was added. */
  lacks(key: Buffer): boolean {
    return this.#state === 'complete' && !this.#filters.some(({ bits }) => mayHold(bits, key));
  }

  /** To be called before the row is written. */
  add(key: Buffer, untilMs: number): void {
    if (this.#state === 'off') return;
    let filter = this.#filters.at(-1);
    if (!filter || filter.rows >= this.#rowsMax) {
      if (this.#filters.length === FILTERS_MAX) {
        this.#giveUp();
        return;
      }
      filter = { bits: new Uint8Array(2 ** FILTER_BITS_LOG2 / 8), rows: 0, untilMs };
      this.#filters.push(filter);
    }
    filter.rows++;
    filter.untilMs = Math.max(filter.untilMs, untilMs);
    mark(filter.bits, key);
  }

  /** Rows that may be forgotten at `beforeMs` or earlier count as gone, whether or not they are stored. */
  purged(beforeMs: number): void {
    if (this.#state !== 'complete') return;
    const left = this.#filters.filter(({ untilMs }) => untilMs > beforeMs);
    this.#filters.splice(0, this.#filters.length, ...left);
  }

  /**
   * Reads which rows are stored. From this call on, rows that are written must be added. Resolves when all are known, or
   * when the database was closed before.
   */
  async fill(level: Level): Promise<void> {
    this.#state = 'filling';
    try {
      const [newest] = await level.keys({ ...prefixRange(PREFIX.dedupUntil), reverse: true, limit: 1 }).all();
      const untilMs = newest ? dueTimeOf(newest) : Infinity;
      const keys = level.keys({ ...prefixRange(PREFIX.dedup), fillCache: false });
      try {
        for (let run = await keys.nextv(KEYS_AT_ONCE); run.length > 0; run = await keys.nextv(KEYS_AT_ONCE))
          for (const key of run) this.add(key, untilMs);
      } finally {
        await keys.close();
      }
    } catch {
      // LevelDB can be asked all the same, and says what is wrong.
      this.#giveUp();
      return;
    }
    if (this.#isFilling) this.#state = 'complete';
  }

  get #isFilling(): boolean {
    return this.#state === 'filling';
  }

  #giveUp(): void {
    this.#state = 'off';
    this.#filters.length = 0;
  }
}

function mayHold(bits: Uint8Array, key: Buffer): boolean {
  for (let probe = 0; probe < PROBES; probe++) {
    const bit = bitOf(key, probe);
    if (((bits[bit >>> 3] ?? 0) & (1 << (bit & 7))) === 0) return false;
  }
  return true;
}

function mark(bits: Uint8Array, key: Buffer): void {
  for (let probe = 0; probe < PROBES; probe++) {
    const bit = bitOf(key, probe);
    bits[bit >>> 3] = (bits[bit >>> 3] ?? 0) | (1 << (bit & 7));
  }
}

function bitOf(key: Buffer, probe: number): number {
  return key.readUInt32BE(1 + 4 * probe) >>> (32 - FILTER_BITS_LOG2);
}
