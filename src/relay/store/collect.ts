/**
 * Gives back the space of acked items, a slice at a time.
 *
 * An ack moves `ackedThrough` and nothing else, so that it costs the same for one item and for ten thousand. The rows
 * it left behind and their wire bytes are deleted here, beside other commits. How far a queue
 * is collected is stored with each slice, so that no scan begins among the tombstones of earlier ones.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import { collectedKey, payloadKey, queueKey, seqOf } from './keys.ts';
import type { Level } from './level.ts';
import { readableQueueRow } from './waiting-rows.ts';

/** Queue rows a slice deletes at most. */
export const COLLECTED_ROWS_MAX = 500;
const SLICE_BYTES = 1 << 20;

export interface CollectedSlice {
  targetPubkey: PublicKey;
  /** Keys to delete. */
  keys: Buffer[];
  /** Every queue row up to here is gone when the slice is committed. */
  through: number;
}

export class Collector {
  readonly #level: Level;
  /** How far each queue may be collected, for queues that are not yet. */
  readonly #pending = new Map<PublicKey, number>();
  readonly #collected = new Map<PublicKey, number>();

  constructor(level: Level) {
    this.#level = level;
  }

  get isPending(): boolean {
    return this.#pending.size > 0;
  }

  /** Tells that the rows of `target` up to `ackedThrough` are gone, durably. */
  note(target: PublicKey, ackedThrough: number): void {
    if (ackedThrough > this.#collectedThrough(target)) this.#pending.set(target, ackedThrough);
  }

  /** The next slice, to be deleted in one batch and then reported to `committed`. */
  async nextSlice(): Promise<CollectedSlice | undefined> {
    const next = this.#pending.entries().next();
    if (next.done) return undefined;
    const [targetPubkey, ackedThrough] = next.value;
    const iterator = this.#level.iterator({
      gt: queueKey(targetPubkey, this.#collectedThrough(targetPubkey)),
      lte: queueKey(targetPubkey, ackedThrough),
      limit: COLLECTED_ROWS_MAX,
      highWaterMarkBytes: SLICE_BYTES,
      fillCache: false,
    });
    const keys: Buffer[] = [];
    let through = ackedThrough;
    let rows = 0;
    try {
      for (;;) {
        const run = await iterator.nextv(COLLECTED_ROWS_MAX);
        if (run.length === 0) break;
        for (const [key, value] of run) {
          // What a row that cannot be read said was acked like the others; its bytes are where it was accepted, as a rule.
          const row = readableQueueRow(key, value);
          keys.push(key, payloadKey(row?.payloadTarget ?? targetPubkey, row?.payloadSeq ?? seqOf(key)));
          if (++rows === COLLECTED_ROWS_MAX) through = seqOf(key);
        }
      }
    } finally {
      await iterator.close();
    }
    return { targetPubkey, keys, through };
  }

  /** Tells that a slice is durable. */
  committed({ targetPubkey, through }: CollectedSlice): void {
    this.#collected.set(targetPubkey, through);
    const ackedThrough = this.#pending.get(targetPubkey) ?? 0;
    // Queues take turns: one with more to collect goes to the end of the line.
    this.#pending.delete(targetPubkey);
    if (ackedThrough > through) this.#pending.set(targetPubkey, ackedThrough);
  }

  #collectedThrough(target: PublicKey): number {
    const known = this.#collected.get(target);
    if (known !== undefined) return known;
    const stored = this.#level.getSync(collectedKey(target));
    const through = stored ? Number(stored.readBigUInt64BE(0)) : 0;
    this.#collected.set(target, through);
    return through;
  }
}
