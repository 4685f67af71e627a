/**
 * Gives back the space of acked items, a slice at a time.
 *
 * An ack moves `ackedThrough` and nothing else, so that it costs the same for one item and for ten thousand. The rows
 * it left behind and their wire bytes are deleted here, beside other commits. How far a queue
 * is collected is stored with each slice, so that no scan begins among the tombstones of earlier ones.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import { PREFIX, collectedKey, firstKeyOf, prefixRange, queueKey, seqOf } from './keys.ts';
import type { Pair } from '../../lib/pair-block.ts';
import type { Level } from './level.ts';
import { verifiedBytes, withChecksum } from './checksum.ts';
import { readableRow, runsOf } from './scan.ts';
import type { QueueRow, RowChange } from '../core/rows.ts';

export const COLLECTED_ROWS_MAX = 500;
const SLICE_BYTES = 1 << 20;

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
}

export class Collector {
  readonly #level: Level;
  /** The seq through which each queue may be collected, for queues that are not yet. */
  readonly #pending = new Map<PublicKey, number>();
  readonly #collected = new Map<PublicKey, number>();
  /** Says whether a queue without a number above has no mark. */
  #hasMarks = false;
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

  /** Reads the marks of all queues at once, which costs less than one by one. To be called before anything else. */
  async loadMarks(): Promise<void> {
    for await (const run of runsOf(this.#level, prefixRange(PREFIX.collected)))
      for (const [key, stored] of run) this.#collected.set(firstKeyOf(key), markedThrough(key, stored));
    this.#hasMarks = true;
  }

  /** To be called when it is durable that the rows of `target` up to `ackedThrough` are acked. */
  note(target: PublicKey, ackedThrough: number): void {
    if (ackedThrough > this.#collectedThrough(target)) this.#pending.set(target, ackedThrough);
  }

  /** Notes the acks of a batch. No sooner: a page would lack rows that went before their ack was published. */
  published(changes: readonly RowChange[]): void {
    for (const { table, key, row } of changes)
      if (table === 'target' && row) this.note(key as PublicKey, row.ackedThrough);
  }

  /** The next slice, to be deleted in one batch, and reported to `committed` before the slice after it is asked for. */
  async nextSlice(): Promise<CollectedSlice | undefined> {
    const next = this.#pending.entries().next();
    if (next.done) return undefined;
    const [targetPubkey, ackedThrough] = next.value;
    const range = {
      gt: queueKey(targetPubkey, this.#collectedThrough(targetPubkey)),
      lte: queueKey(targetPubkey, ackedThrough),
      limit: COLLECTED_ROWS_MAX,
    };
    const items: CollectedSlice['items'] = [];
    let bytes = 0;
    for await (const run of runsOf(this.#level, range, { pairs: COLLECTED_ROWS_MAX, bytes: SLICE_BYTES })) {
      for (const [key, value] of run) {
        // A row that cannot be read was acked like the others; its bytes are where it was accepted, as a rule.
        const row = readableRow('queue', key, value);
        const seq = seqOf(key);
        bytes += row?.bytes ?? 0;
        items.push({ seq, payloadTarget: row?.payloadTarget ?? targetPubkey, payloadSeq: row?.payloadSeq ?? seq });
      }
    }
    const last = items.at(-1);
    const through = last && items.length === COLLECTED_ROWS_MAX ? last.seq : ackedThrough;
    return { targetPubkey, items, through, bytes };
  }

  /** To be called once the database shows the rows of a slice no more. */
  committed({ targetPubkey, through, bytes = 0 }: CollectedSlice): void {
    this.#collectedBytes += bytes;
    this.#collected.set(targetPubkey, through);
    const ackedThrough = this.#pending.get(targetPubkey) ?? 0;
    // Queues take turns: one with more to collect goes to the end of the line.
    this.#pending.delete(targetPubkey);
    if (ackedThrough > through) this.#pending.set(targetPubkey, ackedThrough);
  }

  #collectedThrough(target: PublicKey): number {
    const known = this.#collected.get(target);
    if (known !== undefined || this.#hasMarks) return known ?? 0;
    const key = collectedKey(target);
    const stored = this.#level.getSync(key);
    const through = stored ? markedThrough(key, stored) : 0;
    this.#collected.set(target, through);
    return through;
  }
}

/** A damaged mark is ignored: the next slice begins at the start of the queue, and writes the mark anew. */
function markedThrough(key: Buffer, stored: Buffer): number {
  const mark = verifiedBytes(key, stored);
  return mark ? Number(mark.readBigUInt64BE(0)) : 0;
}

/** The mark that every queue row of `target` up to `through` is collected. */
export function collectedMark(target: PublicKey, through: number): Pair {
  const key = collectedKey(target);
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(through));
  return [key, withChecksum(key, bytes)];
}
