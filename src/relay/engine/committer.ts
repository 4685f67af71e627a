/**
 * Group commit: the one writer of the store.
 *
 * Events admitted while a batch is being written form the next batch. Decisions see them through the overlay at
 * once; no request is answered before `durable` resolves. One batch is written at a time; the next, once it is large,
 * is encoded meanwhile. A batch that the log has written may still become durable while the next ones are written.
 *
 * Invariants:
 *   - what is readable here is what the rows will be when every admitted batch is durable;
 *   - batches are published, and their requests answered, in their order and when they are durable;
 *   - after the first failed batch nothing is admitted, answered or written again (fail-stop);
 *   - an admission is reduced whole before anything of it is kept. A throw there ends the relay as a failed batch does,
 *     except for `BrokenQueue` (the rows of one queue are at fault), `DamagedRow` and `LookFirst`: the caller learns
 *     that nothing was admitted.
 */
import { BrokenQueue, type Decided, type FactSource, type Refusal, queueOf } from '../core/decision.ts';
import type { LogEntry, RelayEvent } from '../core/event.ts';
import { reduce } from '../core/reduce.ts';
import {
  type DedupRow,
  LookFirst,
  type QueueRow,
  type RowChange,
  type RowReader,
  type TableName,
  type Tables,
  rowKey,
} from '../core/rows.ts';
import type { Payload } from '../store/durable-log.ts';
import type { Encoding } from '../store/encoding.ts';
import type { RelayStore } from '../store/relay-store.ts';
import { DamagedRow } from '../store/checksum.ts';
import { type BatchPart, OpenBatch, OverlaidRows, RecentRows } from './open-batch.ts';

/** So many changed rows take milliseconds to encode: that is done while the batch before is being written. */
const AHEAD_CHANGES_MIN = 500;
/** Batches that are written or being written and not durable yet: the next one waits until there are fewer. */
const UNCONFIRMED_MAX = 4;

/** Thrown to all that wait when a batch failed: the outcome is unknown, and the relay is ending. */
export class StoreFailed extends Error {
  constructor(cause: unknown) {
    super('the store failed; the outcome is unknown', { cause });
  }
}

interface Reduced {
  entry: LogEntry;
  changes: RowChange[];
}

/** One synced batch, durable. A batch without entries is a heartbeat or gives back space. */
export interface CommittedBatch {
  entries: readonly LogEntry[];
  changes: readonly RowChange[];
  payloads: readonly Payload[];
  /** The time of the write, its sync and the note of the position. */
  durationMs: number;
}

interface CommitterOptions {
  /** It shows the rows of every durable batch, at least; batches go to it, each with a slice of what it collects. */
  store: RelayStore;
  /** Called at the moment of admission, as the next two are: other parts of the engine keep state beside the rows. */
  admitted: (event: RelayEvent) => void;
  changing: (change: RowChange) => void;
  /** Called when an event could not be admitted, because the rows of one queue are at fault. */
  broken: (error: BrokenQueue) => void;
  /** Called for each batch when it is durable, before the requests that waited for it continue. */
  published: (batch: CommittedBatch) => void;
  /** Milliseconds that never go back: how long a batch took. */
  monotonicMs: () => number;
  failed: (error: StoreFailed) => void;
}

export class Committer implements FactSource {
  readonly #store: RelayStore;
  readonly #options: CommitterOptions;
  readonly #recent = new RecentRows({
    get: (table, key) => {
      const change = this.#pending(table, key);
      return change ? ((change.row ?? undefined) as Tables[typeof table] | undefined) : this.#store.get(table, key);
    },
  });
  #open = new OpenBatch();
  /** Takes no more, and is encoded while the one in flight is being written. */
  #next: { batch: OpenBatch; encoded: Promise<Encoding | undefined> } | undefined;
  /** The one that is being written: the view may not show it yet. */
  #flying: OpenBatch | undefined;
  /** Those that are not durable, in their order: the one that is being written is the last. */
  readonly #unconfirmed: OpenBatch[] = [];
  /** Resolves when what became of all of these is known. */
  #confirmed: Promise<void> = Promise.resolve();
  #isAppending = false;
  #aheadSoon: NodeJS.Immediate | undefined;
  #lastLsn: number;
  #running = false;
  #isClosing = false;
  /** Resolves when no batch is being written any more. */
  #idle: Promise<void> = Promise.resolve();
  #failure: StoreFailed | undefined;
  #roomWaiters: (() => void)[] = [];
  /** Holds what is to run while every batch that was begun is durable. */
  #between: (() => void)[] = [];

  constructor(options: CommitterOptions) {
    const { store } = options;
    this.#options = options;
    this.#store = store;
    this.#lastLsn = store.lastLsn;
    if (store.collector.isPending) this.#start();
  }

  get<T extends TableName>(table: T, key: string): Tables[T] | undefined {
    return this.#recent.get(table, key);
  }

  /** As `RelayStore.known`, before which the row is looked for in what is not durable yet. */
  known(key: string): DedupRow | undefined {
    if (this.#store.lacks(key)) return undefined;
    const change = this.#pending('dedup', key);
    return change ? ((change.row ?? undefined) as DedupRow | undefined) : this.#store.known(key);
  }

  hasPayload(row: QueueRow): boolean {
    const { targetPubkey, seq, payloadTarget, payloadSeq } = row;
    const key = rowKey.queue(targetPubkey, seq);
    const pending = this.#pending('queue', key);
    return (pending && payloadTarget === targetPubkey && payloadSeq === seq) || this.#store.hasPayload(row);
  }

  assertWorking(): void {
    if (this.#failure) throw this.#failure;
  }

  get isFull(): boolean {
    return this.#open.isFull;
  }

  /** Resolves when another batch is open; whether that one has room is to be asked again. Throws `StoreFailed`. */
  async room(): Promise<void> {
    this.assertWorking();
    await new Promise<void>((resolve) => this.#roomWaiters.push(resolve));
    this.assertWorking();
  }

  /**
   * Adds decided events to the open batch, in their order. Synchronous; durable later. Throws `StoreFailed`, and
   * `BrokenQueue`, `DamagedRow` or `LookFirst` when nothing of them was added.
   */
  admit(events: readonly RelayEvent[], payloads: readonly Payload[] = []): void {
    this.assertWorking();
    const reduced = this.#reducedOrRefused(events);
    try {
      for (const one of reduced) this.#add(one);
    } catch (error) {
      // Half an admission must never be committed.
      throw this.#fail(error);
    }
    this.#open.addPayloads(payloads);
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

  /** Adds to the open batch what follows from no event. */
  add(part: BatchPart): void {
    this.assertWorking();
    this.#open.add(part);
    this.#start();
  }

  /** Resolves when everything admitted so far is durable. Rejects with `StoreFailed`. */
  async durable(): Promise<void> {
    this.assertWorking();
    if (!this.#open.isEmpty) return this.#open.durable;
    return (this.#next?.batch ?? this.#unconfirmed.at(-1))?.durable;
  }

  /** Resolves when the newest change of this row is durable; `undefined`: it is. Rejects with `StoreFailed`. */
  durableRow(table: TableName, key: string): Promise<void> | undefined {
    this.assertWorking();
    const batches = [...this.#unconfirmed, ...(this.#next ? [this.#next.batch] : []), this.#open];
    return batches.findLast(({ rows }) => rows.get(table, key))?.durable;
  }

  /** Runs `work` while no batch is in flight: what the store shows then is durable. Rejects with `StoreFailed`. */
  async betweenBatches<T>(work: () => T): Promise<T> {
    this.assertWorking();
    if (this.#unconfirmed.length === 0) return work();
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
    await this.#confirmed;
  }

  #reducedOrRefused(events: readonly RelayEvent[]): Reduced[] {
    try {
      return this.#reduced(events);
    } catch (error) {
      if (error instanceof BrokenQueue) this.#options.broken(error);
      const isOfRows = error instanceof BrokenQueue || error instanceof DamagedRow || error instanceof LookFirst;
      throw isOfRows ? error : this.#fail(error);
    }
  }

  /** Returns what the events make of the rows, each over those before it. Keeps nothing. */
  #reduced(events: readonly RelayEvent[]): Reduced[] {
    // Most admissions are of one event, and nothing reads its changes before they are added.
    const rows = events.length > 1 ? new OverlaidRows(this) : undefined;
    return events.map((event, at) => {
      const entry = { lsn: this.#lastLsn + 1 + at, event };
      const changes = reducedOne(entry, rows ?? this);
      if (rows) for (const change of changes) rows.changes.set(change);
      return { entry, changes };
    });
  }

  #add({ entry, changes }: Reduced): void {
    this.#lastLsn = entry.lsn;
    this.#open.entries.push(entry);
    for (const change of changes) this.#change(change);
    this.#options.admitted(entry.event);
  }

  #change(change: RowChange): void {
    this.#options.changing(change);
    this.#recent.changed(change);
    this.#open.rows.set(change);
  }

  #start(): void {
    if (this.#running) {
      // What comes together goes into one batch.
      if (this.#open.rows.size >= AHEAD_CHANGES_MIN) this.#aheadSoon ??= setImmediate(() => this.#encodeAhead());
      return;
    }
    this.#running = true;
    // Commands that arrived together share a batch.
    this.#idle = new Promise((resolve) => {
      setImmediate(() => void this.#run().finally(resolve));
    });
  }

  async #run(): Promise<void> {
    while (this.#isWorkLeft) {
      const { batch, encoded } = this.#next ?? { batch: this.#taken(), encoded: undefined };
      this.#flying = batch;
      this.#unconfirmed.push(batch);
      this.#next = undefined;
      try {
        await this.#write(batch, encoded);
        this.#flying = undefined;
        await this.#fewUnconfirmed();
      } catch (error) {
        this.#fail(error);
      }
      if (this.#failure) return;
    }
    this.#running = false;
  }

  /** Resolves when the log can take the next batch. */
  async #write(batch: OpenBatch, encoded: Promise<Encoding | undefined> | undefined): Promise<void> {
    const startedMs = this.#options.monotonicMs();
    batch.collected = await this.#store.collector.nextSlice();
    const ahead = await encoded;
    await new Promise<void>((resolve) => {
      // A collector that found nothing to do now leaves an empty batch.
      const isNothing = batch.isEmpty && !batch.collected;
      const durable = isNothing ? Promise.resolve() : this.#store.append(batch, ahead, resolve);
      this.#isAppending = true;
      this.#encodeAhead();
      this.#confirmed = this.#confirm(batch, durable, this.#confirmed, startedMs).then(resolve);
    });
    this.#isAppending = false;
  }

  /** Publishes the batch when it is durable, and the ones before it are. */
  async #confirm(batch: OpenBatch, durable: Promise<void>, before: Promise<void>, startedMs: number): Promise<void> {
    try {
      await durable;
    } catch (error) {
      this.#fail(error);
    }
    await before;
    if (this.#failure) return;
    this.#unconfirmed.shift();
    const { entries, changes, payloads } = batch;
    this.#options.published({ entries, changes, payloads, durationMs: this.#options.monotonicMs() - startedMs });
    this.#store.collector.published(changes);
    batch.resolve();
    if (this.#unconfirmed.length > 0) return;
    for (const run of this.#between.splice(0)) run();
    if (this.#running || !this.#isWorkLeft) return;
    // What is acked durably now is collected.
    this.#running = true;
    this.#idle = this.#run();
  }

  /** Resolves when the next batch may be written: at once, unless many are not durable or something runs between. */
  async #fewUnconfirmed(): Promise<void> {
    while (this.#unconfirmed.length >= (this.#between.length > 0 ? 1 : UNCONFIRMED_MAX))
      await this.#unconfirmed[0]?.durable;
  }

  /** The open batch, which takes no more. */
  #taken(): OpenBatch {
    const batch = this.#open;
    this.#open = new OpenBatch();
    for (const resolve of this.#roomWaiters.splice(0)) resolve();
    return batch;
  }

  #encodeAhead(): void {
    clearImmediate(this.#aheadSoon);
    this.#aheadSoon = undefined;
    if (!this.#isAppending || this.#next || this.#failure || this.#open.rows.size < AHEAD_CHANGES_MIN) return;
    const batch = this.#taken();
    const encoded = this.#store.encodeAhead(batch);
    // Its failure is met when the batch is appended.
    encoded.catch(() => undefined);
    this.#next = { batch, encoded };
  }

  #pending(table: TableName, key: string): RowChange | undefined {
    const open = this.#open.rows.get(table, key);
    return open ?? this.#next?.batch.rows.get(table, key) ?? this.#flying?.rows.get(table, key);
  }

  get #isWorkLeft(): boolean {
    if (this.#failure) return false;
    return !!this.#next || !this.#open.isEmpty || (this.#store.collector.isPending && !this.#isClosing);
  }

  /** Rejects all that wait and writes nothing any more: the batch in flight may be durable or not. */
  #fail(error: unknown): StoreFailed {
    if (this.#failure) return this.#failure;
    const failure = new StoreFailed(error);
    this.#failure = failure;
    for (const batch of this.#unconfirmed) batch.reject(failure);
    this.#next?.batch.reject(failure);
    this.#open.reject(failure);
    for (const resolve of this.#roomWaiters.splice(0)) resolve();
    for (const run of this.#between.splice(0)) run();
    this.#options.failed(failure);
    return failure;
  }
}

/** As `reduce`; a row that cannot be read is at fault for the queue that the event is about, where it is about one. */
function reducedOne(entry: LogEntry, rows: RowReader): RowChange[] {
  try {
    return reduce(entry, rows);
  } catch (error) {
    const queue = error instanceof DamagedRow ? queueOf(entry.event) : undefined;
    throw queue === undefined ? error : new BrokenQueue(queue, (error as Error).message, { cause: error });
  }
}
