/**
 * Holds the wire bytes that go into a backup against the hashes that were accepted, and its rows against their
 * checksums, while they pass by.
 *
 * The pairs of a store ascend, so its queue rows come before all wire bytes. A second walk over the rows keeps step
 * with the bytes; only rows whose bytes lie under another key, which a rotation moved, are kept in memory.
 */
import { hasHash } from '../../protocol/encodings.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { type QueueRow, isMoved } from '../core/rows.ts';
import type { Pair } from '../../lib/pair-block.ts';
import { placedWires, readableRowsOf, wirePlaceOf } from './item-run.ts';
import { PREFIX, firstKeyOf, prefixRange } from './keys.ts';
import type { Level, LevelSnapshot } from './level.ts';
import { MARK_PREFIXES, isRowKey, verifiedBytes } from './checksum.ts';
import { readableRow } from './scan.ts';

const ROWS_AT_ONCE = 200;
const READ_BYTES = 128 << 10;
/** Damaged items that are named; more are counted. */
const NAMED_MAX = 10_000;

/** The damage in what waits. */
export interface WireDamage {
  /** Items whose wire bytes are missing or altered. */
  items: number;
  /** The places in which they are queued, the first 10,000 of them. */
  places: Pick<QueueRow, 'targetPubkey' | 'seq'>[];
  /** Rows that are damaged: a restore refuses a backup that holds one. */
  unreadable: number;
}

export class WireCheck {
  readonly #damage: WireDamage = { items: 0, places: [], unreadable: 0 };
  readonly #ackedThrough = new Map<PublicKey, number>();
  /** Waiting rows whose bytes lie elsewhere, by the key of those. */
  readonly #moved = new Map<string, QueueRow>();
  readonly #rows: AsyncGenerator<QueueRow>;
  /** The next of `#rows`, when it was looked at and its bytes have not come by. */
  #next: QueueRow | undefined;

  /** `snapshot` is that of which the pairs are. */
  constructor(level: Level, snapshot?: LevelSnapshot) {
    this.#rows = this.#unmoved(level, snapshot);
  }

  /** Must be given all pairs, in their order. */
  async pass(run: readonly (readonly [key: Buffer, value: Buffer])[]): Promise<void> {
    for (const [key, value] of run) {
      if (key[0] === PREFIX.target) this.#noteTarget(key, value);
      else if (key[0] === PREFIX.queue) this.#noteRows([key, value]);
      else if (key[0] === PREFIX.payload) for (const placed of placedWires([key, value])) await this.#compare(placed);
      else if (isRowKey(key) && !MARK_PREFIXES.has(key[0]) && !verifiedBytes(key, value)) this.#damage.unreadable++;
    }
  }

  /** Returns what was found, when everything has passed. */
  async end(): Promise<WireDamage> {
    while (await this.#peek()) this.#lose(this.#take());
    for (const row of this.#moved.values()) this.#lose(row);
    return this.#damage;
  }

  /** To be called whether all of it has passed or not. */
  async close(): Promise<void> {
    await this.#rows.return(undefined);
  }

  #noteTarget(key: Buffer, value: Buffer): void {
    const row = readableRow('target', key, value);
    if (row) this.#ackedThrough.set(firstKeyOf(key), row.ackedThrough);
    else this.#damage.unreadable++;
  }

  #noteRows(pair: Pair): void {
    const rows = readableRowsOf(pair);
    if (!rows) this.#damage.unreadable++;
    for (const row of rows ?? []) if (isMoved(row) && this.#waits(row)) this.#moved.set(markOf(wirePlaceOf(row)), row);
  }

  async #compare([key, wire]: Pair): Promise<void> {
    const moved = this.#moved.size > 0 && this.#moved.get(markOf(key));
    if (moved) {
      this.#moved.delete(markOf(key));
      if (!hasHash(wire, moved.wireHash)) this.#lose(moved);
      return;
    }
    for (;;) {
      const row = await this.#peek();
      const order = row ? Buffer.compare(wirePlaceOf(row), key) : 1;
      // Bytes that no waiting row names.
      if (order > 0) return;
      this.#take();
      if (row && (order < 0 || !hasHash(wire, row.wireHash))) this.#lose(row);
      if (order === 0) return;
    }
  }

  async #peek(): Promise<QueueRow | undefined> {
    if (!this.#next) {
      const next = await this.#rows.next();
      this.#next = next.done ? undefined : next.value;
    }
    return this.#next;
  }

  #take(): QueueRow | undefined {
    const row = this.#next;
    this.#next = undefined;
    return row;
  }

  #lose(row: QueueRow | undefined): void {
    if (!row) return;
    const { items, places } = this.#damage;
    this.#damage.items = items + 1;
    if (places.length < NAMED_MAX) places.push({ targetPubkey: row.targetPubkey, seq: row.seq });
  }

  /** Acked rows lie there until they are collected, with their bytes or without. */
  #waits({ targetPubkey, seq }: QueueRow): boolean {
    return seq > (this.#ackedThrough.get(targetPubkey) ?? 0);
  }

  /** The waiting rows whose bytes lie under their own key. Begun when the targets have passed. */
  async *#unmoved(level: Level, snapshot: LevelSnapshot | undefined): AsyncGenerator<QueueRow> {
    const range = { ...prefixRange(PREFIX.queue), fillCache: false, highWaterMarkBytes: READ_BYTES };
    const iterator = level.iterator({ ...range, ...(snapshot && { snapshot }) });
    try {
      for (;;) {
        const run = await iterator.nextv(ROWS_AT_ONCE);
        if (run.length === 0) return;
        for (const pair of run)
          for (const row of readableRowsOf(pair) ?? []) if (!isMoved(row) && this.#waits(row)) yield row;
      }
    } finally {
      await iterator.close();
    }
  }
}

function markOf(key: Buffer): string {
  return key.toString('latin1');
}
