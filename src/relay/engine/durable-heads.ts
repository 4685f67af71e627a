/**
 * What of each queue is durable, and who waits for more.
 *
 * LevelDB shows a batch before our write of it resolves and its position is noted. An item handed over from such a batch could be lost in a crash and its
 * sequence number given to another one, which the receiver would then skip; so pages end at the heads kept here.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import { EMPTY_TARGET, type RowChange, type TargetRow, type UsageRow } from '../core/rows.ts';
import type { RelayStore } from '../store/relay-store.ts';

type Waiter = () => void;

/** Long polls of one host at a time: one more ends the oldest. */
const WAITS_PER_TARGET_MAX = 8;

export class DurableHeads {
  readonly #store: RelayStore;
  readonly #rows = new Map<PublicKey, TargetRow>();
  readonly #waiters = new Map<PublicKey, Set<Waiter>>();
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
    for await (const { queueItems, queueBytes } of this.#store.targets()) {
      this.#items += queueItems;
      this.#bytes += queueBytes;
    }
  }

  /** What waits in all queues together, expiry notices left out. */
  get waiting(): UsageRow {
    return { items: this.#items, bytes: this.#bytes };
  }

  /** Long polls that are under way. */
  get waits(): number {
    let waits = 0;
    for (const waiters of this.#waiters.values()) waits += waiters.size;
    return waits;
  }

  /** Told before a change is written, while the stored row is still the durable one. */
  changing(change: RowChange): void {
    if (change.table === 'target') this.get(change.key as PublicKey);
  }

  /** Told when changes are durable. */
  published(changes: readonly RowChange[]): void {
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

  /** Calls `waiter` once, when something durable was added for `target` or when it is woken. Answers how to stop. */
  wait(target: PublicKey, waiter: Waiter): () => void {
    const waiters = this.#waiters.get(target) ?? new Set();
    const [oldest] = waiters;
    if (oldest && waiters.size >= WAITS_PER_TARGET_MAX) {
      waiters.delete(oldest);
      oldest();
    }
    waiters.add(waiter);
    this.#waiters.set(target, waiters);
    return () => {
      waiters.delete(waiter);
      if (waiters.size === 0 && this.#waiters.get(target) === waiters) this.#waiters.delete(target);
    };
  }

  wake(target: PublicKey): void {
    const waiters = this.#waiters.get(target);
    if (!waiters) return;
    this.#waiters.delete(target);
    for (const waiter of waiters) waiter();
  }

  wakeAll(): void {
    for (const target of this.#waiters.keys()) this.wake(target);
  }
}
