/**
 * The two seams of the log.
 *
 * The engine writes to an `EventLog`: batches that say what happens to the log, without a key of LevelDB. The relay's
 * store implements it: it turns a batch into writes to its LevelDB, the view. A `DurableLog` then decides when the
 * batch is durable. The embedded form syncs LevelDB and notes the position outside it; a log that is kept elsewhere
 * would store the encoded batch first and write the view without a sync.
 *
 * A batch has a shared part, which every copy of the log applies alike, and a part of this node alone. The boundaries
 * of batches are part of the log: due entries are named by the first LSN of their batch (keys.ts, 42 and 51).
 */
import { hash } from 'node:crypto';
import type { Epoch } from '../../protocol/epoch.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { LogEntry } from '../core/event.ts';
import { LOG_FORMAT } from '../core/log-format.ts';
import type { RowChange } from '../core/rows.ts';
import type { BatchEffects } from './batch-effects.ts';
import type { CollectedSlice } from './collect.ts';
import type { Position, PositionFile, Pruned } from './position.ts';

/** Wire bytes to store, at the place that their queue row names. */
export interface Payload {
  targetPubkey: PublicKey;
  seq: number;
  wire: Buffer;
}

/** What one batch of items made due at one time. `lsn` is the first of the batch, or one that a rebuild chose. */
export interface DueEntryName {
  dueMs: number;
  lsn: number;
}

/** Due entries that are dealt with, and dedup rows that nothing reads any more. */
export interface Forgotten {
  expiryEntries: readonly DueEntryName[];
  dedupEntries: readonly DueEntryName[];
  /** By the SHA-256 of sender, target and item id under which each row is stored. */
  dedupRows: readonly Buffer[];
}

export interface CheckpointPartName {
  throughLsn: number;
  part: number;
}

/** What is kept or dropped of row checkpoints (row-checkpoints.ts). */
export type CheckpointWrite =
  | ({ type: 'part'; packed: Buffer } & CheckpointPartName)
  | ({ type: 'drop part' } & CheckpointPartName)
  | { type: 'drop mark'; throughLsn: number };

/** What concerns this node alone: a log that several nodes share does not carry it. */
interface NodePart {
  /** Whether the parts of the checkpoint after this record lie elsewhere: its `CheckpointTaken` gets no mark here. */
  lacksParts?: (throughLsn: number) => boolean;
  /** When the node was last alive. A shared log renews its lease instead. */
  heartbeatMs?: number | undefined;
  checkpoints?: readonly CheckpointWrite[];
  /** Wire bytes that this node lost, as another copy of the log has them. */
  repaired?: readonly Payload[];
  /** The position outside LevelDB is not noted: it may lie behind, and the next start still has to compare it. */
  leavesPosition?: boolean;
}

/** Records that one batch deletes at most. */
export const PRUNED_AT_ONCE = 1000;

/** What becomes durable together, or not at all. */
export interface LogBatch {
  /** Contiguous, the first directly after `lastLsn`. There may be none: a heartbeat, a collection. */
  entries: readonly LogEntry[];
  /** What `reduce` makes of the entries, at most one change for each row. A deleted queue row drops its wire bytes. */
  changes: Iterable<RowChange>;
  payloads: readonly Payload[];
  /** Acked rows whose space is given back, with their wire bytes. */
  collected?: CollectedSlice | undefined;
  forgotten?: Forgotten;
  /** How far the log is pruned: at most `PRUNED_AT_ONCE` records further than before. */
  pruned?: Pruned | undefined;
  node?: NodePart;
}

/** A batch that is encoded and not appended yet. */
export interface EncodedAhead {
  readonly lastLsn: number;
}

export interface EventLog {
  readonly lastLsn: number;
  readonly firstLsn: number;
  /**
   * Durable when it resolves. After a rejection the outcome is unknown, and nothing may be appended any more. The next
   * batch may be appended when `written` is called, or when this one is durable: batches become durable in their order.
   * `ahead` is what `encodeAhead` made of it.
   */
  append(batch: LogBatch, ahead?: EncodedAhead, written?: () => void): Promise<void>;
  /**
   * Encodes the next batch while one is being appended, all but what it collects and prunes. `undefined`: its encoding
   * rests on what is being appended, and `append` does it.
   */
  encodeAhead(batch: LogBatch): Promise<EncodedAhead | undefined>;
  /**
   * The records from `fromLsn` on that were not pruned, each checked. Throws `DamagedRecord` at the first that is
   * missing or altered, or that is pruned meanwhile.
   */
  read(fromLsn: number): AsyncIterable<LogEntry>;
}

/** A batch as it goes to the log and to the view. `firstLsn - 1 === lastLsn` when it holds no record. */
export interface ViewBatch {
  firstLsn: number;
  lastLsn: number;
  /** As stored: the leaves of the hash tree. */
  records: readonly Buffer[];
  /** The epoch after the batch; `undefined` in a store that is not initialised. */
  epoch: Epoch | undefined;
  batch: LogBatch;
  /** What the batch does to the keys of the log, where the log asked for it. */
  effects: BatchEffects | undefined;
}

export interface ViewWrites {
  /** Adds a key of this node alone. */
  put(key: Buffer, value: Buffer): unknown;
  write(options: { sync: boolean }): Promise<void>;
}

/** Decides when a batch is durable. It is given the batches of a log one at a time, the next after `written`. */
export interface DurableLog {
  /** Whether batches come with their effects: several nodes share the log. */
  readonly isShared: boolean;
  /** Of what is written to it (core/log-format.ts). */
  readonly format: number;
  /**
   * Writes the view too, and calls `written` once when the view shows the batch and the log can take the next. Durable
   * when it resolves, in the order of the batches; after a rejection the outcome is unknown.
   */
  append(batch: ViewBatch, view: ViewWrites, written: () => void): Promise<void>;
  close(): Promise<void>;
}

/**
 * The log that LevelDB itself holds: one synced write, then the position outside (position.ts). While the position of
 * one batch is being synced, the next batches are written.
 */
export class EmbeddedLog implements DurableLog {
  readonly isShared = false;
  readonly format = LOG_FORMAT;
  readonly #notes: PositionNotes;

  /** The log owns the position file from here on. */
  constructor(position: PositionFile) {
    this.#notes = new PositionNotes(position);
  }

  async append({ lastLsn, records, epoch, batch }: ViewBatch, view: ViewWrites, written: () => void): Promise<void> {
    await view.write({ sync: true });
    const last = records.at(-1);
    if (last && !epoch) throw new Error('invariant: a store with records has a relay row');
    const noted =
      !last || !epoch || batch.node?.leavesPosition
        ? this.#notes.noted
        : this.#notes.note({ lsn: lastLsn, recordHash: hash('sha256', last, 'buffer'), epoch });
    written();
    await noted;
  }

  close(): Promise<void> {
    return this.#notes.close();
  }
}

/**
 * Notes the positions of batches that are in the log, in their order, one write at a time: the next one notes the
 * newest batch, for all that wait. After a failed write nothing is written again.
 */
class PositionNotes {
  readonly #file: PositionFile;
  /** What the next write notes. */
  #newest: Position | undefined;
  /** Ends with the last write that is under way or waits for its turn. */
  #noted: Promise<void> = Promise.resolve();

  constructor(file: PositionFile) {
    this.#file = file;
  }

  /** Resolves when everything is noted that was to be noted so far. */
  get noted(): Promise<void> {
    return this.#noted;
  }

  note(position: Position): Promise<void> {
    if (!this.#newest) this.#noted = this.#noted.then(() => this.#writeNewest());
    this.#newest = position;
    return this.#noted;
  }

  async close(): Promise<void> {
    // Those who wait for it are told of its failure.
    await this.#noted.catch(() => undefined);
    await this.#file.close();
  }

  #writeNewest(): Promise<void> {
    const position = this.#newest;
    this.#newest = undefined;
    if (!position) throw new Error('invariant: a write of the position has one to note');
    return this.#file.write(position);
  }
}
