/**
 * Notices that dedup rows are gone from the disk, as by a flipped bit of their key: nothing else of a known item says
 * that it is not new, and it would be stored twice.
 *
 * At the start the rows are counted, by bucket of their keys, and held against what the senders are said to have. From
 * then on the changes are followed: so many whole rows are in a bucket at least. A push of an item that the filters of
 * known-items.ts know and LevelDB does not is a doubt, and its bucket is counted before it is decided. Where a row is
 * missing, at the start or in a bucket, such items are refused from then on, until the rows were made anew; where the
 * filters know nothing, every item that has no row is.
 *
 * A row counts where its checksum covers its key: so one under another key is missing, whatever key that is.
 */
import type { RelayEvent } from '../core/event.ts';
import { LookFirst, rowKey } from '../core/rows.ts';
import { DamagedRow, pairBeforeFlip, verifiedBytes } from './checksum.ts';
import { KEY_BYTES, PREFIX, prefixRange, rowKeyBytes } from './keys.ts';
import type { Level, LevelSnapshot } from './level.ts';
import { decodeRow } from './row-codec.ts';
import { runsOf } from './scan.ts';

const BUCKETS = 1 << 16;
/** The number of a bucket is the beginning of the hash, behind the prefix. */
const BUCKET_AT = 1;
/** Some milliseconds' work. */
const RUN = { pairs: 1000, bytes: 128 << 10 };
/** Each is some 80 rows among millions. More than these in a second are decided as if there were no doubt. */
export const DOUBTS_A_SECOND_MAX = 100;
const SECOND_MS = 1000;
/** Numbers that say what changed while the rows are being counted: 16 MiB. With more, that count is of no use. */
const CHANGES_MAX = 1 << 21;

/** Returns how many dedup rows the senders are said to have. Throws `DamagedRow`. */
export async function rowsOfSenders(level: Level, snapshot?: LevelSnapshot): Promise<number> {
  let rows = 0;
  for await (const run of runsOf(level, prefixRange(PREFIX.sender), { ...(snapshot && { snapshot }) }))
    for (const [key, value] of run) rows += decodeRow('sender', key, value).dedupRows;
  return rows;
}

/** Rows that are named. */
const DAMAGED_MAX = 100;

export interface DedupCount {
  /** The last record of the moment that was counted. */
  lsn: number;
  /** Whole rows, by bucket, and all together. */
  buckets: Int32Array;
  rows: number;
  /** The rows of all senders, as their own rows say it. */
  expected: number;
  /** The keys of the first rows that are not whole, in hexadecimal. */
  damagedKeys: string[];
  /** So many of those rows were whole before one bit flipped. */
  flipped: number;
}

/**
 * Counts the rows as they are after record `lsn`: in `snapshot`, unless the database itself is as it was then. Yields
 * how many it came by. `visit` is called for each row as it was written, where that can be told. Throws `DamagedRow`.
 */
export async function* countDedupRows(
  level: Level,
  lsn: number,
  snapshot?: LevelSnapshot,
  visit?: (key: Buffer, value: Buffer) => void,
): AsyncGenerator<number, DedupCount, void> {
  const expected = await rowsOfSenders(level, snapshot);
  const reading = { ...RUN, ...(snapshot && { snapshot }) };
  const buckets = new Int32Array(BUCKETS);
  const damagedKeys: string[] = [];
  let flipped = 0;
  let rows = 0;
  for await (const run of runsOf(level, prefixRange(PREFIX.dedup), reading)) {
    for (const [key, value] of run) {
      if (isWhole(key, value)) {
        buckets[bucketOf(key)]!++;
        rows++;
        visit?.(key, value);
      } else if (damagedKeys.length < DAMAGED_MAX) {
        damagedKeys.push(key.toString('hex'));
        const written = pairBeforeFlip(key, value);
        if (written?.[0][0] !== PREFIX.dedup || !isOfRow(key)) continue;
        flipped++;
        visit?.(...written);
      }
    }
    yield rows;
  }
  return { lsn, buckets, rows, expected, damagedKeys, flipped };
}

function isWhole(key: Buffer, value: Buffer): boolean {
  return isOfRow(key) && verifiedBytes(key, value) !== undefined;
}

function isOfRow(key: Buffer): boolean {
  return key.length === KEY_BYTES[PREFIX.dedup];
}

function bucketOf(key: Buffer): number {
  return key.readUInt16BE(BUCKET_AT);
}

interface DedupCountsOptions {
  /** Called for each row that is not in the store, or not as it was written. */
  onDamaged: (row: DamagedRow) => void;
  /** Milliseconds that never go back. */
  monotonicMs: () => number;
}

export class DedupCounts {
  readonly #level: Level;
  readonly #options: DedupCountsOptions;
  /** So many whole rows are in each bucket at least; absent until they were counted. */
  #least: Int32Array | undefined;
  /** The last record of the moment that was counted. */
  #countedLsn = 0;
  /** While they are counted: records, each with the bucket of a row that came, or the complement of one's that went. */
  #changes: number[] | undefined = [];
  #isMissing = false;
  #secondMs = -Infinity;
  #doubts = 0;
  /** The keys that never had a row, as was seen in this second and in the one before. */
  #new = new Set<string>();
  #newBefore = new Set<string>();

  /** From here on changes must be told. `counted` is called next. */
  constructor(level: Level, options: DedupCountsOptions) {
    this.#level = level;
    this.#options = options;
  }

  /** So many rows must be in a bucket; `undefined` before they were counted. */
  leastIn(bucket: number): number | undefined {
    return this.#least?.[bucket];
  }

  /** To be called when the row that the batch up to record `lsn` put under a new key is durable. */
  added(key: Buffer, lsn: number): void {
    const bucket = bucketOf(key);
    if (!this.#least) this.#note(lsn, bucket);
    // A thread may have counted a batch that was written and not durable yet.
    else if (lsn > this.#countedLsn) this.#least[bucket]!++;
  }

  /** To be called before that batch deletes a row. */
  removed(key: Buffer, lsn: number): void {
    const bucket = bucketOf(key);
    if (this.#least) this.#least[bucket]!--;
    else this.#note(lsn, ~bucket);
  }

  /** The same for an event that takes a row away, also where its item is accepted anew in the same batch. */
  lost(event: RelayEvent, lsn: number): void {
    if (event.type !== 'ItemLost' || event.kind === 'expired') return;
    this.removed(rowKeyBytes('dedup', rowKey.dedup(event.senderPubkey, event.pushedTo, event.itemId)), lsn);
  }

  counted({ lsn, buckets, rows, expected, damagedKeys }: DedupCount): void {
    const changes = this.#changes;
    this.#changes = undefined;
    for (let at = 0; at < (changes?.length ?? 0); at += 2) {
      const bucket = changes?.[at + 1] ?? 0;
      if ((changes?.[at] ?? 0) <= lsn) continue;
      if (bucket >= 0) buckets[bucket]!++;
      else buckets[~bucket]!--;
    }
    // Without the changes nothing is known of the buckets, and still whether rows were missing.
    this.#least = changes && buckets;
    this.#countedLsn = lsn;
    // With more rows than the senders are charged for, the row of a sender is missing.
    this.#isMissing = rows !== expected;
    const { onDamaged } = this.#options;
    for (const key of damagedKeys) onDamaged(new DamagedRow(Buffer.from(key, 'hex'), 'does not match its checksum'));
    if (rows + damagedKeys.length < expected) onDamaged(missingRow(Buffer.of(PREFIX.dedup)));
    if (rows > expected) onDamaged(missingRow(Buffer.of(PREFIX.sender)));
  }

  /**
   * To be called for an item that has no row, and that the filters know, if they know anything. Returns when it is new.
   * Throws `LookFirst` where its bucket is to be counted before, and `DamagedRow` where rows are missing.
   */
  assertNew(key: Buffer, isFiltered = true): void {
    if (this.#isMissing) throw missingRow(key);
    if (!this.#least || !isFiltered) return;
    const nowMs = this.#options.monotonicMs();
    if (nowMs >= this.#secondMs + SECOND_MS) {
      this.#newBefore = nowMs < this.#secondMs + 2 * SECOND_MS ? this.#new : new Set();
      this.#new = new Set();
      this.#secondMs = nowMs;
      this.#doubts = 0;
    }
    const mark = key.toString('latin1');
    if (this.#new.has(mark) || this.#newBefore.has(mark) || this.#doubts >= DOUBTS_A_SECOND_MAX) return;
    this.#doubts++;
    throw new LookFirst('a dedup row', () => this.#look(key, mark));
  }

  async #look(key: Buffer, mark: string): Promise<void> {
    const bucket = bucketOf(key);
    const least = this.leastIn(bucket) ?? 0;
    let rows = 0;
    let isThere = false;
    for await (const run of runsOf(this.#level, { gte: bucketKey(bucket), lt: bucketKey(bucket + 1) }, RUN))
      for (const [stored, value] of run) {
        if (isWhole(stored, value)) rows++;
        // A damaged table can answer a walk rightly and a look-up wrongly.
        if (stored.equals(key)) isThere = true;
      }
    if (rows < least || isThere) {
      this.#isMissing = true;
      this.#options.onDamaged(missingRow(key));
    } else this.#new.add(mark);
  }

  #note(lsn: number, bucket: number): void {
    if (!this.#changes) return;
    this.#changes.push(lsn, bucket);
    if (this.#changes.length > CHANGES_MAX) this.#changes = undefined;
  }
}

function bucketKey(bucket: number): Buffer {
  return Buffer.of(bucket < BUCKETS ? PREFIX.dedup : PREFIX.dedup + 1, bucket >>> 8, bucket);
}

function missingRow(key: Buffer): DamagedRow {
  return new DamagedRow(key, 'is not in the store');
}
