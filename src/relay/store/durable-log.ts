/**
 * The two seams of the log.
 *
 * The engine writes a `LogBatch`, which says what happens to the log, without a key of LevelDB. The relay's store turns
 * it into writes to its LevelDB, the view (relay-store.ts). A `DurableLog` then decides when the batch is durable. The
 * embedded form syncs LevelDB and notes the position outside it; a log that is kept elsewhere would store the encoded
 * batch first and write the view without a sync.
 *
 * A batch has a shared part, which every copy of the log applies alike, and a part of this node alone. The boundaries
 * of batches are part of the log: due entries are named by the first LSN of their batch (keys.ts, 42 and 51).
 */
import { createHash, hash } from 'node:crypto';
import type { Epoch } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { LogEntry } from '../core/event.ts';
import { LOG_FORMAT } from '../core/log-format.ts';
import type { RowChange } from '../core/rows.ts';
import type { CollectedSlice } from './collect.ts';
import { PREFIX } from './keys.ts';
import type { Position, PositionFile } from './position.ts';
import type { Pruned } from './marks.ts';

/** Wire bytes to store, at the place that their queue row names. */
export interface Payload {
  targetPubkey: PublicKey;
  seq: number;
  wire: Buffer;
  /** Of bytes that are put back: the run in which they lay (`QueueRow.payloadBound`). */
  bound?: number | undefined;
}

/**
 * The name of what one batch of items made due at one time. `lsn` is the first of the batch, or one that a rebuild
 * chose.
 */
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

/** A write keeps or drops a part of a row checkpoint (row-checkpoints.ts). */
export type CheckpointWrite =
  | ({ type: 'part'; packed: Buffer } & CheckpointPartName)
  | ({ type: 'drop part' } & CheckpointPartName)
  | { type: 'drop mark'; throughLsn: number };

/** The part of a batch that concerns this node alone: a log that several nodes share does not carry it. */
interface NodePart {
  /**
   * Says whether the parts of the checkpoint after this record lie elsewhere: its `CheckpointTaken` gets no mark here.
   */
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

/** A batch becomes durable as a whole, or not at all. */
export interface LogBatch {
  /** Contiguous, the first directly after `lastLsn`. There may be none: a heartbeat, a collection. */
  entries: readonly LogEntry[];
  /**
   * The changes that `reduce` makes of the entries, at most one for each row. A deleted queue row drops its wire bytes.
   */
  changes: Iterable<RowChange>;
  payloads: readonly Payload[];
  /** Acked rows whose space is given back, with their wire bytes. */
  collected?: CollectedSlice | undefined;
  forgotten?: Forgotten | undefined;
  /** The record through which the log is pruned: at most `PRUNED_AT_ONCE` records further than before. */
  pruned?: Pruned | undefined;
  node?: NodePart;
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
  /** The effects of the batch on the keys of the log, where the log asked for them. */
  effects: BatchEffects | undefined;
}

/** What a batch does to the database of this node. */
export interface BatchWrites {
  put(key: Buffer, value: Buffer): unknown;
  del(key: Buffer): unknown;
}

export interface ViewWrites {
  /** Adds a key of this node alone. */
  put(key: Buffer, value: Buffer): unknown;
  write(options: { sync: boolean }): Promise<void>;
}

/** Decides when a batch is durable. It is given the batches of a log one at a time, the next after `written`. */
export interface DurableLog {
  /** Says whether batches come with their effects: several nodes share the log. */
  readonly isShared: boolean;
  /** The format of what is written to it (core/log-format.ts). */
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
  /** The position that the next write notes. */
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

/** Small writes are gathered: each call of the hash costs more than hashing a hundred bytes. */
const GATHERED_BYTES = 64 << 10;
const LENGTH_BYTES = 4;
const FRAMES_BYTES = 1 + 2 * LENGTH_BYTES;

/**
 * Gathers what a batch does to those keys of the view that are of the log: rows, due entries, and what is collected.
 * Every copy of the log must do the same; the hash shows whether it does. It begins with the hash of the batch before,
 * so that two logs with one hash at one batch did the same in every batch up to it.
 *
 * To the byte: SHA-256 over the hash of the batch before (nothing before the first) and the SHA-256 of, for each write
 * in its order, 0 and the length of the key, u32, and the key; or 1, the same, and then the length of the value, u32,
 * and the value. Records and hash tiles are left out: the log holds the records, and the tiles follow from them. Wire
 * bytes are left out too: a later batch may have dropped them before a follower reads them, and the queue row holds
 * their hash.
 */
export class BatchEffects {
  readonly #hash = createHash('sha256');
  readonly #dropped = new Map<string, Buffer>();
  readonly #gathered = Buffer.allocUnsafe(GATHERED_BYTES);
  #length = 0;

  put(key: Buffer, value: Buffer): void {
    this.#reserve(FRAMES_BYTES + key.length + value.length);
    this.#addSort(1);
    this.#add(key);
    this.#add(value);
  }

  del(key: Buffer): void {
    if (key[0] === PREFIX.payload) {
      this.#dropped.set(key.toString('latin1'), key.subarray(1));
      return;
    }
    this.#reserve(FRAMES_BYTES + key.length);
    this.#addSort(0);
    this.#add(key);
  }

  /**
   * Returns the effects of everything so far, after a batch with the effects `before`; nothing can be added afterwards.
   */
  taken(before: Buffer): { effects: Buffer; dropped: Buffer[] } {
    this.#flush();
    const effects = createHash('sha256').update(before).update(this.#hash.digest()).digest();
    return { effects, dropped: [...this.#dropped.values()] };
  }

  /** Afterwards there is room for so many bytes, if there ever is. */
  #reserve(bytes: number): void {
    if (this.#length + bytes > GATHERED_BYTES) this.#flush();
  }

  #addSort(sort: number): void {
    this.#gathered[this.#length++] = sort;
  }

  #add(bytes: Buffer): void {
    this.#length = this.#gathered.writeUInt32BE(bytes.length, this.#length);
    if (this.#length + bytes.length + FRAMES_BYTES > GATHERED_BYTES) {
      this.#flush();
      this.#hash.update(bytes);
      return;
    }
    this.#gathered.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  #flush(): void {
    this.#hash.update(this.#gathered.subarray(0, this.#length));
    this.#length = 0;
  }
}
