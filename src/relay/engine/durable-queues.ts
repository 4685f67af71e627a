/**
 * Knows what of each queue is durable, and which long polls wait for more; and keeps the newest durable items.
 *
 * LevelDB shows a batch before our write of it resolves and its position is noted. An item that was handed over from
 * such a batch could be lost in a crash and its sequence number given to another item, which the receiver would then
 * skip; so pages end at the heads kept here. Nor does a page show a queue without an item that was lost before it can
 * name the epoch that begins with the loss.
 */
import { PUBLIC_KEY_CHARACTERS, type PublicKey } from '../../protocol/public-key.ts';
import type { LogEntry, RelayEvent } from '../core/event.ts';
import { EMPTY_TARGET, type QueueRow, type RowChange, type TargetRow, type UsageRow, rowKey } from '../core/rows.ts';
import type { RelayStore } from '../store/relay-store.ts';
import type { Payload } from '../store/durable-log.ts';

/** Long polls of one host at a time: one more ends the oldest. */
const WAITS_PER_TARGET_MAX = 8;

export class DurableHeads {
  readonly #store: RelayStore;
  readonly #rows = new Map<PublicKey, TargetRow>();
  /** By target: items whose loss is admitted and not durable. */
  readonly #losses = new Map<PublicKey, number>();
  readonly #waiters = new OnceListeners();
  #items = 0;
  #bytes = 0;

  constructor(store: RelayStore) {
    this.#store = store;
  }

  get(target: PublicKey): TargetRow {
    const known = this.#rows.get(target);
    if (known) return known;
    const row = this.#store.get('target', target) ?? EMPTY_TARGET;
    this.#rows.set(target, row);
    return row;
  }

  /** Sums up the stored queues. To be called once, before anything is published. */
  async countStored(): Promise<void> {
    const { items, bytes } = await this.#store.waiting();
    this.#items = items;
    this.#bytes = bytes;
  }

  /** Returns what waits in all queues together, expiry notices left out. */
  get waiting(): UsageRow {
    return { items: this.#items, bytes: this.#bytes };
  }

  get waits(): number {
    return this.#waiters.count;
  }

  /** To be called before a change is written, while the stored row is still the durable one. */
  changing(change: RowChange): void {
    if (change.table === 'target') this.get(change.key as PublicKey);
  }

  admitted(event: RelayEvent): void {
    if (event.type === 'ItemLost') this.#losses.set(event.targetPubkey, this.#lossesOf(event.targetPubkey) + 1);
  }

  /** Says whether LevelDB may show the queue of `target` without an item whose loss is not durable. */
  isLosing(target: PublicKey): boolean {
    return this.#losses.has(target);
  }

  published(entries: readonly LogEntry[], changes: readonly RowChange[]): void {
    for (const { event } of entries) {
      if (event.type !== 'ItemLost') continue;
      const left = this.#lossesOf(event.targetPubkey) - 1;
      if (left === 0) this.#losses.delete(event.targetPubkey);
      else this.#losses.set(event.targetPubkey, left);
    }
    for (const change of changes) {
      if (change.table !== 'target') continue;
      const target = change.key as PublicKey;
      const before = this.get(target);
      const row = change.row ?? EMPTY_TARGET;
      this.#rows.set(target, row);
      this.#items += row.queueItems - before.queueItems;
      this.#bytes += row.queueBytes - before.queueBytes;
      if (row.headSeq > before.headSeq) this.wake(target);
    }
  }

  /** Calls `waiter` once, when an item for `target` is durable or `wake` is called. Returns a function to stop it. */
  wait(target: PublicKey, waiter: () => void): () => void {
    return this.#waiters.add(target, waiter, WAITS_PER_TARGET_MAX);
  }

  wake(target: PublicKey): void {
    this.#waiters.call(target);
  }

  wakeAll(): void {
    this.#waiters.callAll();
  }

  #lossesOf(target: PublicKey): number {
    return this.#losses.get(target) ?? 0;
  }
}

type Listener = () => void;

/** Callbacks by host key, each called at most once: long polls wait for items, open requests for a revocation. */
export class OnceListeners {
  readonly #byKey = new Map<PublicKey, Set<Listener>>();

  get count(): number {
    let count = 0;
    for (const listeners of this.#byKey.values()) count += listeners.size;
    return count;
  }

  /**
   * Keeps `listener` until `key` is called. Where `key` has `max` listeners already, the oldest is called now. Returns
   * a function that removes the listener.
   */
  add(key: PublicKey, listener: Listener, max = Infinity): () => void {
    const listeners = this.#byKey.get(key) ?? new Set();
    const [oldest] = listeners;
    if (oldest && listeners.size >= max) {
      listeners.delete(oldest);
      oldest();
    }
    listeners.add(listener);
    this.#byKey.set(key, listeners);
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#byKey.get(key) === listeners) this.#byKey.delete(key);
    };
  }

  call(key: PublicKey): void {
    const listeners = this.#byKey.get(key);
    if (!listeners) return;
    this.#byKey.delete(key);
    for (const listener of listeners) listener();
  }

  callAll(): void {
    for (const key of this.#byKey.keys()) this.call(key);
  }
}

/** Room for a page of the largest items that are kept, and for several of smaller ones. */
const LIMITS = { bytesMax: 6 << 20, itemsMax: 4000, itemBytesMax: 8 << 10 };

interface RecentItem {
  row: QueueRow;
  /** The place of its wire bytes, counted from the first byte that was ever put in. */
  at: number;
}

interface RecentQueue {
  floor: number;
  through: number;
  /** By seq; never empty. */
  items: RecentItem[];
}

/** The items that became durable together. */
interface DurableBatch {
  changes: Iterable<RowChange>;
  payloads: readonly Payload[];
}

/** The changes that a batch made to one queue. */
interface Written {
  /** New items, each behind the one before, and their bytes. */
  rows: QueueRow[];
  wires: Buffer[];
  /** The head after the batch; `undefined` where that was not written. */
  headSeq: number | undefined;
  /** Says whether it did anything else to a row of it. */
  isOther: boolean;
}

/**
 * The items that became durable last, in memory, so that a host which pulls soon after a push waits for no look-up, and
 * nothing is decoded, hashed or read anew: their rows and their wire bytes. These were compared with their hash when
 * they came, and have not been on a disk since. They lie in one ring of memory: a buffer for each would be memory
 * outside of V8's heap that waits for a full collection.
 *
 * The invariant: of a queue that is here, the durable rows with `floor` < seq <= `through` are its items, all of them
 * and no others, and `through` is its durable head. A page is made from memory for that head alone. So mail can be
 * hidden only where this is broken, and only one thing is ever done to keep it:
 *   - no row lies above the head of its queue, so what lies between the heads before and after a batch is what the
 *     batch wrote there. Where that is nothing but new items, each behind the one before and the last of them at the
 *     new head, they continue the queue; or they begin it, and the head before the batch, as the engine knows it, is
 *     the floor;
 *   - whatever else happens to a queue row or a head ends the memory of that queue: a row that was moved, expired, lost
 *     or written without its bytes, a place that is kept for later, a head that was raised.
 *
 * An ack does nothing here, since nobody asks for rows at or below it. Items have their most in bytes and in number;
 * those that came first go first, and raise their queue's floor.
 */
export class RecentItems {
  readonly #limits: typeof LIMITS;
  readonly #queues = new Map<PublicKey, RecentQueue>();
  /** As they came; also those of queues that are not here any more. */
  readonly #order: RecentItem[] = [];
  #ring = Buffer.alloc(0);
  /** The number of bytes that were ever put in. */
  #end = 0;

  constructor(limits: Partial<typeof LIMITS> = {}) {
    this.#limits = { ...LIMITS, ...limits };
  }

  /**
   * To be called for every batch, in their order, when it is durable. `headOf` says what a head was before it, and is
   * asked only for heads that the batch wrote.
   */
  durable({ changes, payloads }: DurableBatch, headOf: (target: PublicKey) => number): void {
    for (const [target, written] of writtenTo(changes, payloads)) {
      if (written.isOther || written.headSeq === undefined) this.#queues.delete(target);
      else this.#follow(target, written, headOf(target));
    }
  }

  /**
   * The durable rows with `after` < seq <= `headSeq`, which is the durable head, ascending and at most `limit`;
   * `undefined` when some may not be here.
   */
  rows(target: PublicKey, after: number, headSeq: number, limit: number): QueueRow[] | undefined {
    const queue = this.#queues.get(target);
    if (!queue || after < queue.floor || headSeq !== queue.through) return undefined;
    const from = placeOf(queue.items, after + 1);
    return queue.items.slice(from, from + limit).map(({ row }) => row);
  }

  /**
   * The wire bytes of rows of one queue, which are in order; `undefined` when some are not here. Also those that were
   * acked or went meanwhile, as long as they are here. The bytes are valid until the caller yields.
   */
  wires(rows: readonly QueueRow[]): Buffer[] | undefined {
    const [first] = rows;
    const queued = first && this.#queues.get(first.targetPubkey)?.items;
    if (!queued) return undefined;
    const from = placeOf(queued, first.seq);
    const items = queued.slice(from, from + rows.length);
    const areIt = rows.every(({ targetPubkey, seq, wireHash }, at) => {
      const row = items[at]?.row;
      return row?.seq === seq && row.targetPubkey === targetPubkey && row.wireHash === wireHash;
    });
    return areIt ? items.map(({ row, at }) => this.#view(at, row.bytes)) : undefined;
  }

  #follow(target: PublicKey, { rows, wires, headSeq }: Written, before: number): void {
    if (rows.length === 0 && headSeq === before) return;
    const isNew = (rows[0]?.seq ?? 0) > before && rows.at(-1)?.seq === headSeq;
    if (!isNew || rows.some(({ bytes }) => bytes > this.#limits.itemBytesMax)) {
      this.#queues.delete(target);
      return;
    }
    const known = this.#queues.get(target);
    const queue = known?.through === before ? known : { floor: before, through: before, items: [] };
    this.#queues.set(target, queue);
    for (const [position, row] of rows.entries()) {
      const item = this.#put(row, wires[position] as Buffer);
      queue.items.push(item);
      queue.through = row.seq;
      this.#order.push(item);
      this.#makeRoom();
    }
  }

  /** Writes the item over the oldest ones, in one piece. */
  #put(row: QueueRow, wire: Buffer): RecentItem {
    const { bytesMax } = this.#limits;
    if (wire.length > bytesMax) throw new Error('invariant: there is room for the largest item');
    const left = bytesMax - (this.#end % bytesMax);
    const at = this.#end + (wire.length > left ? left : 0);
    this.#end = at + wire.length;
    this.#growTo((at % bytesMax) + wire.length);
    wire.copy(this.#view(at, wire.length));
    return { row, at };
  }

  /** The ring grows with what is put in, fourfold, up to `bytesMax`. */
  #growTo(bytes: number): void {
    if (bytes <= this.#ring.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.min(this.#limits.bytesMax, 4 * bytes));
    this.#ring.copy(larger);
    this.#ring = larger;
  }

  #view(at: number, length: number): Buffer {
    const from = at % this.#limits.bytesMax;
    return this.#ring.subarray(from, from + length);
  }

  /** Takes out what was written over, and what is too many. */
  #makeRoom(): void {
    const { bytesMax, itemsMax } = this.#limits;
    for (let oldest = this.#order[0]; oldest; oldest = this.#order[0]) {
      if (oldest.at >= this.#end - bytesMax && this.#order.length <= itemsMax) return;
      this.#order.shift();
      const { targetPubkey, seq } = oldest.row;
      const queue = this.#queues.get(targetPubkey);
      if (queue?.items[0] !== oldest) continue;
      queue.items.shift();
      queue.floor = seq;
      if (queue.items.length === 0) this.#queues.delete(targetPubkey);
    }
  }
}

/** Returns what a batch did to each queue that it changed. */
function writtenTo(changes: Iterable<RowChange>, payloads: readonly Payload[]): Map<PublicKey, Written> {
  const queues = new Map<PublicKey, Written>();
  const of = (target: PublicKey): Written => {
    let written = queues.get(target);
    if (!written) queues.set(target, (written = { rows: [], wires: [], headSeq: undefined, isOther: false }));
    return written;
  };
  // Wire bytes come in the order of the rows that they came with.
  let next = 0;
  for (const { table, key, row } of changes) {
    if (table === 'target') of(key as PublicKey).headSeq = row?.headSeq;
    if (table !== 'queue') continue;
    const written = of(key.slice(0, PUBLIC_KEY_CHARACTERS) as PublicKey);
    const payload = payloads[next];
    const hasCome = payload && isOfRow(payload, key, row);
    if (hasCome) next++;
    const isNew = hasCome && row && payload.wire.length === row.bytes && row.seq > (written.rows.at(-1)?.seq ?? -1);
    if (isNew) {
      written.rows.push(row);
      written.wires.push(payload.wire);
    } else written.isOther = true;
  }
  return queues;
}

/** Says whether these are the wire bytes of a row, or of one that went in the same batch. */
function isOfRow({ targetPubkey, seq }: Payload, key: string, row: QueueRow | null): boolean {
  if (!row) return key === rowKey.queue(targetPubkey, seq);
  return row.seq === seq && row.targetPubkey === targetPubkey;
}

/** Returns where the first item with at least this seq is. */
function placeOf(items: readonly RecentItem[], seq: number): number {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((items[middle]?.row.seq ?? Infinity) < seq) low = middle + 1;
    else high = middle;
  }
  return low;
}
