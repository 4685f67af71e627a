/**
 * Knows what of each queue is durable, and which long polls wait for more.
 *
 * LevelDB shows a batch before our write of it resolves and its position is noted. An item that was handed over from
 * such a batch could be lost in a crash and its sequence number given to another item, which the receiver would then
 * skip; so pages end at the heads kept here. Nor does a page show a queue without an item that was lost before it can
 * name the epoch that begins with the loss.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { LogEntry, RelayEvent } from '../core/event.ts';
import { EMPTY_TARGET, type RowChange, type TargetRow, type UsageRow } from '../core/rows.ts';
import type { RelayStore } from '../store/relay-store.ts';

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
