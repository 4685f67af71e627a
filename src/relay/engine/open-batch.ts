/** What was admitted since the last batch was taken: what becomes durable next, and who waits for it. */
import type { LogEntry } from '../core/event.ts';
import type { RowChange } from '../core/rows.ts';
import type { CheckpointWrite, Forgotten, LogBatch, Payload } from '../store/durable-log.ts';
import type { Pruned } from '../store/position.ts';
import { RowOverlay } from './row-overlay.ts';

/** A batch that holds this many payload bytes takes no more; the next one waits for it. */
export const BATCH_PAYLOAD_BYTES_MAX = 8 << 20;
/** The same for changed rows: a batch is to be synced soon, not to grow for ever. */
export const BATCH_CHANGES_MAX = 1500;
export class OpenBatch {
  readonly entries: LogEntry[] = [];
  readonly changes = new RowOverlay();
  readonly payloads: Payload[] = [];
  readonly forgotten: Forgotten[] = [];
  readonly checkpoints: CheckpointWrite[] = [];
  readonly repaired: Payload[] = [];
  /** Checkpoints of which this node keeps no parts. */
  readonly partless = new Set<number>();
  heartbeatMs: number | undefined;
  pruned: Pruned | undefined;
  /** Once nothing is added any more. */
  #allChanges: RowChange[] | undefined;
  readonly durable: Promise<void>;
  payloadBytes = 0;
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

  get allChanges(): RowChange[] {
    return (this.#allChanges ??= this.changes.changes());
  }

  asLogBatch(collected: LogBatch['collected']): LogBatch {
    const {
      entries,
      allChanges: changes,
      payloads,
      forgotten,
      checkpoints,
      repaired,
      partless,
      heartbeatMs,
      pruned,
    } = this;
    const node = { heartbeatMs, checkpoints, repaired, lacksParts: (lsn: number) => partless.has(lsn) };
    return { entries, changes, payloads, collected, forgotten: together(forgotten), pruned, node };
  }

  get isFull(): boolean {
    return this.payloadBytes >= BATCH_PAYLOAD_BYTES_MAX || this.changes.size >= BATCH_CHANGES_MAX;
  }

  get isEmpty(): boolean {
    const { entries, changes, forgotten, checkpoints, repaired, heartbeatMs, pruned } = this;
    const writes = entries.length + changes.size + forgotten.length + checkpoints.length + repaired.length;
    return writes === 0 && heartbeatMs === undefined && !pruned;
  }
}

function together(forgotten: readonly Forgotten[]): Forgotten {
  return {
    expiryEntries: forgotten.flatMap(({ expiryEntries }) => expiryEntries),
    dedupEntries: forgotten.flatMap(({ dedupEntries }) => dedupEntries),
    dedupRows: forgotten.flatMap(({ dedupRows }) => dedupRows),
  };
}
