/**
 * Group commit: the one writer of the store.
 *
 * Events admitted while a batch is being synced form the next batch. Whoever decides sees them through the overlay at
 * once; nobody is answered before `durable` resolves. One batch is in flight at a time.
 *
 * Invariants:
 *   - what is readable here is what the rows will be when every admitted batch is durable;
 *   - after the first failed batch nothing is admitted, answered or written again (fail-stop).
 */
import type { Decided, Refusal } from '../core/decision.ts';
import type { LogEntry, RelayEvent } from '../core/event.ts';
import type { FactSource } from '../core/facts.ts';
import { reduce } from '../core/reduce.ts';
import { type QueueRow, type RowChange, type TableName, type Tables, rowKey } from '../core/rows.ts';
import type { BesidePair, Payload } from '../store/log.ts';
import type { Pruned } from '../store/pruned.ts';
import type { RelayStore } from '../store/relay-store.ts';
import type { CommittedBatch } from './observer.ts';
import { RecentRows } from './recent-rows.ts';
import { RowOverlay } from './row-overlay.ts';

/** A batch that holds this many payload bytes takes no more; the next one waits for it. */
export const BATCH_PAYLOAD_BYTES_MAX = 8 << 20;
/** The same for changed rows: a batch is to be synced soon, not to grow for ever. */
export const BATCH_CHANGES_MAX = 1500;

/** Thrown to everybody who waits when a batch failed: the outcome is unknown, and the relay is ending. */
export class StoreFailed extends Error {
  constructor(cause: unknown) {
    super('the store failed; the outcome is unknown', { cause });
  }
}

/** What other parts of the engine keep beside the rows, told of every change at the moment it is admitted. */
export interface AdmissionObserver {
  admitted(event: RelayEvent): void;
  changing(change: RowChange): void;
}

class Batch {
  readonly entries: LogEntry[] = [];
  readonly changes = new RowOverlay();
  readonly payloads: Payload[] = [];
  readonly forgotten: Buffer[] = [];
  readonly beside: BesidePair[] = [];
  pruned: Pruned | undefined;
  readonly durable: Promise<void>;
  payloadBytes = 0;
  resolve!: () => void;
  reject!: (error: unknown) => void;

  constructor() {
    this.durable = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    // Whoever waits is told; a batch that nobody waits for must not end the process by itself.
    this.durable.catch(() => undefined);
  }

  get isEmpty(): boolean {
    const { entries, changes, forgotten, beside, pruned } = this;
    return entries.length + changes.size + forgotten.length + beside.length === 0 && !pruned;
  }
}

export interface CommitterOptions {
  store: RelayStore;
  observer: AdmissionObserver;
  /** Told of each batch when it is durable, before anybody who waited for it. */
  published: (batch: CommittedBatch) => void;
  /** Milliseconds that never go back: how long a batch took. */
  monotonicMs: () => number;
  failed: (error: StoreFailed) => void;
}

export class Committer implements FactSource {
  readonly #store: RelayStore;
  readonly #observer: AdmissionObserver;
  readonly #published: CommitterOptions['published'];
  readonly #onFailed: CommitterOptions['failed'];
  readonly #monotonicMs: () => number;
  readonly #recent = new RecentRows();
  #open = new Batch();
  #flying: Batch | undefined;
  #lastLsn: number;
  #running = false;
  #isClosing = false;
  /** Resolves when nothing is being written any more. */
  #idle: Promise<void> = Promise.resolve();
  #failure: StoreFailed | undefined;
  #roomWaiters: (() => void)[] = [];
  /** What is to run while no batch is in flight. */
  #between: (() => void)[] = [];

  constructor({ store, observer, published, monotonicMs, failed }: CommitterOptions) {
    this.#store = store;
    this.#observer = observer;
    this.#published = published;
    this.#monotonicMs = monotonicMs;
    this.#onFailed = failed;
    this.#lastLsn = store.lastLsn;
    if (store.collector.isPending) this.#start();
  }

  get<T extends TableName>(table: T, key: string): Tables[T] | undefined {
    const change = this.#open.changes.get(table, key) ?? this.#flying?.changes.get(table, key);
    if (change) return (change.row ?? undefined) as Tables[T] | undefined;
    return this.#recent.get(table, key, () => this.#store.get(table, key));
  }

  hasPayload(row: QueueRow): boolean {
    const { targetPubkey, seq, payloadTarget, payloadSeq } = row;
    const key = rowKey.queue(targetPubkey, seq);
    const pending = this.#open.changes.get('queue', key) ?? this.#flying?.changes.get('queue', key);
    return (pending && payloadTarget === targetPubkey && payloadSeq === seq) || this.#store.hasPayload(row);
  }

  /** Throws `StoreFailed` after a failed batch. */
  assertWorking(): void {
    if (this.#failure) throw this.#failure;
  }

  /** Whether the open batch takes no more items. */
  get isFull(): boolean {
    const { payloadBytes, changes } = this.#open;
    return payloadBytes >= BATCH_PAYLOAD_BYTES_MAX || changes.size >= BATCH_CHANGES_MAX;
  }

  /** Resolves when another batch is open; whether that one has room is to be asked again. Throws `StoreFailed`. */
  async room(): Promise<void> {
    this.assertWorking();
    await new Promise<void>((resolve) => this.#roomWaiters.push(resolve));
    this.assertWorking();
  }

  /** Adds decided events to the open batch, in their order. Synchronous; durable later. */
  admit(events: readonly RelayEvent[], payloads: readonly Payload[] = []): void {
    this.assertWorking();
    try {
      for (const event of events) this.#reduce(event);
    } catch (error) {
      // Half an admission must never be committed.
      throw this.#fail(error);
    }
    for (const payload of payloads) {
      this.#open.payloads.push(payload);
      this.#open.payloadBytes += payload.wire.length;
    }
    this.#start();
  }

  /** Admits what was decided, and answers when everything that it rests on is durable; a refusal waits too. */
  async answer<O>(decision: Decided<O>): Promise<O>;
  async answer<O>(decision: Decided<O> | Refusal): Promise<O | Refusal>;
  async answer<O>(decision: Decided<O> | Refusal): Promise<O | Refusal> {
    if (decision.type === 'Decided') this.admit(decision.events);
    await this.durable();
    return decision.type === 'Decided' ? decision.outcome : decision;
  }

  /** Gives back the space of stored keys that nothing reads any more. */
  forget(keys: readonly Buffer[]): void {
    this.assertWorking();
    this.#open.forgotten.push(...keys);
    this.#start();
  }

  /** Keeps a pair that is neither record nor row, in the open batch. */
  keep(pair: BesidePair): void {
    this.assertWorking();
    this.#open.beside.push(pair);
    this.#start();
  }

  /** Prunes the log, at most `PRUNED_AT_ONCE` records further than before. One at a time: to be durable before the next. */
  prune(pruned: Pruned): void {
    this.assertWorking();
    this.#open.pruned = pruned;
    this.#start();
  }

  /** Adds a row that no event stands behind: the heartbeat. */
  admitRow(change: RowChange): void {
    this.assertWorking();
    this.#change(change);
    this.#start();
  }

  /** Resolves when everything admitted so far is durable. Rejects with `StoreFailed`. */
  async durable(): Promise<void> {
    this.assertWorking();
    if (!this.#open.isEmpty) return this.#open.durable;
    return this.#flying?.durable;
  }

  /** Runs `work` while no batch is in flight: what the store shows then is durable. Rejects with `StoreFailed`. */
  async betweenBatches<T>(work: () => T): Promise<T> {
    this.assertWorking();
    if (!this.#flying) return work();
    return new Promise<T>((resolve, reject) => {
      this.#between.push(() => {
        try {
          this.assertWorking();
          resolve(work());
        } catch (error) {
          reject(error);
        }
      });
    });
  }

  /** Writes what was admitted, collects no more, and resolves when the store may be closed. */
  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#idle;
  }

  #reduce(event: RelayEvent): void {
    const entry = { lsn: ++this.#lastLsn, event };
    this.#open.entries.push(entry);
    for (const change of reduce(entry, this)) this.#change(change);
    this.#observer.admitted(event);
  }

  #change(change: RowChange): void {
    this.#observer.changing(change);
    this.#recent.changed(change);
    this.#open.changes.set(change);
  }

  #start(): void {
    if (this.#running) return;
    this.#running = true;
    // Commands that arrived together share a batch.
    this.#idle = new Promise((resolve) => {
      setImmediate(() => void this.#run().finally(resolve));
    });
  }

  async #run(): Promise<void> {
    while (this.#isWorkLeft) {
      const batch = this.#open;
      this.#flying = batch;
      this.#open = new Batch();
      for (const resolve of this.#roomWaiters.splice(0)) resolve();
      const changes = batch.changes.changes();
      const startedMs = this.#monotonicMs();
      try {
        const collected = await this.#store.collector.nextSlice();
        await this.#store.append({
          entries: batch.entries,
          changes,
          payloads: batch.payloads,
          collected,
          forgotten: batch.forgotten,
          beside: batch.beside,
          pruned: batch.pruned,
        });
      } catch (error) {
        this.#fail(error);
        return;
      }
      if (this.#failure) return;
      this.#flying = undefined;
      this.#published({ entries: batch.entries, changes, durationMs: this.#monotonicMs() - startedMs });
      batch.resolve();
      for (const run of this.#between.splice(0)) run();
    }
    this.#running = false;
  }

  get #isWorkLeft(): boolean {
    if (this.#failure) return false;
    return !this.#open.isEmpty || (this.#store.collector.isPending && !this.#isClosing);
  }

  /** Everybody who waits is told, and nothing is written any more: the batch in flight may be durable or not. */
  #fail(error: unknown): StoreFailed {
    if (this.#failure) return this.#failure;
    const failure = new StoreFailed(error);
    this.#failure = failure;
    this.#flying?.reject(failure);
    this.#open.reject(failure);
    for (const resolve of this.#roomWaiters.splice(0)) resolve();
    for (const run of this.#between.splice(0)) run();
    this.#onFailed(failure);
    return failure;
  }
}
