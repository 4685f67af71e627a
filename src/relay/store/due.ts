/**
 * The index of what becomes due (keys.ts, 42 and 51): items that expire, and dedup rows that may be forgotten.
 *
 * One entry for each batch and time, in order of time. It may name rows that are long gone: each reader skips those.
 */
import { caught, onlyOf } from '../../lib/caught.ts';
import type { Pair } from '../../lib/pair-block.ts';
import { type PublicKey, publicKeyBytes, publicKeyFromBytes } from '../../protocol/public-key.ts';
import type { QueueRow } from '../core/rows.ts';
import { DamagedRow, verifiedBytes, withChecksum, withoutChecksum } from './checksum.ts';
import type { BatchWrites, DueEntryName, Forgotten } from './durable-log.ts';
import {
  DEDUP_RUN_BYTES,
  KEY_BYTES,
  EXPIRY_RUN_BYTES,
  PREFIX,
  dedupKey,
  dueKey,
  dueLsnOf,
  firstNumberOf,
  numberAt,
  prefixRange,
} from './keys.ts';
import type { Level } from './level.ts';
import { decodeRow } from './row-codec.ts';
import { runsOf, type DamagedRows } from './scan.ts';

/** Items of entries that are taken together. */
const ITEMS_AT_ONCE = 1000;
/** Dedup rows that are looked up before other work gets its turn. */
const DEDUP_ROWS_AT_ONCE = 500;
/** Due entries are written when so many rows were seen: what one entry names fits in memory. */
const DUE_ROWS = 10_000;
const SEARCH_RUN = { pairs: 100, bytes: 256 << 10 };
const NO_RUNS = Buffer.alloc(0);

/** An entry of items: `targets` is absent for a damaged one, whose items expire after a rebuild made it anew. */
export interface DueItems extends DueEntryName {
  /** Sequence numbers of rows that may be gone by now. */
  targets: ReadonlyMap<PublicKey, number[]> | undefined;
}

interface DueDedup {
  dueMs: number;
  senders: ReadonlyMap<PublicKey, number>;
  /** The entries and their rows. */
  forgotten: Forgotten;
}

export class DueIndex {
  readonly #level: Level;
  readonly #damagedRows: DamagedRows;
  readonly #note = (row: DamagedRow): undefined => {
    this.#damagedRows.note(row);
    return undefined;
  };

  constructor(level: Level, damagedRows: DamagedRows) {
    this.#level = level;
    this.#damagedRows = damagedRows;
  }

  /**
   * The oldest entries of items whose time came by `nowMs`, behind the entry `after`: of a thousand items together, but
   * at least one; none when nothing is due.
   */
  async items(nowMs: number, after?: DueEntryName): Promise<DueItems[]> {
    const entries: DueItems[] = [];
    let items = 0;
    const gt = after ? dueKey(PREFIX.expiry, after.dueMs, after.lsn) : prefixRange(PREFIX.expiry).gte;
    const range = { gt, lt: dueKey(PREFIX.expiry, nowMs + 1, 0) };
    for await (const pairs of runsOf(this.#level, range, SEARCH_RUN)) {
      for (const [key, value] of pairs) {
        items += value.length / EXPIRY_RUN_BYTES;
        if (entries.length > 0 && items > ITEMS_AT_ONCE) return entries;
        if (key.length === KEY_BYTES[PREFIX.expiry])
          entries.push({ ...nameOf(key), targets: this.#targets(key, value) });
        else this.#noteStrange(key);
      }
    }
    return entries;
  }

  #targets(key: Buffer, value: Buffer): DueItems['targets'] {
    const runs = this.#wholeOrNoted(key, value);
    if (!runs) return undefined;
    const targets = new Map<PublicKey, number[]>();
    for (let at = 0; at < runs.length; at += EXPIRY_RUN_BYTES) {
      const target = publicKeyFromBytes(runs.subarray(at, at + 32));
      const seqs = targets.get(target) ?? [];
      seqs.push(numberAt(runs, at + 32));
      targets.set(target, seqs);
    }
    return targets;
  }

  /**
   * The seqs of a target that entries of items name, also of rows that are gone; infinity for an entry that cannot be
   * read, which may name any. Walks over all entries.
   */
  async seqsOf(target: PublicKey, pauses: Pauses): Promise<number[]> {
    const named = publicKeyBytes(target);
    const seqs: number[] = [];
    for await (const entries of runsOf(this.#level, prefixRange(PREFIX.expiry), SEARCH_RUN)) {
      for (const entry of entries) {
        const runs = this.#wholeOrNoted(...entry);
        if (!runs) seqs.push(Infinity);
        for (let at = 0; at < (runs?.length ?? 0); at += EXPIRY_RUN_BYTES)
          if (runs?.compare(named, 0, 32, at, at + 32) === 0) seqs.push(numberAt(runs, at + 32));
      }
      if (pauses.isOver) await pauses.pause();
    }
    return seqs;
  }

  /**
   * The dedup rows of the oldest time that may be forgotten by `nowMs`: those that are still there and were not
   * renewed. All entries of that time together: once that time is purged, none of its rows is known any more, and a row
   * accepted anew would hide that the old one was counted. When one of the entries or rows is damaged, nobody knows how
   * many rows there are of each sender, so nothing is due until a rebuild has made them anew.
   */
  async dedup(nowMs: number): Promise<DueDedup | undefined> {
    return this.#dedup(nowMs).catch(onlyOf(DamagedRow, this.#note));
  }

  async #dedup(nowMs: number): Promise<DueDedup | undefined> {
    const oldest = await this.#oldestDedup(nowMs);
    if (!oldest) return undefined;
    withoutChecksum(...oldest);
    const dueMs = firstNumberOf(oldest[0]);
    const range = { gte: dueKey(PREFIX.dedupUntil, dueMs, 0), lt: dueKey(PREFIX.dedupUntil, dueMs + 1, 0) };
    const found = await this.#level.iterator(range).all();
    const entries = found.filter(([key]) => key.length === KEY_BYTES[PREFIX.dedupUntil]);
    const gone = new Map<string, Buffer>();
    const senders = new Map<PublicKey, number>();
    for (const entry of entries) {
      const value = withoutChecksum(...entry);
      for (let from = 0; from < value.length; from += DEDUP_RUN_BYTES * DEDUP_ROWS_AT_ONCE) {
        const runs = value.subarray(from, from + DEDUP_RUN_BYTES * DEDUP_ROWS_AT_ONCE);
        await this.#findDue(runs, dueMs, gone, senders);
        await yieldToEventLoop();
      }
    }
    const dedupEntries = entries.map(([key]) => nameOf(key));
    return { dueMs, senders, forgotten: { expiryEntries: [], dedupEntries, dedupRows: [...gone.values()] } };
  }

  /** Adds the rows of these runs that may be forgotten, and how many each sender has of them. */
  async #findDue(
    runs: Buffer,
    dueMs: number,
    gone: Map<string, Buffer>,
    senders: Map<PublicKey, number>,
  ): Promise<void> {
    const starts = Array.from({ length: runs.length / DEDUP_RUN_BYTES }, (_none, at) => at * DEDUP_RUN_BYTES);
    const names = starts.map((at) => runs.subarray(at + 32, at + DEDUP_RUN_BYTES));
    const keys = names.map(dedupKey);
    const values = await this.#level.getMany(keys);
    for (const [position, name] of names.entries()) {
      const [key, value, at] = [keys[position], values[position], starts[position] ?? 0];
      // The key holds hashes of the ids; the deadline is in the value.
      if (!key || !value || decodeRow('dedup', key, value).dedupUntilMs > dueMs) continue;
      const mark = name.toString('hex');
      // A row written twice is due twice.
      if (gone.has(mark)) continue;
      gone.set(mark, name);
      const sender = publicKeyFromBytes(runs.subarray(at, at + 32));
      senders.set(sender, (senders.get(sender) ?? 0) + 1);
    }
  }

  async #oldestDedup(nowMs: number): Promise<Pair | undefined> {
    const lt = dueKey(PREFIX.dedupUntil, nowMs + 1, 0);
    for (let behind = prefixRange(PREFIX.dedupUntil).gte; ; ) {
      const [first] = await this.#level.iterator({ gt: behind, lt, limit: 1 }).all();
      if (!first || first[0].length === KEY_BYTES[PREFIX.dedupUntil]) return first;
      this.#noteStrange(first[0]);
      behind = first[0];
    }
  }

  /** A key of another length is none of the relay's: it is skipped. */
  #noteStrange(key: Buffer): void {
    this.#note(new DamagedRow(key, 'has a key of another length'));
  }

  #wholeOrNoted(key: Buffer, value: Buffer): Buffer | undefined {
    return caught(() => withoutChecksum(key, value), DamagedRow, this.#note);
  }
}

function nameOf(key: Buffer): DueEntryName {
  return { dueMs: firstNumberOf(key), lsn: dueLsnOf(key) };
}

interface DueRun {
  prefix: number;
  dueMs: number;
  parts: Buffer[];
}

export class DueEntries {
  readonly #runs = new Map<string, DueRun>();
  /** Mostly the next one belongs there too, and no text is made to find it. */
  #last: DueRun | undefined;

  add(prefix: number, dueMs: number, ...parts: Buffer[]): void {
    if (this.#last?.dueMs !== dueMs || this.#last.prefix !== prefix) this.#last = this.#run(prefix, dueMs);
    this.#last.parts.push(...parts);
  }

  #run(prefix: number, dueMs: number): DueRun {
    const mark = `${prefix} ${dueMs}`;
    let run = this.#runs.get(mark);
    if (!run) this.#runs.set(mark, (run = { prefix, dueMs, parts: [] }));
    return run;
  }

  *entries(firstLsn: number): Generator<[Buffer, Buffer]> {
    for (const { prefix, dueMs, parts } of this.#runs.values()) {
      const key = dueKey(prefix, dueMs, firstLsn);
      yield [key, withChecksum(key, Buffer.concat(parts))];
    }
  }
}

/** Writes the due entries of one index anew. Their second number tells entries of one time apart, and is no LSN. */
export class DueWriter {
  readonly #database: Pick<BatchWrites, 'put'>;
  readonly #prefix: number;
  readonly #below: number;
  #entries = new DueEntries();
  #rows = 0;
  #written = 0;

  /** `lastLsn`: entries of batches to come carry greater numbers. */
  constructor(database: Pick<BatchWrites, 'put'>, prefix: number, lastLsn: number) {
    this.#database = database;
    this.#prefix = prefix;
    this.#below = lastLsn;
  }

  add(dueMs: number, ...run: Buffer[]): void {
    this.#entries.add(this.#prefix, dueMs, ...run);
    if (++this.#rows >= DUE_ROWS) this.write();
  }

  write(): void {
    if (this.#rows === 0) return;
    if (this.#written > this.#below) throw new Error('invariant: fewer due entries of a time than log records');
    for (const [key, value] of this.#entries.entries(this.#written++)) this.#database.put(key, value);
    this.#entries = new DueEntries();
    this.#rows = 0;
  }
}

/** Lets other work of the event loop run. */
export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** A time slice of the event loop. */
interface Pauses {
  readonly isOver: boolean;
  pause(): Promise<void>;
}

/** Says whether the state of the queue alone shows that the item is gone. */
type IsGone = (target: PublicKey, seq: number) => boolean;

interface Place {
  key: Buffer;
  /** The place of the next run in that entry. */
  at: number;
}

/**
 * Finds the waiting item that expires first: the oldest one, as long as the retention stays the same.
 *
 * Entries also name items that are long gone. The search skips each of them once: what is gone never comes back at a
 * place that was passed, unless the clock was set back (`added`).
 */
export class OldestItem {
  readonly #level: Level;
  readonly #read: (target: PublicKey, seq: number) => Promise<QueueRow | undefined>;
  /** Everything before it is gone. */
  #place: Place = { key: prefixRange(PREFIX.expiry).gte, at: 0 };
  /** The earliest time that was added while a search was under way. */
  #addedMs = Number.POSITIVE_INFINITY;

  /** `read`: the row of an item; `undefined` when it is gone or cannot be read. */
  constructor(level: Level, read: (target: PublicKey, seq: number) => Promise<QueueRow | undefined>) {
    this.#level = level;
    this.#read = read;
  }

  /** To be called when an item that expires then is durable. */
  added(expiresAtMs: number): void {
    if (expiresAtMs < this.#addedMs) this.#addedMs = expiresAtMs;
  }

  /** `undefined` when nothing waits, or when `signal` aborts. One search at a time. */
  async find(isGone: IsGone, pauses: Pauses, signal?: AbortSignal): Promise<QueueRow | undefined> {
    this.#goBack();
    const range = { gte: this.#place.key, lt: prefixRange(PREFIX.expiry).lt };
    try {
      for await (const entries of runsOf(this.#level, range, SEARCH_RUN)) {
        for (const [key, value] of entries) {
          // An entry that cannot be read is skipped here: the sweep reports it.
          const runs = verifiedBytes(key, value) ?? NO_RUNS;
          const start = key.equals(this.#place.key) ? this.#place.at : 0;
          for (let at = start; at < runs.length; at += EXPIRY_RUN_BYTES) {
            this.#place = { key, at };
            const row = await this.#waiting(runs.subarray(at, at + EXPIRY_RUN_BYTES), isGone);
            if (row) return row;
            if (!pauses.isOver) continue;
            await pauses.pause();
            if (signal?.aborted) return undefined;
          }
          this.#place = { key, at: runs.length };
        }
      }
      return undefined;
    } finally {
      this.#goBack();
    }
  }

  #waiting(run: Buffer, isGone: IsGone): Promise<QueueRow | undefined> | undefined {
    const target = publicKeyFromBytes(run.subarray(0, 32));
    const seq = numberAt(run, 32);
    return isGone(target, seq) ? undefined : this.#read(target, seq);
  }

  /** To what was added before the place: items are added behind it, unless the clock was set back. */
  #goBack(): void {
    const from = dueKey(PREFIX.expiry, Math.min(this.#addedMs, Number.MAX_SAFE_INTEGER), 0);
    if (Buffer.compare(from, this.#place.key) < 0) this.#place = { key: from, at: 0 };
    this.#addedMs = Number.POSITIVE_INFINITY;
  }
}
