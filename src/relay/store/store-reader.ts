/**
 * Reads a relay's LevelDB: rows, records, wire bytes. Writes nothing.
 *
 * A stopped store, a backup and an archive are opened with this reader alone; relay-store.ts adds the writer.
 */
import { caught } from '../../lib/caught.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { LogEntry } from '../core/event.ts';
import {
  afterLooks,
  type EnrolmentRow,
  type QueueRow,
  type RowChange,
  type RowReader,
  type TableName,
  type Tables,
  type TargetRow,
  rowKey,
  type RelayRow,
} from '../core/rows.ts';
import { PREFIX, REPLAYED_TABLES, firstKeyOf, prefixRange, rowKeyBytes, seqOf } from './keys.ts';
import type { Level, LevelSnapshot } from './level.ts';
import { DueIndex } from './due.ts';
import { rowPairs } from './item-run.ts';
import { QueueRuns } from './queue-runs.ts';
import { checkRecord, decodeRecord, decodeWholeRecord } from './record.ts';
import { RecentRuns, lastEndUpTo, recordRunsBack, storedRecords } from './record-run.ts';
import { type QueueSlice, queueSlice, runsOf, tableRows, damagedBehind, DamagedRows } from './scan.ts';
import { RowCheckpoints, canonicalRows } from './row-checkpoints.ts';
import { DamagedRow } from './checksum.ts';
import { decodeRow } from './row-codec.ts';
import type { Pruned } from './marks.ts';
import type { Pair } from '../../lib/pair-block.ts';

/** The bounds of the log of a store. */
export interface LogBounds {
  lastLsn: number;
  pruned: Pruned;
}

export class StoreReader implements RowReader {
  /** Damaged rows that a read or a walk of this store found. */
  readonly damagedRows = new DamagedRows();
  readonly checkpoints: RowCheckpoints;
  readonly due: DueIndex;
  /** Only the store writes to it. */
  readonly level: Level;
  protected readonly queueRuns: QueueRuns;
  protected bounds: LogBounds;
  readonly #recentRuns: RecentRuns;
  readonly #note = (error: unknown): never => {
    if (error instanceof DamagedRow) this.damagedRows.note(error);
    throw error;
  };
  #snapshots = 0;

  /** `level` is open; the reader owns it from here on. */
  constructor(level: Level, bounds: LogBounds) {
    this.level = level;
    this.bounds = bounds;
    this.queueRuns = new QueueRuns(level);
    this.#recentRuns = new RecentRuns(level);
    this.checkpoints = new RowCheckpoints(level);
    this.due = new DueIndex(level, this.damagedRows);
  }

  /** Returns where the database is. */
  get location(): string {
    return this.level.location;
  }

  /** The last durable record; 0 when there is none. */
  get lastLsn(): number {
    return this.bounds.lastLsn;
  }

  /** The first record that was not pruned. */
  get firstLsn(): number {
    return this.bounds.pruned.throughLsn + 1;
  }

  /** Returns how far the log was pruned. */
  get pruned(): Pruned {
    return this.bounds.pruned;
  }

  /** Throws `DamagedRow`; and `LookFirst` for a queue row that may be in a run of which nobody knows here. */
  get<T extends TableName>(table: T, key: string): Tables[T] | undefined {
    const stored = rowKeyBytes(table, key);
    if (table === 'queue')
      return this.#noted(() => this.queueRuns.row(firstKeyOf(stored), seqOf(stored))) as Tables[T] | undefined;
    const value = this.level.getSync(stored);
    return value && this.#row(table, stored, value, key);
  }

  /** The row of an item, wherever it lies. Throws `DamagedRow`. */
  queueRow(target: PublicKey, seq: number): Promise<QueueRow | undefined> {
    return afterLooks(() => this.get('queue', rowKey.queue(target, seq)));
  }

  /** What is read from here on is read from the disk. */
  forgetDecoded(): void {
    this.queueRuns.forgetDecoded();
  }

  /** Looks for many rows of one queue at once: as `QueueRuns.find`. */
  findRows(target: PublicKey, seqs: readonly number[]): Promise<(number | undefined)[]> {
    return this.queueRuns.find(target, seqs);
  }

  hasPayload(row: QueueRow): boolean {
    return this.queueRuns.hasWire(row);
  }

  /**
   * The records from `fromLsn` on that were not pruned, each checked. Throws `DamagedRecord` at the first that is
   * missing or altered, or that is pruned meanwhile.
   */
  async *read(fromLsn: number): AsyncGenerator<LogEntry> {
    const first = Math.max(fromLsn, this.firstLsn);
    for await (const [lsn, record] of storedRecords(this.level, first, this.lastLsn)) yield decodeRecord(lsn, record);
  }

  /** The bytes of one record as they are stored, checked; `undefined` when it was pruned. Throws `DamagedRecord`. */
  async record(lsn: number): Promise<Buffer | undefined> {
    if (lsn < this.firstLsn) return undefined;
    const record = await this.#recentRuns.recordAt(lsn);
    if (record) checkRecord(lsn, record);
    return record;
  }

  /** As `record`, decoded. */
  async entry(lsn: number): Promise<LogEntry | undefined> {
    const record = await this.record(lsn);
    return record && decodeWholeRecord(lsn, record);
  }

  /** The last record up to `lsn` through which the log may be pruned: behind it begins another run; 0 for none. */
  lastEndUpTo(lsn: number): Promise<number> {
    return lastEndUpTo(this.level, lsn);
  }

  /** The records below `beforeLsn`, the newest first, in runs small enough to be read in one turn of the loop. */
  async *readBack(beforeLsn: number): AsyncGenerator<LogEntry[]> {
    const lastLsn = Math.max(0, Math.min(beforeLsn - 1, this.lastLsn));
    for await (const run of recordRunsBack(this.level, lastLsn, this.firstLsn))
      yield run.map(([lsn, record]) => decodeRecord(lsn, record));
  }

  /** Every target row, in runs: the queues as a whole. */
  async *targets(): AsyncGenerator<{ target: PublicKey; row: TargetRow }[]> {
    for await (const run of runsOf(this.level, prefixRange(PREFIX.target)))
      yield run.map(([key, value]) => ({ target: firstKeyOf(key), row: this.#row('target', key, value) }));
  }

  /** Queue rows with `after` < seq <= `through`, ascending, at most `limit`. Throws `DamagedRow`. */
  queueRows(target: PublicKey, after: number, through: number, limit: number): Promise<QueueRow[]> {
    return this.queueRuns.rows(target, after, through, limit).catch(this.#note);
  }

  /**
   * Queue rows of all targets, as `queueSlice` in scan.ts has them, without those that were acked. `ackedThrough` says
   * how far a queue was; where it throws `DamagedRow`, the queue is left out.
   */
  async waitingSlice(
    [after, through]: readonly [after: Buffer, through: Buffer],
    bytesMax: number,
    ackedThrough: (target: PublicKey) => number,
  ): Promise<QueueSlice | undefined> {
    const slice = await queueSlice(this.level, after, through, bytesMax);
    const waits = ({ targetPubkey, seq }: QueueRow): boolean =>
      caught(
        () => seq > ackedThrough(targetPubkey),
        DamagedRow,
        () => false,
      );
    return slice && { ...slice, rows: slice.rows.filter(waits) };
  }

  /** Checks the next rows of every table behind `after`, and notes damaged ones. Returns where to continue. */
  async checkRows(after: Buffer): Promise<Buffer | undefined> {
    const walked = await damagedBehind(this.level, after);
    for (const error of walked?.damaged ?? []) this.damagedRows.note(error);
    return walked?.place;
  }

  /**
   * The wire bytes of rows that were read, in their order; `undefined` where they are missing, or are not what was
   * written. Those of a row without a `payloadBound` have no checksum: they are to be compared with their hash.
   */
  payloads(rows: readonly QueueRow[]): Promise<(Buffer | undefined)[]> {
    return this.queueRuns.wires(rows);
  }

  /** Says whether a snapshot is open: what it shows stays on the disk. */
  get hasSnapshots(): boolean {
    return this.#snapshots > 0;
  }

  /** Everything as it is now, for a backup. To be taken while no batch is in flight, and to be closed. */
  snapshot(): StoreSnapshot {
    const relay = this.get('relay', rowKey.relay);
    if (!relay) throw new Error('invariant: a store that is backed up is initialised');
    const snapshot = new StoreSnapshot({
      level: this.level,
      relay,
      lsn: this.lastLsn,
      onClosed: () => this.#snapshots--,
    });
    this.#snapshots++;
    return snapshot;
  }

  /** Every deny and invite row. */
  async admissionRows(): Promise<RowChange[]> {
    const changes: RowChange[] = [];
    for await (const run of runsOf(this.level, prefixRange(PREFIX.deny)))
      for (const [key, value] of run) {
        const row = this.#row('deny', key, value);
        changes.push({ table: 'deny', key: rowKey.deny(row), row });
      }
    for await (const run of runsOf(this.level, prefixRange(PREFIX.invite)))
      for (const [key, value] of run)
        changes.push({ table: 'invite', key: key.subarray(1).toString('hex'), row: this.#row('invite', key, value) });
    return changes;
  }

  /** Yields what each sender has queued where, and how much is remembered of it; without rows that cannot be read. */
  async *mailRows(): AsyncGenerator<RowChange> {
    for await (const listed of tableRows(this.level, 'share'))
      if (listed) yield { table: 'share', key: listed[0], row: listed[1] };
    for await (const listed of tableRows(this.level, 'sender'))
      if (listed) yield { table: 'sender', key: listed[0], row: listed[1] };
  }

  /** The rotated keys whose queues are still on their way. */
  async moves(): Promise<PublicKey[]> {
    const keys = await this.level.keys(prefixRange(PREFIX.move)).all();
    return keys.map(firstKeyOf);
  }

  /** Every enrolment row, in order of enrolment. */
  async enrolments(): Promise<EnrolmentRow[]> {
    const rows: EnrolmentRow[] = [];
    for await (const run of runsOf(this.level, prefixRange(PREFIX.enrolment)))
      for (const [key, value] of run) rows.push(this.#row('enrolment', key, value));
    return rows.toSorted((a, b) => a.enrolledAtMs - b.enrolledAtMs);
  }

  /** Every row of the row tables, for comparison with a replay: the key and the value that it has alone. */
  async *rawRows(): AsyncGenerator<Pair> {
    for (const table of REPLAYED_TABLES)
      for await (const pair of this.level.iterator(prefixRange(PREFIX[table])))
        yield* table === 'queue' ? rowPairs(pair) : [pair];
  }

  async close(): Promise<void> {
    await this.level.close();
  }

  /** As `decodeRow`; a damaged row is noted. */
  #row<T extends TableName>(table: T, key: Buffer, value: Buffer, text?: string): Tables[T] {
    return this.#noted(() => decodeRow(table, key, value, text));
  }

  /** A row that is found to be damaged is noted. */
  #noted<R>(read: () => R): R {
    try {
      return read();
    } catch (error) {
      return this.#note(error);
    }
  }
}

/** Above every key. */
const LAST_KEY = Buffer.of(0xff);

/** One turn of the event loop: judging these rows takes about 2 ms. */
export const TURN = { pairs: 250, bytes: 256 << 10 };

interface SnapshotParts {
  level: Level;
  relay: RelayRow;
  lsn: number;
  /** Called once. */
  onClosed: () => void;
}

/**
 * A store at one moment, to be read while it goes on. It keeps what was stored at that moment readable, however much is
 * deleted meanwhile, so it must be closed whether the reading succeeds or not.
 */
export class StoreSnapshot {
  readonly level: Level;
  readonly handle: LevelSnapshot;
  /** The relay row of that moment. */
  readonly relay: RelayRow;
  /** The last record of that moment. */
  readonly lsn: number;
  #onClosed: (() => void) | undefined;

  /** `relay` and `lsn` are of the moment at which this is called. */
  constructor({ level, relay, lsn, onClosed }: SnapshotParts) {
    this.level = level;
    this.handle = level.snapshot();
    this.relay = relay;
    this.lsn = lsn;
    this.#onClosed = onClosed;
  }

  /** Bytes on disk, about: the last writes are not counted. */
  bytesAbout(): Promise<number> {
    return this.level.approximateSize(Buffer.alloc(0), LAST_KEY);
  }

  /** The rows, and the entries that name the senders of dedup rows, in runs of one turn of the event loop. */
  rows(): AsyncGenerator<Pair[]> {
    return canonicalRows(this.level, [...REPLAYED_TABLES, 'dedupUntil'], { snapshot: this.handle, ...TURN });
  }

  async close(): Promise<void> {
    await this.handle.close();
    this.#onClosed?.();
    this.#onClosed = undefined;
  }
}
