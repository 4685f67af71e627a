/**
 * Gives back the space of acked items, a slice at a time.
 *
 * An ack moves `ackedThrough` and nothing else, so that it costs the same for one item and for ten thousand. The rows
 * it left behind and their wire bytes are deleted here, beside other commits. How far a queue is collected is stored
 * with each slice, so that no scan begins among the tombstones of earlier ones.
 *
 * Whole runs go at once. A run that an ack cut is written anew without its acked rows when these have half of its bytes
 * or more, so that all rewrites of a run together write less than twice the run; or when its queue was not acked for
 * ten minutes. Until then it waits here, and the mark of the queue stands before it.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import { PREFIX, collectedKey, firstKeyOf, numberAt, numberBytes, prefixRange, queueBehind, seqOf } from './keys.ts';
import type { Pair } from '../../lib/pair-block.ts';
import type { Level } from './level.ts';
import { verifiedBytes, withChecksum } from './checksum.ts';
import { readableRowsOf } from './item-run.ts';
import { runsOf } from './scan.ts';
import type { QueueRow, RowChange } from '../core/rows.ts';

/** Rows of a slice, about: it ends with a run. */
export const COLLECTED_ROWS_MAX = 500;
/** Rows that are read together, about: some runs. */
const READ_BYTES = 64 << 10;
/** Runs that are read together; a row alone is one. */
const RUNS_AT_ONCE = 128;
const ROW_BYTES = 124;
export const CUT_RUN_WAITS_MS = 10 * 60_000;

export interface CollectedSlice {
  targetPubkey: PublicKey;
  /** The rows to delete, and where the wire bytes of each lie. */
  items: Pick<QueueRow, 'seq' | 'payloadTarget' | 'payloadSeq'>[];
  /** Every queue row up to here is gone when the slice is committed. */
  through: number;
  /**
   * The size of their wire bytes, as far as the rows could be read; absent where another relay of a shared log
   * collected.
   */
  bytes?: number;
  /** The stored pairs with these rows, as they were read; of this node alone. */
  pairs?: Pair[];
  /** Further rows up to there, which this node alone has. */
  further?: number[];
}

export class Collector {
  readonly #level: Level;
  /** The seq through which each queue may be collected, for queues that are not yet. */
  readonly #pending = new Map<PublicKey, number>();
  /** By the marks: how far each queue is collected. */
  readonly #collected = new Map<PublicKey, number>();
  /** The queues whose next run is cut by their ack, and since when they were seen to wait. */
  readonly #cut = new Map<PublicKey, { ackedThrough: number; sinceMs: number | undefined }>();
  /** Those that have waited long enough. */
  readonly #due = new Set<PublicKey>();
  #collectedBytes = 0;

  constructor(level: Level) {
    this.#level = level;
  }

  get isPending(): boolean {
    return this.#pending.size > 0;
  }

  /** Wire bytes that were deleted since the start: of what was acked, and of what expired or was lost. */
  get collectedBytes(): number {
    return this.#collectedBytes;
  }

  /** To be called with the wire bytes that an event deletes with their queue row. */
  dropped(bytes: number): void {
    this.#collectedBytes += bytes;
  }

  /** Reads the marks of all queues. To be called before anything else: a queue without a mark was never collected. */
  async loadMarks(): Promise<void> {
    for await (const run of runsOf(this.#level, prefixRange(PREFIX.collected)))
      for (const [key, stored] of run) this.#collected.set(firstKeyOf(key), markedThrough(key, stored));
  }

  /** To be called when it is durable that the rows of `target` up to `ackedThrough` are acked. */
  note(target: PublicKey, ackedThrough: number): void {
    if (ackedThrough <= this.#collectedThrough(target) || this.#cut.get(target)?.ackedThrough === ackedThrough) return;
    this.#cut.delete(target);
    this.#pending.set(target, ackedThrough);
  }

  /** To be called now and then, with milliseconds that never go back: runs that waited long enough are collected. */
  wake(monotonicMs: number): void {
    for (const [target, cut] of this.#cut) {
      cut.sinceMs ??= monotonicMs;
      if (monotonicMs - cut.sinceMs < CUT_RUN_WAITS_MS) continue;
      this.#cut.delete(target);
      this.#due.add(target);
      this.#pending.set(target, cut.ackedThrough);
    }
  }

  /** Notes the acks of a batch. No sooner: a page would lack rows that went before their ack was published. */
  published(changes: readonly RowChange[]): void {
    for (const { table, key, row } of changes)
      if (table === 'target' && row) this.note(key as PublicKey, row.ackedThrough);
  }

  /** The next slice, to be deleted in one batch, and reported to `committed` before the slice after it is asked for. */
  async nextSlice(): Promise<CollectedSlice | undefined> {
    for (const [target, ackedThrough] of this.#pending) {
      const slice = await this.#sliceOf(target, ackedThrough);
      if (slice.through > this.#collectedThrough(target)) return slice;
      this.#pending.delete(target);
    }
    return undefined;
  }

  async #sliceOf(targetPubkey: PublicKey, ackedThrough: number): Promise<CollectedSlice> {
    const slice = { targetPubkey, items: [] as CollectedSlice['items'], bytes: 0, pairs: [] as Pair[] };
    let through = this.#collectedThrough(targetPubkey);
    for await (const pairs of this.#runsAfter(targetPubkey, through)) {
      for (const pair of pairs) {
        const bound = seqOf(pair[0]);
        const rows = readableRowsOf(pair);
        const acked = rows?.filter(({ seq }) => seq <= ackedThrough);
        if (bound > ackedThrough && !acked?.length) return { ...slice, through: ackedThrough };
        if (bound > ackedThrough && !this.#due.has(targetPubkey) && !isHalf(acked ?? [], rows ?? [])) {
          this.#cut.set(targetPubkey, { ackedThrough, sinceMs: undefined });
          return { ...slice, through };
        }
        // Rows that cannot be read were acked like the others; the bytes are where they were accepted, as a rule.
        slice.items.push(...(acked ?? [{ seq: bound, payloadTarget: targetPubkey, payloadSeq: bound }]));
        for (const { bytes } of acked ?? []) slice.bytes += bytes;
        slice.pairs.push(pair);
        through = Math.min(bound, ackedThrough);
        if (slice.items.length >= COLLECTED_ROWS_MAX || through === ackedThrough) return { ...slice, through };
      }
    }
    return { ...slice, through: ackedThrough };
  }

  /**
   * The slice that another relay of a shared log collected, with all that this one has up to its end: that relay may
   * have lost rows, or been unable to read them, and nobody comes by them again.
   */
  async received(slice: CollectedSlice): Promise<CollectedSlice> {
    const { targetPubkey, items, through } = slice;
    const named = new Set(items.map(({ seq }) => seq));
    const received = { ...slice, pairs: [] as Pair[], further: [] as number[] };
    const after = this.#collectedThrough(targetPubkey);
    for await (const pairs of this.#runsAfter(targetPubkey, after)) {
      for (const pair of pairs) {
        const bound = seqOf(pair[0]);
        const rows = readableRowsOf(pair) ?? [{ seq: bound }];
        if ((rows[0]?.seq ?? bound) > through) return received;
        received.pairs.push(pair);
        for (const { seq } of rows) if (seq <= through && !named.has(seq)) received.further.push(seq);
        if (bound >= through) return received;
      }
    }
    return received;
  }

  #runsAfter(target: PublicKey, seq: number): AsyncGenerator<Pair[]> {
    return runsOf(this.#level, queueBehind(target, seq), { pairs: RUNS_AT_ONCE, bytes: READ_BYTES });
  }

  /** To be called once the database shows the rows of a slice no more. */
  committed({ targetPubkey, through, bytes = 0 }: CollectedSlice): void {
    this.#collectedBytes += bytes;
    this.#collected.set(targetPubkey, through);
    const ackedThrough = this.#pending.get(targetPubkey) ?? 0;
    // Queues take turns: one with more to collect goes to the end of the line.
    this.#pending.delete(targetPubkey);
    if (ackedThrough <= through) this.#due.delete(targetPubkey);
    else if (this.#cut.get(targetPubkey)?.ackedThrough !== ackedThrough) this.#pending.set(targetPubkey, ackedThrough);
  }

  #collectedThrough(target: PublicKey): number {
    return this.#collected.get(target) ?? 0;
  }
}

/** Says whether the acked rows of a run have half of its bytes. */
function isHalf(acked: readonly QueueRow[], rows: readonly QueueRow[]): boolean {
  return 2 * bytesOf(acked) >= bytesOf(rows);
}

/** About: a row has some hundred bytes besides its wire bytes. */
function bytesOf(rows: readonly QueueRow[]): number {
  return rows.reduce((sum, { bytes }) => sum + bytes + ROW_BYTES, 0);
}

/** A damaged mark is ignored: the next slice begins at the start of the queue, and writes the mark anew. */
function markedThrough(key: Buffer, stored: Buffer): number {
  const mark = verifiedBytes(key, stored);
  return mark ? numberAt(mark, 0) : 0;
}

/** The mark that every queue row of `target` up to `through` is collected. */
export function collectedMark(target: PublicKey, through: number): Pair {
  const key = collectedKey(target);
  return [key, withChecksum(key, numberBytes(through))];
}
