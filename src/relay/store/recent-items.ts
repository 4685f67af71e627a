/**
 * The items that became durable last, in memory: their rows and wire bytes, so that a host which pulls soon after a push
 * waits for no look-up, and nothing is decoded, hashed or read anew. These bytes were compared with their hash when they
 * came, and have not been on a disk since. They are copied into one ring of memory: kept as they came, each would be
 * memory outside of V8's heap that waits for a full collection.
 *
 * Invariants:
 *   - of a queue that is here, every durable row above its floor is here;
 *   - nothing is here before it is durable;
 *   - items and queues have their most; the items that came first go first, and the queue that was pushed to the longest ago.
 */
import { PUBLIC_KEY_CHARACTERS, type PublicKey } from '../../protocol/public-key.ts';
import { type QueueRow, type RowChange, rowKey } from '../core/rows.ts';
import type { Payload } from './durable-log.ts';

/** Each is room for a page of items of 8 KiB, and for several of smaller ones. */
const LIMITS = { bytesMax: 4 << 20, itemsMax: 4000, queuesMax: 10_000 };

interface RecentItem {
  row: QueueRow;
  queue: RecentQueue;
  /** Where its bytes are, counted from the first that was ever put in. */
  at: number;
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
  readonly #limits: typeof LIMITS;
  /** The one that was pushed to last is the last. */
  readonly #queues = new Map<PublicKey, RecentQueue>();
  /** As they came. Those that were acked or removed stay until it is their turn. */
  readonly #order: RecentItem[] = [];
  #ring = Buffer.alloc(0);
  /** How many bytes were ever put in. */
  #end = 0;

  constructor(limits: Partial<typeof LIMITS> = {}) {
    this.#limits = { ...LIMITS, ...limits };
  }

  /**
   * To be called before the batch is written. `headOf` reads the head that the batches before it left, where it can: above
   * an unknown head only what comes behind the batch's first item is known to be here.
   */
  headsBefore(payloads: readonly Payload[], headOf: (target: PublicKey) => number | undefined): HeadsBefore {
    const heads = new Map<PublicKey, number>();
    for (const { targetPubkey: target } of payloads) {
      const head = heads.has(target) || this.#queues.has(target) ? undefined : headOf(target);
      if (head !== undefined) heads.set(target, head);
    }
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
    // Behind the whole batch: a queue that went in its middle and came back would lack what came before.
    for (const target of this.#queues.keys()) {
      if (this.#queues.size <= this.#limits.queuesMax) break;
      this.#queues.delete(target);
    }
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

  /** The wire bytes of rows of one queue, which are in order; `undefined` when some are not here. To be read at once. */
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
      wires.push(this.#bytesAt(item.at, item.row.bytes));
    }
    return wires;
  }

  #added(row: QueueRow, wire: Buffer | undefined, heads: HeadsBefore): void {
    const { targetPubkey: target, seq } = row;
    const queue = this.#queues.get(target) ?? { floor: heads.get(target) ?? seq - 1, items: [] };
    const last = queue.items.at(-1)?.row.seq ?? queue.floor;
    this.#queues.delete(target);
    this.#queues.set(target, queue);
    if (wire && wire.length === row.bytes && wire.length <= this.#limits.bytesMax && seq > last) {
      const item = { row, queue, at: this.#put(wire) };
      queue.items.push(item);
      this.#order.push(item);
    } else {
      // A rotation moves rows and leaves their bytes, which are read from where they lie.
      queue.floor = Math.max(last, seq);
      queue.items = [];
    }
    this.#makeRoom();
  }

  #removed(key: string): void {
    const items = this.#queues.get(key.slice(0, PUBLIC_KEY_CHARACTERS) as PublicKey)?.items;
    if (!items) return;
    const seq = Number(key.slice(PUBLIC_KEY_CHARACTERS));
    const at = placeOf(items, seq);
    if (items[at]?.row.seq === seq) items.splice(at, 1);
  }

  #ackedThrough(target: PublicKey, through: number): void {
    const items = this.#queues.get(target)?.items;
    if (items) items.splice(0, placeOf(items, through + 1));
  }

  /** Copies the bytes over the oldest ones, in one piece. Returns where they are. */
  #put(wire: Buffer): number {
    const { bytesMax } = this.#limits;
    if (this.#ring.length === 0) this.#ring = Buffer.allocUnsafeSlow(bytesMax);
    const left = bytesMax - (this.#end % bytesMax);
    const at = this.#end + (wire.length > left ? left : 0);
    this.#end = at + wire.length;
    wire.copy(this.#bytesAt(at, wire.length));
    return at;
  }

  #bytesAt(at: number, length: number): Buffer {
    const from = at % this.#limits.bytesMax;
    return this.#ring.subarray(from, from + length);
  }

  #makeRoom(): void {
    const { bytesMax, itemsMax } = this.#limits;
    const isOver = ({ at }: RecentItem): boolean => at < this.#end - bytesMax || this.#order.length > itemsMax;
    for (let [oldest] = this.#order; oldest && isOver(oldest); [oldest] = this.#order) {
      this.#order.shift();
      const { queue, row } = oldest;
      if (queue.items[0] !== oldest) continue;
      queue.items.shift();
      queue.floor = row.seq;
    }
  }
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
