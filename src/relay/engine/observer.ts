/** What the engine reports to metrics and the operator's console. It never waits for them. */
import type { ItemRejection } from '../../protocol/items.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { PushOutcome } from '../core/decision.ts';
import type { LogEntry } from '../core/event.ts';
import type { RowChange } from '../core/rows.ts';
import type { Payload } from '../store/durable-log.ts';

/** What one synced batch made durable. A batch without entries is a heartbeat or gives back space. */
export interface CommittedBatch {
  entries: readonly LogEntry[];
  changes: readonly RowChange[];
  payloads: readonly Payload[];
  /** Of the write, its sync and the note of the position. */
  durationMs: number;
}

/** Called once for each request or batch, not for each item; must not throw. */
export interface EngineObserver {
  /** What became of the items of one request, durable. */
  pushed(outcomes: readonly PushOutcome[]): void;
  /** Items that were refused before they were commands. */
  unread(rejection: ItemRejection, count: number): void;
  /** A host was shown its queue up to `through`; `undefined` when nothing waited. */
  pulled(target: PublicKey, through: number | undefined): void;
  committed(batch: CommittedBatch): void;
}

export const NO_OBSERVER: EngineObserver = {
  pushed: () => undefined,
  unread: () => undefined,
  pulled: () => undefined,
  committed: () => undefined,
};
