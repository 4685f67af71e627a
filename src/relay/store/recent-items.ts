/**
 * The items that became durable last, in memory: their rows and wire bytes, so that a host which pulls soon after a push
 * waits for no look-up, and nothing is decoded, hashed or read anew. These bytes were compared with their hash when they
 * came, and have not been on a disk since.
 *
 * Invariants:
 *   - of a queue that is here, every durable row above its floor is here;
 *   - nothing is here before it is durable;
 *   - all together they hold no more than `bytesMax`.
 */
import { PUBLIC_KEY_CHARACTERS, type PublicKey } from '../../protocol/public-key.ts';
import { type QueueRow, type RowChange, rowKey } from '../core/rows.ts';
import type { Payload } from './durable-log.ts';

/** 5,000 items of 1 KiB, about. */
const RECENT_BYTES_MAX = 8 << 20;
/** A row and what holds it, and a queue without any, about. */
const ROW_BYTES = 600;
const QUEUE_BYTES = 300;

interface RecentItem {
  row: QueueRow;
  wire: Buffer;
}

interface RecentQueue {
  /** The seq above which nothing is missing. */
  floor: number;
  /** By seq. */
  items: RecentItem[];
}

/** What became durable together. */
interface DurableBatch {
  changes: Iterable<RowChange>;
  payloads: readonly Payload[];
}

/** The head that each queue had before a batch. */
export type HeadsBefore = ReadonlyMap<PublicKey, number>;

export class RecentItems {
  readonly #bytesMax: number;
  /** The one that was pushed to last is the last. */
  readonly #queues = new Map<PublicKey, RecentQueue>();
  #bytes = 0;

  constructor(bytesMax: number = RECENT_BYTES_MAX) {
    this.#bytesMax = bytesMax;
  }

  /** To be called before the batch is written. `headOf` reads the head that the batches before it left. */
  headsBefore(payloads: readonly Payload[], headOf: (target: PublicKey) => number): HeadsBefore {
    const heads = new Map<PublicKey, number>();
    for (const { targetPubkey: target } of payloads)
      if (!heads.has(target) && !this.#queues.has(target)) heads.set(target, headOf(target));
    return heads;
  }

  /** To be called for each batch, in their order, when it is durable. `heads` is what `headsBefore` returned. */
  durable({ changes, payloads }: DurableBatch, heads: HeadsBefore): void {
    const wires = new Map(payloads.map(({ targetPubkey, seq, wire }) => [rowKey.queue(targetPubkey, seq), wire]));
    for (const change of changes) {
      if (change.table === 'target') this.#ackedThrough(change.key as PublicKey, change.row?.ackedThrough ?? Infinity);
      if (change.table !== 'queue') continue;
      if (change.row) this.#added(change.row, wires.get(change.key), heads);
      else this.#removed(change.key);
    }
    this.#makeRoom();
  }

  /** Durable rows with `after` < seq <= `through`, ascending, at most `limit`; `undefined` when some may not be here. */
  rows(target: PublicKey, after: number, through: number, limit: number): QueueRow[] | undefined {
    const queue = this.#queues.get(target);
    if (!queue || after < queue.floor) return undefined;
    const from = placeOf(queue.items, after + 1);
    const rows: QueueRow[] = [];
    for (let at = from; rows.length < limit; at++) {
      const row = queue.items[at]?.row;
      if (!row || row.seq > through) break;
      rows.push(row);
    }
    return rows;
  }

  /** The wire bytes of rows of one queue, which are in order; `undefined` when some are not here. */
  wires(rows: readonly QueueRow[]): Buffer[] | undefined {
    const [first] = rows;
    const items = first && this.#queues.get(first.targetPubkey)?.items;
    if (!items) return undefined;
    const wires: Buffer[] = [];
    let at = placeOf(items, first.seq);
    for (const { seq, targetPubkey, wireHash } of rows) {
      const item = items[at++];
      const isIt = item?.row.seq === seq && item.row.targetPubkey === targetPubkey && item.row.wireHash === wireHash;
      if (!isIt) return undefined;
      wires.push(item.wire);
    }
    return wires;
  }

  #added(row: QueueRow, wire: Buffer | undefined, heads: HeadsBefore): void {
    const { targetPubkey: target, seq } = row;
    const known = this.#queues.get(target);
    const queue = known ?? { floor: heads.get(target) ?? seq - 1, items: [] };
    if (!known) this.#bytes += QUEUE_BYTES;
    const last = queue.items.at(-1)?.row.seq ?? queue.floor;
    if (wire && seq > last) {
      queue.items.push({ row, wire });
      this.#bytes += bytesOf(row);
    } else {
      // A rotation moves rows and leaves their bytes, which are read from where they lie.
      queue.floor = Math.max(last, seq);
      this.#drop(queue.items, 0, queue.items.length);
    }
    this.#queues.delete(target);
    this.#queues.set(target, queue);
  }

  #removed(key: string): void {
    const items = this.#queues.get(key.slice(0, PUBLIC_KEY_CHARACTERS) as PublicKey)?.items;
    if (!items) return;
    const seq = Number(key.slice(PUBLIC_KEY_CHARACTERS));
    const at = placeOf(items, seq);
    if (items[at]?.row.seq === seq) this.#drop(items, at, 1);
  }

  #ackedThrough(target: PublicKey, through: number): void {
    const items = this.#queues.get(target)?.items;
    if (items) this.#drop(items, 0, placeOf(items, through + 1));
  }

  #makeRoom(): void {
    for (const [target, queue] of this.#queues) {
      while (this.#bytes > this.#bytesMax) {
        const [oldest] = queue.items;
        if (!oldest) break;
        queue.floor = oldest.row.seq;
        this.#drop(queue.items, 0, 1);
      }
      if (this.#bytes <= this.#bytesMax) return;
      this.#queues.delete(target);
      this.#bytes -= QUEUE_BYTES;
    }
  }

  #drop(items: RecentItem[], at: number, count: number): void {
    for (const { row } of items.splice(at, count)) this.#bytes -= bytesOf(row);
  }
}

function bytesOf({ bytes }: QueueRow): number {
  return bytes + ROW_BYTES;
}

/** Where the first item with at least this seq is. */
function placeOf(items: readonly RecentItem[], seq: number): number {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((items[middle]?.row.seq ?? Infinity) < seq) low = middle + 1;
    else high = middle;
  }
  return low;
}
