/**
 * Finds the waiting item that expires first: the oldest one, as long as the retention stays the same.
 *
 * The index of what expires is in order of time, and names items that are long gone as well. Those are passed over once:
 * what is gone never comes back at a place that was passed, unless the clock was set back (`added`).
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import { publicKeyFromBytes } from '../../protocol/public-key.ts';
import type { QueueRow } from '../core/rows.ts';
import { PREFIX, dueKey, prefixRange, queueKey, queueRowKey } from './keys.ts';
import type { Level } from './level.ts';
import { decodeRow } from './row-codec.ts';

/** A target key and a sequence number (keys.ts, 42). */
const RUN_BYTES = 40;
const ENTRIES_AT_ONCE = 100;
const READ_BYTES = 256 << 10;

/** Lets others have their turn. */
export interface Pauses {
  readonly isOver: boolean;
  pause(): Promise<void>;
}

/** Whether what lay there is gone by the state of its queue alone. */
type IsGone = (target: PublicKey, seq: number) => boolean;

interface Place {
  key: Buffer;
  /** Of the next run in that entry. */
  at: number;
}

export class OldestItem {
  readonly #level: Level;
  /** Everything before it is gone. */
  #place: Place = { key: prefixRange(PREFIX.expiry).gte, at: 0 };
  /** The earliest time that was added while a search was under way. */
  #addedMs = Number.POSITIVE_INFINITY;

  constructor(level: Level) {
    this.#level = level;
  }

  /** Tells that an item that expires then is durable. */
  added(expiresAtMs: number): void {
    if (expiresAtMs < this.#addedMs) this.#addedMs = expiresAtMs;
  }

  /** `undefined` when nothing waits, or when `goesOn` said no. One search at a time. */
  async find(isGone: IsGone, pauses: Pauses, goesOn: () => boolean): Promise<QueueRow | undefined> {
    this.#goBack();
    const iterator = this.#level.iterator({
      gte: this.#place.key,
      lt: prefixRange(PREFIX.expiry).lt,
      fillCache: false,
      highWaterMarkBytes: READ_BYTES,
    });
    try {
      for (;;) {
        const entries = await iterator.nextv(ENTRIES_AT_ONCE);
        if (entries.length === 0) return undefined;
        for (const [key, runs] of entries) {
          const start = key.equals(this.#place.key) ? this.#place.at : 0;
          for (let at = start; at < runs.length; at += RUN_BYTES) {
            this.#place = { key, at };
            const row = this.#waiting(runs.subarray(at, at + RUN_BYTES), isGone);
            if (row) return row;
            if (!pauses.isOver) continue;
            await pauses.pause();
            if (!goesOn()) return undefined;
          }
          this.#place = { key, at: runs.length };
        }
      }
    } finally {
      await iterator.close();
      this.#goBack();
    }
  }

  #waiting(run: Buffer, isGone: IsGone): QueueRow | undefined {
    const target = publicKeyFromBytes(run.subarray(0, 32));
    const seq = Number(run.readBigUInt64BE(32));
    if (isGone(target, seq)) return undefined;
    const key = queueKey(target, seq);
    const value = this.#level.getSync(key, { fillCache: false });
    return value && decodeRow('queue', queueRowKey(key), value);
  }

  /** To what was added before the place: items are added behind it, unless the clock was set back. */
  #goBack(): void {
    const from = dueKey(PREFIX.expiry, Math.min(this.#addedMs, Number.MAX_SAFE_INTEGER), 0);
    if (Buffer.compare(from, this.#place.key) < 0) this.#place = { key: from, at: 0 };
    this.#addedMs = Number.POSITIVE_INFINITY;
  }
}
