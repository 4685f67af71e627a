/**
 * A replay of the log: the rows that it gives, and the hash trees, in a database of its own under the keys of the store.
 *
 * A million events leave more rows than belong in memory, so changed rows are held until the next `flush`, and rows that
 * are read often (quotas, target rows) a little longer; everything else is on disk. Acked items and purged dedup rows are
 * left out, as the live store leaves them to its collector.
 *
 * A replay begins with the first record or, when that was pruned, with a checkpoint of the rows. Every checkpoint is read
 * to its end and compared with its event, whether it is needed or not; a replay takes the first that is whole.
 */
import type { Pair } from '../../lib/pair-block.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { LogEntry } from '../core/event.ts';
import { reduce } from '../core/reduce.ts';
import type { RowChange, RowReader, TableName, Tables } from '../core/rows.ts';
import type { BulkDatabase } from '../store/bulk.ts';
import {
  DEDUP_OWNERS,
  queueKey,
  rowKeyBytes,
  DEDUP_RUN_BYTES,
  dueTimeOf,
  PREFIX,
  prefixRange,
  REPLAYED_TABLES,
} from '../store/keys.ts';
import type { Level } from '../store/level.ts';
import { Growth, storedLeafHashes, treeStarts } from '../store/log-tree.ts';
import { keyBytes } from '../store/packing.ts';
import { DamagedRecord } from '../store/record.ts';
import { decodeRow, encodeRow } from '../store/row-codec.ts';
import { TreeEdge } from '../store/tiles.ts';
import { withChecksum } from '../store/checksum.ts';
import { canonicalRows, type RowCheckpoint, RowsDigest } from '../store/row-checkpoints.ts';
import { runsOf } from '../store/scan.ts';
import type { Progress } from './finding.ts';
import type { OfflineStore } from './offline.ts';

/** Changed rows that are held before they are written. */
const CHANGED_MAX = 5_000;
/** Rows that are kept at hand beside them. */
const RECENT_MAX = 20_000;

/** Thrown when an event contradicts the ones before it. */
export class ReplayFailed extends Error {}

export class ReplayedRows implements RowReader {
  readonly #database: BulkDatabase;
  readonly #changed = new Map<string, RowChange>();
  readonly #recent = new Map<string, Tables[TableName] | undefined>();
  /** Queues that were acked since the last flush, and how far each was cleared before. */
  readonly #acked = new Set<PublicKey>();
  readonly #cleared = new Map<PublicKey, number>();

  constructor(database: BulkDatabase) {
    this.#database = database;
  }

  get<T extends TableName>(table: T, key: string): Tables[T] | undefined {
    const mark = markOf(table, key);
    const change = this.#changed.get(mark);
    if (change) return (change.row ?? undefined) as Tables[T] | undefined;
    if (this.#recent.has(mark)) return this.#recent.get(mark) as Tables[T] | undefined;
    const stored = rowKeyBytes(table, key);
    const value = this.#database.level.getSync(stored);
    const row = value && decodeRow(table, stored, value, key);
    if (isReadOften(table)) this.#recent.set(mark, row);
    return row;
  }

  get isFull(): boolean {
    return this.#changed.size >= CHANGED_MAX || this.#recent.size >= RECENT_MAX;
  }

  /** Reduces the event into the rows. Throws `ReplayFailed`. */
  apply(entry: LogEntry): void {
    for (const change of this.#reduced(entry)) {
      const mark = markOf(change.table, change.key);
      this.#changed.set(mark, change);
      this.#recent.delete(mark);
      if (change.table === 'target' && change.row && change.row.ackedThrough > 0) {
        this.#acked.add(change.key as PublicKey);
      }
    }
  }

  /** Writes what was changed, after which the database holds every row. */
  async flush(): Promise<void> {
    if (this.#recent.size >= RECENT_MAX) this.#recent.clear();
    for (const [mark, change] of this.#changed) {
      if (this.#isAcked(change)) this.#database.del(rowKeyBytes(change.table, change.key));
      else this.#write(change);
      if (this.#database.isFull) await this.#database.flush();
      if (isReadOften(change.table)) this.#recent.set(mark, change.row ?? undefined);
    }
    await this.#database.flush();
    for (const target of this.#acked) await this.#clear(target);
    this.#acked.clear();
    this.#changed.clear();
  }

  #reduced(entry: LogEntry): RowChange[] {
    try {
      return reduce(entry, this);
    } catch (error) {
      throw new ReplayFailed((error as Error).message.replace(/^invariant: /, ''), { cause: error });
    }
  }

  #write(change: RowChange): void {
    const key = rowKeyBytes(change.table, change.key);
    if (!change.row) this.#database.del(key);
    else this.#database.put(key, encodeRow(change.table, key, change.row));
    if (change.table !== 'dedup') return;
    if (change.row) {
      const { dedupUntilMs, senderPubkey } = change.row;
      this.#database.put(...dedupOwnerPair(key, dedupUntilMs, keyBytes(senderPubkey)));
    } else this.#database.del(dedupOwnerKey(key));
  }

  #isAcked({ table, row }: RowChange): boolean {
    return table === 'queue' && row !== null && row.seq <= this.#ackedThrough(row.targetPubkey);
  }

  #ackedThrough(target: PublicKey): number {
    return this.get('target', target)?.ackedThrough ?? 0;
  }

  async #clear(target: PublicKey): Promise<void> {
    const through = this.#ackedThrough(target);
    const cleared = this.#cleared.get(target) ?? 0;
    if (through <= cleared) return;
    await this.#database.clear({ gt: queueKey(target, cleared), lte: queueKey(target, through) });
    this.#cleared.set(target, through);
  }
}

/** Under the key of a dedup row: until when it is known, and the sender, whom the row's own bytes do not name. */
function dedupOwnerPair(key: Buffer, dedupUntilMs: number, sender: Buffer): Pair {
  const value = Buffer.alloc(8);
  value.writeBigUInt64BE(BigInt(dedupUntilMs));
  return [dedupOwnerKey(key), Buffer.concat([value, sender])];
}

function dedupOwnerKey(key: Buffer): Buffer {
  return Buffer.concat([Buffer.of(DEDUP_OWNERS), key.subarray(1)]);
}

/** Every item has a queue and a dedup row, of which few are read again. */
function isReadOften(table: TableName): boolean {
  return table !== 'queue' && table !== 'dedup';
}

function markOf(table: TableName, key: string): string {
  return `${table} ${key}`;
}

/** The hash trees that a replay of the log makes, in a database of its own under the keys of the store. */
export class ReplayedTree {
  readonly #database: BulkDatabase;
  readonly #growth = new Growth(undefined, new TreeEdge());

  /** The caller flushes the database. */
  constructor(database: BulkDatabase) {
    this.#database = database;
  }

  /**
   * Takes the hashes of the records up to `throughLsn`, which were pruned, out of the tiles of `level`. Whether those are
   * right is seen by what is made of them: the tiles above, the first leaf of the next tree, the last root. Throws
   * `DamagedRecord`.
   */
  async takePrunedHashes(level: Level, throughLsn: number): Promise<void> {
    if (throughLsn === 0) return;
    const starts = await treeStarts(level);
    if (starts[0]?.firstLsn !== 1) throw new DamagedRecord('a part of the hash tree is missing');
    for (const [at, start] of starts.entries()) {
      if (start.firstLsn > throughLsn) return;
      const last = Math.min(throughLsn, (starts[at + 1]?.firstLsn ?? Number.POSITIVE_INFINITY) - 1);
      this.#growth.beginPruned(start);
      for await (const hash of storedLeafHashes(level, start, start.firstLsn, last)) {
        this.#growth.addHash(hash);
        this.#write();
        if (this.#database.isFull) await this.#database.flush();
      }
    }
  }

  /** Adds the record of `entry`, as it is stored. Throws `ReplayFailed`. */
  add(entry: LogEntry, record: Buffer): void {
    if (this.#growth.starts.length === 0 && entry.event.type !== 'RelayInitialised') {
      throw new ReplayFailed('the first record of a store says which store it is');
    }
    this.#growth.add(entry, record);
    this.#write();
  }

  get size(): number {
    return this.#growth.edge.size;
  }

  get root(): Buffer {
    return this.#growth.edge.root();
  }

  #write(): void {
    for (const [key, value] of this.#growth.writes.splice(0)) this.#database.put(key, value);
  }
}

const KEY = 32;

interface ReplayStart {
  /** The rows after this record are in the scratch; 0 when there are none. */
  throughLsn: number;
  /** Dedup rows among them whose sender is not known. */
  unowned: number;
}

interface FoundCheckpoints {
  whole: RowCheckpoint[];
  damaged: DamagedRecord[];
}

export async function* findCheckpoints({ store }: OfflineStore): AsyncGenerator<Progress, FoundCheckpoints> {
  const found: FoundCheckpoints = { whole: [], damaged: [] };
  let rows = 0;
  for await (const mark of store.checkpoints.marks()) {
    try {
      const checkpoint = await store.checkpoints.marked(mark);
      for await (const pairs of store.checkpoints.pairs(checkpoint)) {
        rows += pairs.length;
        yield { stage: 'checkpoints', done: rows, of: undefined };
      }
      found.whole.push(checkpoint);
    } catch (error) {
      if (!(error instanceof DamagedRecord)) throw error;
      found.damaged.push(error);
    }
  }
  return found;
}

/**
 * Brings the rows that a replay of this log begins with into the scratch, where nothing is yet: none, or those of the
 * oldest checkpoint. `undefined` when records are gone that no checkpoint stands for.
 */
export async function* beginReplay(
  offline: OfflineStore,
  { whole }: FoundCheckpoints,
  scratch: BulkDatabase,
): AsyncGenerator<Progress, ReplayStart | undefined> {
  const { store } = offline;
  const { throughLsn: pruned } = store.pruned;
  if (pruned === 0) return { throughLsn: 0, unowned: 0 };
  const base = whole.find(({ throughLsn }) => throughLsn >= pruned);
  return base && (yield* loadCheckpoint(offline, base, scratch));
}

/** Brings the rows of a checkpoint into the scratch, where nothing is yet. Throws `DamagedRecord`. */
export async function* loadCheckpoint(
  { store }: OfflineStore,
  checkpoint: RowCheckpoint,
  scratch: BulkDatabase,
): AsyncGenerator<Progress, ReplayStart> {
  const { throughLsn, rows } = checkpoint;
  let dedupRows = 0;
  let loaded = 0;
  for await (const pairs of store.checkpoints.pairs(checkpoint)) {
    for (const [key, value] of pairs) {
      if (key[0] === PREFIX.dedupUntil) continue;
      if (key[0] === PREFIX.dedup) dedupRows++;
      loaded++;
      scratch.put(key, withChecksum(key, value));
      if (scratch.isFull) await scratch.flush();
    }
    yield { stage: 'rows', done: loaded, of: rows };
  }
  await scratch.flush();
  // The sender of a dedup row is named only by the due entry of the time until which the row is kept.
  for await (const pairs of store.checkpoints.pairs(checkpoint)) {
    for (const pair of pairs) if (pair[0][0] === PREFIX.dedupUntil) await addOwners(pair, scratch);
  }
  await scratch.flush();
  let owned = 0;
  for await (const run of runsOf(scratch.level, prefixRange(DEDUP_OWNERS))) owned += run.length;
  return { throughLsn, unowned: dedupRows - owned };
}

/** Whether a replay that came to the record of a checkpoint has the very rows that were kept. */
export async function hasRowsOf(
  { rows, rowsHash }: RowCheckpoint,
  replayed: ReplayedRows,
  scratch: BulkDatabase,
): Promise<boolean> {
  await replayed.flush();
  const digest = new RowsDigest();
  for await (const run of canonicalRows(scratch.level, REPLAYED_TABLES)) for (const pair of run) digest.add(pair);
  const found = digest.taken();
  return found.rows === rows && found.rowsHash === rowsHash;
}

/** The senders that a due entry names, of the rows that are known until its time. */
async function addOwners([due, runs]: Pair, scratch: BulkDatabase): Promise<void> {
  const dueMs = dueTimeOf(due);
  const named: { key: Buffer; sender: Buffer }[] = [];
  for (let at = 0; at + DEDUP_RUN_BYTES <= runs.length; at += DEDUP_RUN_BYTES) {
    const key = Buffer.concat([Buffer.of(PREFIX.dedup), runs.subarray(at + KEY, at + DEDUP_RUN_BYTES)]);
    named.push({ key, sender: runs.subarray(at, at + KEY) });
  }
  const rows = await scratch.level.getMany(named.map(({ key }) => key));
  for (const [at, { key, sender }] of named.entries()) {
    const row = rows[at];
    if (row && decodeRow('dedup', key, row).dedupUntilMs === dueMs) scratch.put(...dedupOwnerPair(key, dueMs, sender));
  }
  if (scratch.isFull) await scratch.flush();
}
