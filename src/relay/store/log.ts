/**
 * The seam between the engine and whatever keeps its log: append one batch after the last record, read from a record
 * on. LevelDB is the embedded form (relay-store.ts); a replicated log would keep the records elsewhere and the rows
 * in LevelDB as a local view.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { LogEntry } from '../core/event.ts';
import type { RowChange } from '../core/rows.ts';
import type { CollectedSlice } from './collect.ts';
import type { Pruned } from './pruned.ts';

/** Wire bytes to keep, at the place that their queue row names. */
export interface Payload {
  targetPubkey: PublicKey;
  seq: number;
  wire: Buffer;
}

/** A key, and its new value; `null` deletes it. */
export type BesidePair = readonly [key: Buffer, value: Buffer | null];

/** Records that one batch deletes at most. */
export const PRUNED_AT_ONCE = 1000;

/** What becomes durable together, or not at all. */
export interface CommitBatch {
  /** Contiguous, the first directly after `lastLsn`. May be empty: a heartbeat, a collection. */
  entries: readonly LogEntry[];
  /** At most one change for each row. */
  changes: Iterable<RowChange>;
  payloads: readonly Payload[];
  /** Rows that are gone already and whose space is given back. */
  collected: CollectedSlice | undefined;
  /** Due entries that are dealt with, and dedup rows that are gone already. */
  forgotten: readonly Buffer[];
  /**
   * What is neither record nor row nor wire bytes, or deleted with `null`: what a migration of the schema writes
   * (migrate.ts), parts and marks of checkpoints (row-checkpoints.ts).
   */
  beside?: readonly BesidePair[];
  /** How far the log is pruned when the batch is durable; at most `PRUNED_AT_ONCE` records further than before. */
  pruned?: Pruned | undefined;
}

export interface EventLog {
  /** The last durable record; 0 when there is none. */
  readonly lastLsn: number;
  /** The first record that is kept: those before it were pruned. */
  readonly firstLsn: number;
  /** Durable when it resolves. After a rejection nothing is known of the batch, and nothing may be appended again. */
  append(batch: CommitBatch): Promise<void>;
  /**
   * The records from `fromLsn` on that are kept, each checked. Throws `DamagedRecord` at the first that is missing or
   * altered, also when it is pruned meanwhile.
   */
  read(fromLsn: number): AsyncIterable<LogEntry>;
}
