/**
 * The relay's LevelDB: the log, its hash tree, the rows and the wire bytes, changed together by one batch.
 *
 * Turns each batch of the engine into keys and values, and gives both to the durable log (durable-log.ts).
 *
 * Invariants:
 *   - one batch is written at a time, and batches become durable in their order;
 *   - a batch is durable before `append` resolves, and before anything but the rows shows it;
 *   - after one rejected write nothing is written again (LevelDB would acknowledge into a misaligned log).
 */
import { SCHEMA_VERSION, schemaIn, schemaMark, type Pruned, prunedMark, type ViewMark, viewMarkPair } from './marks.ts';
import { BatchEffects, type DurableLog, type LogBatch, PRUNED_AT_ONCE } from './durable-log.ts';
import { Encoding, type LevelBatch, addCheckpoint, addCollected, addHeartbeat, forgottenKeys } from './encoding.ts';
import type { TextsAround } from '../../protocol/encodings.ts';
import { type PublicKey, publicKeyBytes } from '../../protocol/public-key.ts';
import type { Epoch } from '../../protocol/names.ts';
import type { KnownPairs } from '../core/decide-push.ts';
import {
  type DedupRow,
  NO_USAGE,
  isMoved,
  type QueueRow,
  type RelayRow,
  type RowChange,
  type TableName,
  type Tables,
  type TargetRow,
  type UsageRow,
  rowKey,
} from '../core/rows.ts';
import type { DamagedRow } from './checksum.ts';
import { Collector } from './collect.ts';
import { PREFIX, SCHEMA_KEY, firstKeyOf, logKey, queueKey, rowKeyBytes, seqOf } from './keys.ts';
import { DedupCounts } from './dedup-counts.ts';
import { DedupKeys, type FillOptions, KnownItems, fillAndCount } from './known-items.ts';
import type { Level } from './level.ts';
import type { LogTree } from './log-tree.ts';
import { OldestItem, yieldToEventLoop } from './due.ts';
import { encodeRecord } from './record.ts';
import { isRun, recordPairs } from './record-run.ts';
import { checkpointMark } from './row-checkpoints.ts';
import { encodeRow } from './row-codec.ts';
import { type LogBounds, StoreReader } from './store-reader.ts';
import type { EncodedWires, WireThread } from './wire-thread.ts';

/** Less is read and encoded on the event loop: a thread costs more than it saves. */
const THREAD_BYTES_MIN = 64 << 10;
/** A payload of this size will be read by the thread, unless it is pulled alone. */
const LARGE_BYTES = 8 << 10;
/** Records and keys that are encoded and handed to LevelDB before other work gets its turn: a few milliseconds. */
const HANDED_OVER_AT_ONCE = 500;

export class RelayStore extends StoreReader {
  readonly #log: DurableLog;
  readonly collector: Collector;
  /** The Merkle trees over the log. */
  readonly tree: LogTree;
  readonly oldestItem: OldestItem;
  #failed = false;
  readonly #wires: WireThread | undefined;
  readonly #knownItems = new KnownItems();
  readonly #dedupKeys = new DedupKeys();
  #dedupCounts: DedupCounts | undefined;
  /** The items that waited in all queues together after the record at `lsn`. */
  #walked: { lsn: number; waiting: UsageRow } | undefined;
  /** The epoch of the last batch that set one, or of the relay row. */
  #epoch: Epoch | undefined;
  /** The schema that the database declares, once it was asked for. */
  #declared: number | undefined;
  /** The newest batch, as it is encoded, while it is not durable. */
  #appending: Promise<Encoding> | undefined;

  /**
   * `level` is open and verified, `tree` is that of its log. The store owns `level`, `log` and `wires` from here on.
   * There are `wires` only where `level` is shared.
   */
  constructor(level: Level, log: DurableLog, bounds: LogBounds, tree: LogTree, wires?: WireThread) {
    super(level, bounds);
    this.#log = log;
    this.#wires = wires;
    this.tree = tree;
    this.collector = new Collector(level);
    this.oldestItem = new OldestItem(level, (...place) => this.queueRow(...place).catch(() => undefined));
  }

  /** Says whether a write failed: nothing is written any more. */
  get isFailed(): boolean {
    return this.#failed;
  }

  /** Returns the format of what is written to the log now (core/log-format.ts). */
  get logFormat(): number {
    return this.#log.format;
  }

  override get<T extends TableName>(table: T, key: string): Tables[T] | undefined {
    if (table === 'dedup' && this.lacks(key)) return undefined;
    return super.get(table, key);
  }

  /** Says whether no dedup row of this key is stored or noted, as far as that is known in memory. */
  lacks(key: string): boolean {
    return this.#knownItems.lacks(this.#dedupKeys.of(key));
  }

  /**
   * The row of an item that may be known. Throws `DamagedRow`, also where it is gone; and `LookFirst` where the disk
   * must say whether it is.
   */
  known(key: string): DedupRow | undefined {
    if (this.lacks(key)) return undefined;
    const row = super.get('dedup', key);
    if (!row) this.#dedupCounts?.assertNew(this.#dedupKeys.of(key), this.#knownItems.isComplete);
    return row;
  }

  /** To be called before the row is admitted. */
  noteKnown(key: string, row: DedupRow): void {
    this.#knownItems.add(this.#dedupKeys.noted(key), row.dedupUntilMs);
    this.#knownItems.note(row);
  }

  readonly knownPairs: KnownPairs = (...query) => this.#knownItems.pairs(...query);

  /**
   * Reads into memory which dedup rows there are, so that LevelDB is not asked for new items, and counts them, so that
   * one that is gone is noticed; many of them by `countApart`, where it is given. To be called before the first batch.
   */
  fillKnownItems(options: FillOptions): Promise<void> {
    const onDamaged = (row: DamagedRow): void => this.damagedRows.note(row);
    this.#dedupCounts = new DedupCounts(this.level, { ...options, onDamaged });
    return fillAndCount(this.level, this.lastLsn, this.#knownItems, this.#dedupCounts, { ...options, onDamaged });
  }

  /**
   * Durable when it resolves. After a rejection the outcome is unknown, and nothing may be appended any more. The next
   * batch may be appended when `written` is called, or when this one is durable: batches become durable in their order.
   * `ahead` is what `encodeAhead` made of it.
   */
  async append(batch: LogBatch, ahead?: Encoding, written: () => void = () => undefined): Promise<void> {
    if (this.#failed) throw new Error('invariant: nothing is appended after a failed write');
    const encoded = await this.#toAppend(batch, ahead);
    const { writes, effects, firstLsn, records, growth, newDedupKeys, edits } = encoded;
    if (batch.collected) addCollected(encoded, batch.collected);
    await edits.resolve({ level: this.level, runs: this.queueRuns, writes, effects });
    this.collector.dropped(edits.droppedBytes);
    if (batch.pruned) await this.#addPruned(writes, batch.pruned);
    const { lastLsn } = encoded;
    this.#epoch = encoded.epoch ?? this.#epoch;
    if (records.length > 0) this.#epoch ??= this.get('relay', rowKey.relay)?.epoch;
    const nextMayCome = (): void => {
      this.queueRuns.written(edits.written, edits.fresh);
      // The next slice is read from what this batch left.
      if (batch.collected) this.collector.committed(batch.collected);
      written();
    };
    const newest = this.#appending;
    try {
      const viewBatch = { firstLsn, lastLsn, records, epoch: this.#epoch, batch, effects };
      await this.#log.append(viewBatch, writes, nextMayCome);
    } catch (error) {
      this.#failed = true;
      throw error;
    }
    if (this.#appending === newest) this.#appending = undefined;
    this.bounds = { lastLsn, pruned: batch.pruned ?? this.pruned };
    this.tree.grown(growth);
    for (const key of newDedupKeys) this.#dedupCounts?.added(key, lastLsn);
    this.#noteDurable(batch);
  }

  /** `ahead`, or the batch encoded behind the newest one that is not durable. */
  async #toAppend(batch: LogBatch, ahead: Encoding | undefined): Promise<Encoding> {
    const before = this.#appending;
    this.#appending = ahead ? Promise.resolve(ahead) : this.#encodedBehind(before, batch);
    try {
      return await this.#appending;
    } catch (error) {
      this.#appending = before;
      throw error;
    }
  }

  async #encodedBehind(before: Promise<Encoding> | undefined, batch: LogBatch): Promise<Encoding> {
    return this.#encoded(batch, await before);
  }

  /**
   * Encodes the next batch while one is being appended, but for what rests on that: what it collects and prunes, and
   * what it does to runs that are stored. `undefined`: it does not follow, and `append` encodes it.
   */
  async encodeAhead(batch: LogBatch): Promise<Encoding | undefined> {
    const before = await this.#appending;
    const [first] = batch.entries;
    if (!first || first.lsn !== (before?.lastLsn ?? this.lastLsn) + 1) return undefined;
    return this.#encoded(batch, before);
  }

  /**
   * As keys and values, but for what is collected, pruned, or done to runs that are stored. `before` is the batch in
   * front, while not durable.
   */
  async #encoded(batch: LogBatch, before: Encoding | undefined): Promise<Encoding> {
    const encoded = new Encoding(this.level.batch(), this.#log.isShared ? new BatchEffects() : undefined, {
      firstLsn: (before?.lastLsn ?? this.lastLsn) + 1,
      growth: this.tree.grow(before?.growth),
    });
    const { writes, shared, firstLsn, records, growth } = encoded;
    const lastLsn = firstLsn + batch.entries.length - 1;
    // A large batch is handed over in slices; nothing of it changes any more.
    const handed = (): number => records.length + writes.length;
    let nextPause = HANDED_OVER_AT_ONCE;
    const others = async (): Promise<void> => {
      nextPause = handed() + HANDED_OVER_AT_ONCE;
      await yieldToEventLoop();
    };
    // First: an item that one batch forgets and accepts anew must be known afterwards.
    for (const key of batch.forgotten ? forgottenKeys(batch.forgotten) : []) {
      shared.del(key);
      if (key[0] === PREFIX.dedup) this.#dedupCounts?.removed(key, lastLsn);
      if (handed() >= nextPause) await others();
    }
    for (const write of batch.node?.checkpoints ?? []) addCheckpoint(writes, write);
    for (const entry of batch.entries) {
      const lsn = firstLsn + records.length;
      if (entry.lsn !== lsn) throw new Error('invariant: log sequence numbers have no gap');
      const record = encodeRecord(entry);
      records.push(record);
      growth.add(entry, record);
      this.#dedupCounts?.lost(entry.event, lastLsn);
      if (entry.event.type === 'CheckpointTaken' && batch.node?.lacksParts?.(entry.event.throughLsn) !== true)
        writes.put(...checkpointMark(entry.event, lsn));
      if (handed() >= nextPause) await others();
    }
    for (const [key, value] of recordPairs(firstLsn, records)) {
      if (isRun(value)) this.#addDeclared(writes);
      writes.put(key, value);
    }
    for (const [key, value] of growth.writes) writes.put(key, value);
    for (const change of batch.changes) {
      this.#addRow(encoded, change);
      if (handed() >= nextPause) await others();
    }
    for (const [key, value] of encoded.due.entries(firstLsn)) shared.put(key, value);
    if (batch.node?.heartbeatMs !== undefined) addHeartbeat(writes, batch.node.heartbeatMs);
    for (const [key, value] of encoded.itemPairs(batch.payloads)) {
      writes.put(key, value);
      this.#addDeclared(writes);
      if (handed() >= nextPause) await others();
    }
    for (const payload of batch.node?.repaired ?? []) encoded.edits.repair(payload);
    return encoded;
  }

  /**
   * Returns what waits in all queues, without expiry notices. Walks over them only if records came since the last walk.
   */
  async waiting(): Promise<UsageRow> {
    const known = this.#walked;
    return known?.lsn === this.lastLsn ? known.waiting : await this.#walkQueues(() => undefined);
  }

  /** The bytes of the table files that hold the range, about: what is in memory alone is not counted. */
  storedBytes({ gte, lt }: { gte: Buffer; lt: Buffer }): Promise<number> {
    return this.level.approximateSize(gte, lt);
  }

  /** Has LevelDB write the tables of the range anew, without what was deleted. Writes go on meanwhile. */
  compact({ gte, lt }: { gte: Buffer; lt: Buffer }): Promise<void> {
    return this.level.compactRange(gte, lt);
  }

  /** Tells the collector of every queue that has rows left to collect. */
  async findUncollected(): Promise<void> {
    await this.collector.loadMarks();
    await this.#walkQueues((target, { ackedThrough }) => this.collector.note(target, ackedThrough));
  }

  /** Gives back the space of records that were pruned: LevelDB alone would take its time. */
  async compactRecords(fromLsn: number, throughLsn: number): Promise<void> {
    await this.level.compactRange(logKey(fromLsn), logKey(throughLsn));
  }

  /** Marks the database as a view of a log that is kept elsewhere. Nothing may be appended afterwards. */
  async becomeView(mark: ViewMark): Promise<void> {
    await this.level.put(...viewMarkPair(mark), { sync: true });
  }

  /** The wire bytes of queue rows between their texts; `undefined` where no thread does that, or some are damaged. */
  async encodedPayloads(rows: readonly QueueRow[], texts: TextsAround): Promise<EncodedWires | undefined> {
    return rows.reduce((sum, { bytes }) => sum + bytes, 0) < THREAD_BYTES_MIN
      ? undefined
      : this.#wires?.encode(rows, texts);
  }

  override async close(): Promise<void> {
    await this.#wires?.close();
    await super.close();
    await this.#log.close();
  }

  async #walkQueues(visit: (target: PublicKey, row: TargetRow) => void): Promise<UsageRow> {
    const lsn = this.lastLsn;
    const waiting = { ...NO_USAGE };
    for await (const run of this.targets())
      for (const { target, row } of run) {
        waiting.items += row.queueItems;
        waiting.bytes += row.queueBytes;
        visit(target, row);
      }
    this.#walked = { lsn, waiting };
    return waiting;
  }

  #noteDurable({ changes, payloads }: LogBatch): void {
    if (payloads.some(({ wire }) => wire.length > LARGE_BYTES)) this.#wires?.begin();
    for (const { table, row } of changes) if (table === 'queue' && row) this.oldestItem.added(row.expiresAtMs);
  }

  /** The records that go, and the mark. That a checkpoint stands for them is up to engine/log-retention.ts. */
  async #addPruned(writes: LevelBatch, pruned: Pruned): Promise<void> {
    const { throughLsn } = pruned;
    const { firstLsn } = this;
    if (throughLsn < firstLsn || throughLsn - firstLsn >= PRUNED_AT_ONCE || throughLsn > this.tree.prunableThrough)
      throw new Error('invariant: records are pruned in order, in slices, and not before the hash tree holds them');
    const keys = await this.level.keys({ gte: logKey(firstLsn), lte: logKey(throughLsn) }).all();
    if (!keys.at(-1)?.equals(logKey(throughLsn))) throw new Error('invariant: records are pruned to the end of a run');
    for (const key of keys) writes.del(key);
    writes.put(...prunedMark(pruned));
  }

  /** The row, and what is due because of it. */
  #addRow(encoded: Encoding, change: RowChange): void {
    const { shared: writes, due } = encoded;
    if (change.table === 'queue') {
      this.#addQueueRow(encoded, change);
      return;
    }
    const noted = change.table === 'dedup' ? this.#dedupKeys.taken(change.key) : undefined;
    const key = noted ?? rowKeyBytes(change.table, change.key);
    if (change.row === null) {
      writes.del(key);
      return;
    }
    writes.put(key, encodeRow(change.table, key, change.row));
    switch (change.table) {
      case 'relay': {
        encoded.epoch = change.row.epoch;
        this.#knownItems.purged(change.row.dedupPurgedMs);
        this.#addSchema(encoded, change.row);
        return;
      }
      case 'dedup':
        if (!noted) this.#knownItems.add(key, change.row.dedupUntilMs);
        if (change.row.lsn >= encoded.firstLsn) encoded.newDedupKeys.push(key);
        due.add(PREFIX.dedupUntil, change.row.dedupUntilMs, publicKeyBytes(change.row.senderPubkey), key.subarray(1));
        return;
      default:
    }
  }

  /**
   * Declares the schema of the relay row; a view that holds what is packed goes on declaring its own, so that older
   * software refuses it, and every copy of the log does the same all the same.
   */
  #addSchema({ writes, effects }: Encoding, { schemaVersion }: RelayRow): void {
    effects?.put(...schemaMark(schemaVersion));
    this.#declared = Math.max(schemaVersion, this.#declaredSchema);
    writes.put(...schemaMark(this.#declared));
  }

  /** To be called for each value that older software cannot read, with the batch that it comes in. */
  #addDeclared(writes: LevelBatch): void {
    if (this.#declaredSchema >= SCHEMA_VERSION) return;
    this.#declared = SCHEMA_VERSION;
    writes.put(...schemaMark(SCHEMA_VERSION));
  }

  get #declaredSchema(): number {
    return (this.#declared ??= schemaIn(this.level.getSync(SCHEMA_KEY)) ?? 0);
  }

  /** A queue row that goes takes its wire bytes with it, unless it is moved. */
  #addQueueRow(encoded: Encoding, { key: name, row, leavesPayload }: Extract<RowChange, { table: 'queue' }>): void {
    const { effects, edits, due } = encoded;
    if (!row) {
      const key = rowKeyBytes('queue', name);
      effects?.del(key);
      edits.remove(firstKeyOf(key), seqOf(key), leavesPayload ? 'moved' : 'dropped');
      return;
    }
    const key = queueKey(row.targetPubkey, row.seq);
    due.add(PREFIX.expiry, row.expiresAtMs, key.subarray(1));
    effects?.put(key, encodeRow('queue', key, row));
    if (isMoved(row)) edits.move(row);
    else encoded.addItem(row);
  }
}
