/**
 * Holds what is not durable yet: the open batch, whose changes later commands see over the rows that are stored; and
 * the rows that almost every command reads.
 */
import type { LogEntry } from '../core/event.ts';
import type { RowChange, RowReader, TableName, Tables } from '../core/rows.ts';
import type { CollectedSlice } from '../store/collect.ts';
import type { CheckpointWrite, Forgotten, LogBatch, Payload } from '../store/durable-log.ts';
import type { Pruned } from '../store/marks.ts';

/** A batch that holds this many payload bytes takes no more; the next one waits for it. */
export const BATCH_PAYLOAD_BYTES_MAX = 8 << 20;
/** The same for changed rows: a batch is to be synced soon, not to grow for ever. */
export const BATCH_CHANGES_MAX = 1500;

/** The content of a batch beside its events. */
export interface BatchPart {
  /** Stored entries and rows that nothing reads any more. */
  forgotten?: Forgotten;
  checkpoints?: readonly CheckpointWrite[];
  /** The record after which a checkpoint is taken whose parts lie elsewhere. */
  partless?: number;
  /** Wire bytes that this node lost. */
  repaired?: readonly Payload[];
  /** At most `PRUNED_AT_ONCE` records further, and durable before the next. */
  pruned?: Pruned;
  heartbeatMs?: number;
}

/** Gathers what was admitted since the last batch was taken: what becomes durable next, and who waits for it. */
export class OpenBatch implements LogBatch {
  readonly entries: LogEntry[] = [];
  readonly rows = new RowOverlay();
  readonly payloads: Payload[] = [];
  forgotten: Forgotten | undefined;
  readonly node = {
    checkpoints: [] as CheckpointWrite[],
    repaired: [] as Payload[],
    heartbeatMs: undefined as number | undefined,
    lacksParts: (throughLsn: number): boolean => this.#partless.has(throughLsn),
  };
  collected: CollectedSlice | undefined;
  pruned: Pruned | undefined;
  readonly #partless = new Set<number>();
  /** Once nothing is added any more. */
  #changes: RowChange[] | undefined;
  readonly durable: Promise<void>;
  #payloadBytes = 0;
  #isEmpty = true;
  resolve!: () => void;
  reject!: (error: unknown) => void;

  constructor() {
    this.durable = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    // Requests that wait get the error; a batch without one must not end the process.
    this.durable.catch(() => undefined);
  }

  addPayloads(payloads: readonly Payload[]): void {
    for (const payload of payloads) {
      this.payloads.push(payload);
      this.#payloadBytes += payload.wire.length;
    }
  }

  add({ forgotten, checkpoints = [], partless, repaired = [], pruned, heartbeatMs }: BatchPart): void {
    this.#isEmpty = false;
    if (forgotten) this.forgotten = this.forgotten ? together(this.forgotten, forgotten) : forgotten;
    this.node.checkpoints.push(...checkpoints);
    this.node.repaired.push(...repaired);
    this.node.heartbeatMs = heartbeatMs ?? this.node.heartbeatMs;
    this.pruned = pruned ?? this.pruned;
    if (partless !== undefined) this.#partless.add(partless);
  }

  get changes(): RowChange[] {
    return (this.#changes ??= this.rows.changes());
  }

  get isFull(): boolean {
    return this.#payloadBytes >= BATCH_PAYLOAD_BYTES_MAX || this.rows.size >= BATCH_CHANGES_MAX;
  }

  get isEmpty(): boolean {
    return this.#isEmpty && this.entries.length === 0;
  }
}

function together(one: Forgotten, other: Forgotten): Forgotten {
  return {
    expiryEntries: [...one.expiryEntries, ...other.expiryEntries],
    dedupEntries: [...one.dedupEntries, ...other.dedupEntries],
    dedupRows: [...one.dedupRows, ...other.dedupRows],
  };
}

/** The changed rows of one batch, the last change of each. */
export class RowOverlay {
  readonly #tables = new Map<TableName, Map<string, RowChange>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(table: TableName, key: string): RowChange | undefined {
    return this.#tables.get(table)?.get(key);
  }

  set(change: RowChange): void {
    let rows = this.#tables.get(change.table);
    if (!rows) this.#tables.set(change.table, (rows = new Map()));
    const before = rows.size;
    rows.set(change.key, change);
    this.#size += rows.size - before;
  }

  changes(): RowChange[] {
    return Array.from(this.#tables.values(), (rows) => Array.from(rows.values())).flat();
  }
}

/** The rows of `base` with the changes of an overlay before them. */
export class OverlaidRows implements RowReader {
  #changes = new RowOverlay();
  readonly #base: RowReader;

  constructor(base: RowReader) {
    this.#base = base;
  }

  get changes(): RowOverlay {
    return this.#changes;
  }

  get<T extends TableName>(table: T, key: string): Tables[T] | undefined {
    const change = this.#changes.get(table, key);
    return change ? ((change.row ?? undefined) as Tables[T] | undefined) : this.#base.get(table, key);
  }

  /** Forgets the changes: the base has them. */
  clear(): void {
    this.#changes = new RowOverlay();
  }
}

/** Queue and dedup rows are read once or twice and would push out the others. */
const KEPT = ['relay', 'enrolment', 'lineage', 'senders', 'target', 'share', 'account', 'sender'] as const;
/** Rows of one table at most; the one longest here goes. */
const ROWS_MAX = 10_000;

/**
 * The rows that almost every command reads, as they stand with everything admitted, so that only the rest is looked for
 * in the overlays and in LevelDB. That a row is absent is kept too. `changed` must be called for every change at the
 * moment it is admitted; a failed batch ends the process, so nothing is undone.
 */
export class RecentRows implements RowReader {
  readonly #tables: ReadonlyMap<TableName, Map<string, Tables[TableName] | undefined>>;
  readonly #rest: RowReader;

  /** `rest` answers for the rows that are not here. */
  constructor(rest: RowReader) {
    this.#tables = new Map(KEPT.map((table) => [table, new Map()]));
    this.#rest = rest;
  }

  get<T extends TableName>(table: T, key: string): Tables[T] | undefined {
    const rows = this.#tables.get(table);
    if (!rows) return this.#rest.get(table, key);
    const row = rows.get(key);
    if (row !== undefined || rows.has(key)) return row as Tables[T] | undefined;
    const fresh = this.#rest.get(table, key);
    keep(rows, key, fresh);
    return fresh;
  }

  changed({ table, key, row }: RowChange): void {
    const rows = this.#tables.get(table);
    if (rows) keep(rows, key, row ?? undefined);
  }
}

function keep(rows: Map<string, Tables[TableName] | undefined>, key: string, row: Tables[TableName] | undefined): void {
  if (rows.size >= ROWS_MAX && !rows.has(key)) {
    const oldest = rows.keys().next();
    if (!oldest.done) rows.delete(oldest.value);
  }
  rows.set(key, row);
}
