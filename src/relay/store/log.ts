/**
 * The seam between the engine and whatever keeps its log: append one batch after the last record, read from a record
 * on. LevelDB is the embedded form (relay-store.ts); a replicated log would keep the records elsewhere and the rows
 * in LevelDB as a local view.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { LogEntry } from '../core/event.ts';
import type { RowChange } from '../core/rows.ts';
import type { CollectedSlice } from './collect.ts';

/** Wire bytes to keep, at the place that their queue row names. */
export interface Payload {
  targetPubkey: PublicKey;
  seq: number;
  wire: Buffer;
}

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
  /** What a migration of the schema writes, or deletes with `null` (migrate.ts). Absent in every other batch. */
  migrated?: readonly (readonly [key: Buffer, value: Buffer | null])[];
}

export interface EventLog {
  /** The last durable record; 0 when there is none. */
  readonly lastLsn: number;
  /** Durable when it resolves. After a rejection nothing is known of the batch, and nothing may be appended again. */
  append(batch: CommitBatch): Promise<void>;
  /** The records from `fromLsn` on, each checked. Throws `DamagedRecord` at the first that is missing or altered. */
  read(fromLsn: number): AsyncIterable<LogEntry>;
}
