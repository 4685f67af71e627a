/**
 * The relay's LevelDB: the log, its hash tree, the rows and the wire bytes, changed together by one synced batch.
 *
 * Invariants:
 *   - one batch is in flight at a time, always with `sync: true`;
 *   - a batch is durable, and its position noted outside LevelDB, before `append` resolves;
 *   - after one rejected write nothing is written again (LevelDB would acknowledge into a misaligned log).
 */
import { hash } from 'node:crypto';
import { PUBLIC_KEY_CHARACTERS, type PublicKey, publicKeyFromBytes } from '../../protocol/public-key.ts';
import type { LogEntry } from '../core/event.ts';
import {
  type EnrolmentRow,
  type QueueRow,
  type RowChange,
  type RowReader,
  type TableName,
  type Tables,
  type TargetRow,
  rowKey,
} from '../core/rows.ts';
import { type CollectedSlice, Collector } from './collect.ts';
import {
  DEDUP_RUN_BYTES,
  EXPIRY_RUN_BYTES,
  PREFIX,
  REPLAYED_TABLES,
  SCHEMA_KEY,
  collectedKey,
  dueKey,
  dueTimeOf,
  firstKeyOf,
  logKey,
  payloadKey,
  prefixRange,
  queueKey,
  queueRowKey,
  rowKeyBytes,
  seqOf,
} from './keys.ts';
import type { Level } from './level.ts';
import { type CommitBatch, type EventLog, PRUNED_AT_ONCE } from './log.ts';
import { type ArchiveStamp, type LogStretch, holdsStretch, writeArchive } from './log-archive.ts';
import type { LogTree } from './log-tree.ts';
import { OldestItem } from './oldest-item.ts';
import { keyBytes } from './packing.ts';
import type { PositionFile } from './position.ts';
import { type Pruned, prunedMark } from './pruned.ts';
import { checkRecord, decodeRecord, encodeRecord } from './record.ts';
import { type QueueSlice, queueSlice } from './queue-walk.ts';
import { RowCheckpoints, checkpointMark } from './row-checkpoints.ts';
import { decodeRow, encodeRow } from './row-codec.ts';
import { StoreSnapshot } from './snapshot.ts';
import { storedRecords, storedRecordsBack } from './stored-records.ts';

/** The library's batches given as arrays cost ten times as much of the loop. */
type LevelBatch = ReturnType<Level['batch']>;

const READ_BYTES = 4 << 20;
/** Keys given to LevelDB before others get their turn: a few milliseconds, encoding included. */
const HANDED_OVER_AT_ONCE = 500;

/** Rows looked up before others get their turn. */
const DUE_RUNS_AT_ONCE = 500;

export interface DueItems {
  /** The entry itself, to be forgotten when its items are dealt with. */
  key: Buffer;
  /** Sequence numbers, ascending, of rows that may be gone by now. */
  targets: ReadonlyMap<PublicKey, number[]>;
}

export interface DueDedup {
  dueMs: number;
  /** How many rows of each sender key. */
  senders: ReadonlyMap<PublicKey, number>;
  /** The entries and their rows. */
  keys: Buffer[];
}

/** Where the log of a store begins and ends. */
export interface LogBounds {
  lastLsn: number;
  pruned: Pruned;
}

export class RelayStore implements EventLog, RowReader {
  readonly #level: Level;
  readonly #position: PositionFile;
  readonly collector: Collector;
  /** The Merkle trees over the log. */
  readonly tree: LogTree;
  readonly oldestItem: OldestItem;
  readonly checkpoints: RowCheckpoints;
  #lastLsn: number;
  #pruned: Pruned;
  #failed = false;

  /** `level` is open and verified, `tree` that of its log; the store owns it and the position file from here on. */
  constructor(level: Level, position: PositionFile, { lastLsn, pruned }: LogBounds, tree: LogTree) {
    this.#level = level;
    this.#position = position;
    this.#lastLsn = lastLsn;
    this.#pruned = pruned;
    this.tree = tree;
    this.checkpoints = new RowCheckpoints(level);
    this.collector = new Collector(level);
    this.oldestItem = new OldestItem(level);
  }

  get lastLsn(): number {
    return this.#lastLsn;
  }

  get firstLsn(): number {
    return this.#pruned.throughLsn + 1;
  }

  /** How far the log was pruned. */
  get pruned(): Pruned {
    return this.#pruned;
  }

  get<T extends TableName>(table: T, key: string): Tables[T] | undefined {
    const bytes = this.#level.getSync(rowKeyBytes(table, key));
    return bytes && decodeRow(table, key, bytes);
  }

  hasPayload(row: QueueRow): boolean {
    return this.#level.getSync(payloadKey(row.payloadTarget, row.payloadSeq)) !== undefined;
  }

  async append(batch: CommitBatch): Promise<void> {
    if (this.#failed) throw new Error('invariant: nothing is appended after a failed write');
    const writes = this.#level.batch();
    // A large batch is handed over in stretches; nothing of it changes any more.
    let nextPause = HANDED_OVER_AT_ONCE;
    const othersMayGo = async (): Promise<void> => {
      nextPause = writes.length + HANDED_OVER_AT_ONCE;
      await othersTurn();
    };
    // First, so that an item forgotten and accepted anew in one batch is known.
    for (const key of batch.forgotten) {
      writes.del(key);
      if (writes.length >= nextPause) await othersMayGo();
    }
    for (const [key, value] of batch.beside ?? []) {
      if (value) writes.put(key, value);
      else writes.del(key);
      if (writes.length >= nextPause) await othersMayGo();
    }
    let lsn = this.#lastLsn;
    let lastRecord: Buffer | undefined;
    const growth = this.tree.grow();
    for (const entry of batch.entries) {
      if (entry.lsn !== ++lsn) throw new Error('invariant: log sequence numbers have no gap');
      lastRecord = encodeRecord(entry);
      writes.put(logKey(lsn), lastRecord);
      growth.add(entry, lastRecord);
      if (entry.event.type === 'CheckpointTaken') writes.put(...checkpointMark(entry.event, lsn));
      if (writes.length >= nextPause) await othersMayGo();
    }
    for (const [key, value] of growth.writes) writes.put(key, value);
    const due = new DueEntries();
    for (const change of batch.changes) {
      this.#addRow(writes, due, change);
      if (writes.length >= nextPause) await othersMayGo();
    }
    for (const [key, value] of due.entries(this.#lastLsn + 1)) writes.put(key, value);
    for (const { targetPubkey, seq, wire } of batch.payloads) {
      writes.put(payloadKey(targetPubkey, seq), wire);
      if (writes.length >= nextPause) await othersMayGo();
    }
    if (batch.collected) addCollected(writes, batch.collected);
    if (batch.pruned) this.#addPruned(writes, batch.pruned);
    try {
      await writes.write({ sync: true });
      this.#lastLsn = lsn;
      if (lastRecord) await this.#notePosition(lsn, lastRecord);
    } catch (error) {
      this.#failed = true;
      throw error;
    }
    this.tree.grown(growth);
    if (batch.pruned) this.#pruned = batch.pruned;
    if (batch.collected) this.collector.committed(batch.collected);
    for (const { table, key, row } of batch.changes) {
      if (table === 'target' && row) this.collector.note(key as PublicKey, row.ackedThrough);
      else if (table === 'queue' && row) this.oldestItem.added(row.expiresAtMs);
    }
  }

  async *read(fromLsn: number): AsyncGenerator<LogEntry> {
    const first = Math.max(fromLsn, this.firstLsn);
    for await (const [lsn, record] of storedRecords(this.#level, first, this.#lastLsn)) yield decodeRecord(lsn, record);
  }

  /** The bytes of one record as they are stored, checked; `undefined` when it was pruned. Throws `DamagedRecord`. */
  record(lsn: number): Buffer | undefined {
    const record = this.#level.getSync(logKey(lsn));
    if (record) checkRecord(lsn, record);
    return record;
  }

  /** As `record`, decoded. */
  entry(lsn: number): LogEntry | undefined {
    const record = this.record(lsn);
    return record && decodeRecord(lsn, record);
  }

  /** The records below `beforeLsn`, the newest first, in runs small enough to be read in one turn of the loop. */
  async *readBack(beforeLsn: number): AsyncGenerator<LogEntry[]> {
    for await (const run of storedRecordsBack(this.#level, Math.min(beforeLsn - 1, this.#lastLsn), this.firstLsn))
      yield run.map(([lsn, record]) => decodeRecord(lsn, record));
  }

  /** Every target row: the queues as a whole. */
  async *targets(): AsyncGenerator<TargetRow> {
    for await (const [key, value] of this.#level.iterator(prefixRange(PREFIX.target))) {
      yield decodeRow('target', firstKeyOf(key), value);
    }
  }

  /** Queue rows with `after` < seq <= `through`, ascending, at most `limit`. */
  async queueRows(target: PublicKey, after: number, through: number, limit: number): Promise<QueueRow[]> {
    if (after >= through) return [];
    const iterator = this.#level.iterator({
      gt: queueKey(target, after),
      lte: queueKey(target, through),
      limit,
      highWaterMarkBytes: READ_BYTES,
    });
    try {
      const rows: QueueRow[] = [];
      for (;;) {
        const run = await iterator.nextv(limit);
        if (run.length === 0) return rows;
        for (const [key, value] of run) rows.push(decodeRow('queue', queueRowKey(key), value));
      }
    } finally {
      await iterator.close();
    }
  }

  /** Queue rows of all targets: see queue-walk.ts. */
  queueSlice(after: Buffer, through: Buffer, bytesMax: number): Promise<QueueSlice | undefined> {
    return queueSlice(this.#level, after, through, bytesMax);
  }

  /**
   * The wire bytes of `rows`, in their order; `undefined` where they are missing. One scan where the payloads lie
   * together, which they do unless a rotation moved rows.
   */
  async payloads(rows: readonly QueueRow[]): Promise<(Buffer | undefined)[]> {
    const first = rows[0];
    const last = rows.at(-1);
    if (!first || !last) return [];
    if (rows.some((row) => row.payloadTarget !== first.payloadTarget)) {
      return this.#level.getMany(
        rows.map((row) => payloadKey(row.payloadTarget, row.payloadSeq)),
        { fillCache: false },
      );
    }
    const found = new Map<number, Buffer>();
    const iterator = this.#level.iterator({
      gte: payloadKey(first.payloadTarget, first.payloadSeq),
      lte: payloadKey(first.payloadTarget, last.payloadSeq),
      fillCache: false,
      highWaterMarkBytes: READ_BYTES,
    });
    try {
      for (;;) {
        const run = await iterator.nextv(rows.length);
        if (run.length === 0) break;
        for (const [key, wire] of run) found.set(seqOf(key), wire);
      }
    } finally {
      await iterator.close();
    }
    return rows.map((row) => found.get(row.payloadSeq));
  }

  /** The oldest entry of items whose time came by `nowMs`, by target. */
  async dueItems(nowMs: number): Promise<DueItems | undefined> {
    const entry = await this.#oldestDue(PREFIX.expiry, nowMs);
    if (!entry) return undefined;
    const targets = new Map<PublicKey, number[]>();
    for (let at = 0; at < entry.value.length; at += EXPIRY_RUN_BYTES) {
      const target = publicKeyFromBytes(entry.value.subarray(at, at + 32));
      const seqs = targets.get(target) ?? [];
      seqs.push(Number(entry.value.readBigUInt64BE(at + 32)));
      targets.set(target, seqs);
    }
    return { key: entry.key, targets };
  }

  /**
   * The dedup rows of the oldest time that may go by `nowMs`: those that are still there and were not renewed. All
   * entries of that time together: once it is purged, none of its rows is known any more, and a row accepted anew would
   * hide that the old one was counted.
   */
  async dueDedup(nowMs: number): Promise<DueDedup | undefined> {
    const oldest = await this.#oldestDue(PREFIX.dedupUntil, nowMs);
    if (!oldest) return undefined;
    const { dueMs } = oldest;
    const range = { gte: dueKey(PREFIX.dedupUntil, dueMs, 0), lt: dueKey(PREFIX.dedupUntil, dueMs + 1, 0) };
    const entries = await this.#level.iterator(range).all();
    const gone = new Map(entries.map(([key]) => [key.toString('hex'), key]));
    const senders = new Map<PublicKey, number>();
    for (const [, value] of entries) {
      for (let from = 0; from < value.length; from += DEDUP_RUN_BYTES * DUE_RUNS_AT_ONCE) {
        const runs = value.subarray(from, from + DEDUP_RUN_BYTES * DUE_RUNS_AT_ONCE);
        await this.#findDue(runs, dueMs, gone, senders);
        await othersTurn();
      }
    }
    return { dueMs, senders, keys: [...gone.values()] };
  }

  /** Of these runs of a dedup entry: the rows that may go, and how many each sender has of them. */
  async #findDue(
    runs: Buffer,
    dueMs: number,
    gone: Map<string, Buffer>,
    senders: Map<PublicKey, number>,
  ): Promise<void> {
    const places = Array.from({ length: runs.length / DEDUP_RUN_BYTES }, (_none, at) => at * DEDUP_RUN_BYTES);
    const keys = places.map((at) =>
      Buffer.concat([Buffer.of(PREFIX.dedup), runs.subarray(at + 32, at + DEDUP_RUN_BYTES)]),
    );
    const values = await this.#level.getMany(keys);
    for (const [position, at] of places.entries()) {
      const [key, value] = [keys[position], values[position]];
      // The key holds hashes of the ids; the deadline is in the value.
      if (!key || !value || decodeRow('dedup', '', value).dedupUntilMs > dueMs) continue;
      const mark = key.toString('hex');
      // A row written twice is due twice.
      if (gone.has(mark)) continue;
      gone.set(mark, key);
      const sender = publicKeyFromBytes(runs.subarray(at, at + 32));
      senders.set(sender, (senders.get(sender) ?? 0) + 1);
    }
  }

  async #oldestDue(prefix: number, nowMs: number): Promise<{ key: Buffer; dueMs: number; value: Buffer } | undefined> {
    const range = { gte: dueKey(prefix, 0, 0), lt: dueKey(prefix, nowMs + 1, 0), limit: 1 };
    const [first] = await this.#level.iterator(range).all();
    return first && { key: first[0], dueMs: dueTimeOf(first[0]), value: first[1] };
  }

  /** Everything as it is now, for a backup. To be taken while no batch is in flight, and to be closed. */
  snapshot(): StoreSnapshot {
    const relay = this.get('relay', rowKey.relay);
    if (!relay) throw new Error('invariant: a store that is backed up is initialised');
    return new StoreSnapshot(this.#level, relay, this.#lastLsn);
  }

  /** Every deny and invite row. */
  async admissionRows(): Promise<RowChange[]> {
    const changes: RowChange[] = [];
    for await (const [, value] of this.#level.iterator(prefixRange(PREFIX.deny))) {
      const row = decodeRow('deny', '', value);
      changes.push({ table: 'deny', key: rowKey.deny(row), row });
    }
    for await (const [key, value] of this.#level.iterator(prefixRange(PREFIX.invite))) {
      const hash = key.subarray(1).toString('hex');
      changes.push({ table: 'invite', key: hash, row: decodeRow('invite', hash, value) });
    }
    return changes;
  }

  /** The rotated keys whose queues are still on their way. */
  async moves(): Promise<PublicKey[]> {
    const keys = await this.#level.keys(prefixRange(PREFIX.move)).all();
    return keys.map(firstKeyOf);
  }

  /** Every enrolment row, in order of enrolment. */
  async enrolments(): Promise<EnrolmentRow[]> {
    const rows: EnrolmentRow[] = [];
    for await (const [key, value] of this.#level.iterator(prefixRange(PREFIX.enrolment))) {
      rows.push(decodeRow('enrolment', firstKeyOf(key), value));
    }
    return rows.toSorted((a, b) => a.enrolledAtMs - b.enrolledAtMs);
  }

  /** Tells the collector of every queue that has rows left to collect. */
  async findUncollected(): Promise<void> {
    for await (const [key, value] of this.#level.iterator(prefixRange(PREFIX.target))) {
      const target = firstKeyOf(key);
      this.collector.note(target, decodeRow('target', target, value).ackedThrough);
    }
  }

  /** An archive of these records, piece by piece. Throws `DamagedRecord`. */
  archive(stretch: LogStretch, stamp: ArchiveStamp): AsyncGenerator<Buffer> {
    return writeArchive(this.#level, stretch, stamp);
  }

  /** Whether the archive at `path` is whole and holds exactly these records. */
  isArchived(path: string, stretch: LogStretch): Promise<boolean> {
    return holdsStretch(path, this.#level, stretch);
  }

  /** Gives back the space of records that were pruned: LevelDB alone would take its time. */
  async compactRecords(fromLsn: number, throughLsn: number): Promise<void> {
    await this.#level.compactRange(logKey(fromLsn), logKey(throughLsn));
  }

  /** Every stored pair under the row tables, for comparison with a replay: the raw key and value. */
  async *rawRows(): AsyncGenerator<[Buffer, Buffer]> {
    for (const table of REPLAYED_TABLES) yield* this.#level.iterator(prefixRange(PREFIX[table]));
  }

  async close(): Promise<void> {
    await this.#level.close();
    await this.#position.close();
  }

  async #notePosition(lsn: number, record: Buffer): Promise<void> {
    const relay = this.get('relay', '');
    if (!relay) throw new Error('invariant: a store with records has a relay row');
    await this.#position.write({ lsn, recordHash: hash('sha256', record, 'buffer'), epoch: relay.epoch });
  }

  /** The records that go, and the mark. That a checkpoint stands for them is the business of engine/log-keeping.ts. */
  #addPruned(writes: LevelBatch, pruned: Pruned): void {
    const { throughLsn } = pruned;
    const { firstLsn } = this;
    if (throughLsn < firstLsn || throughLsn - firstLsn >= PRUNED_AT_ONCE || throughLsn > this.tree.prunableThrough)
      throw new Error('invariant: records are pruned in order, in slices, and not before the hash tree holds them');
    for (let lsn = firstLsn; lsn <= throughLsn; lsn++) writes.del(logKey(lsn));
    writes.put(...prunedMark(pruned));
  }

  /** The row, and what is due because of it. */
  #addRow(writes: LevelBatch, due: DueEntries, change: RowChange): void {
    const key = rowKeyBytes(change.table, change.key);
    if (change.row === null) {
      if (change.table === 'queue' && !change.leavesPayload) this.#dropPayload(writes, change.key);
      writes.del(key);
      return;
    }
    writes.put(key, encodeRow(change.table, change.row));
    switch (change.table) {
      case 'relay': {
        const schema = Buffer.alloc(4);
        schema.writeUInt32BE(change.row.schemaVersion);
        writes.put(SCHEMA_KEY, schema);
        return;
      }
      case 'queue':
        due.add(PREFIX.expiry, change.row.expiresAtMs, key.subarray(1));
        return;
      case 'dedup':
        due.add(PREFIX.dedupUntil, change.row.dedupUntilMs, keyBytes(change.row.senderPubkey), key.subarray(1));
        return;
      default:
    }
  }

  /** A queue row that an event deletes takes its wire bytes with it. */
  #dropPayload(writes: LevelBatch, key: string): void {
    const row = this.get('queue', key);
    // A row that is gone itself (an `ItemLost`) leaves its bytes where they were put when it was accepted.
    const target = row?.payloadTarget ?? (key.slice(0, PUBLIC_KEY_CHARACTERS) as PublicKey);
    writes.del(payloadKey(target, row?.payloadSeq ?? Number(key.slice(PUBLIC_KEY_CHARACTERS))));
  }
}

/** The due entries of one batch, by prefix and time. */
class DueEntries {
  readonly #runs = new Map<string, { prefix: number; dueMs: number; parts: Buffer[] }>();

  add(prefix: number, dueMs: number, ...parts: Buffer[]): void {
    const mark = `${prefix} ${dueMs}`;
    const run = this.#runs.get(mark);
    if (run) run.parts.push(...parts);
    else this.#runs.set(mark, { prefix, dueMs, parts });
  }

  *entries(lsn: number): Generator<[Buffer, Buffer]> {
    for (const { prefix, dueMs, parts } of this.#runs.values())
      yield [dueKey(prefix, dueMs, lsn), Buffer.concat(parts)];
  }
}

function othersTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

function addCollected(writes: LevelBatch, { targetPubkey, keys, through }: CollectedSlice): void {
  for (const key of keys) writes.del(key);
  const value = Buffer.alloc(8);
  value.writeBigUInt64BE(BigInt(through));
  writes.put(collectedKey(targetPubkey), value);
}
