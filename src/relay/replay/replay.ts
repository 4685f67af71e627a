/**
 * A replay of the log: the rows that it gives, and the hash trees, in a scratch under the keys of the store.
 *
 * Items and dedup rows are encoded as they come; rows that are read often (quotas, target rows) are held as values
 * until the next `flush`. What is acked or purged may lie there still, as in the live store before its collector came:
 * readers pass over it.
 *
 * A replay begins with the first record or, when that was pruned, with a checkpoint of the rows. Every checkpoint is
 * read to its end and compared with its event, whether it is needed or not; a replay takes the first that is whole.
 */
import type { Pair } from '../../lib/pair-block.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { LogEntry } from '../core/event.ts';
import { reduce } from '../core/reduce.ts';
import type { RowChange, RowReader, TableName, Tables } from '../core/rows.ts';
import {
  DEDUP_OWNERS,
  firstKeyOf,
  queueKey,
  seqOf,
  rowKeyBytes,
  writeNumber,
  DEDUP_RUN_BYTES,
  dueTimeOf,
  PREFIX,
  prefixRange,
  REPLAYED_TABLES,
} from '../store/keys.ts';
import type { Level } from '../store/level.ts';
import { Growth, storedLeafHashes, treeStarts, TreeEdge } from '../store/log-tree.ts';
import { keyTextAt } from '../store/plain-forms.ts';
import { DamagedRecord } from '../store/record.ts';
import { decodeRow, encodeRow } from '../store/row-codec.ts';
import { withChecksum } from '../store/checksum.ts';
import { CanonicalPairs, type RowCheckpoint, RowsDigest } from '../store/row-checkpoints.ts';
import type { ScratchPairs } from '../store/scratch.ts';
import type { Progress } from './finding.ts';
import type { OfflineStore } from './offline.ts';

const KEY = 32;
const TIME = 8;
/** Rows that are kept at hand, because they are read often. */
const RECENT_MAX = 20_000;

/** Thrown when an event contradicts the ones before it. */
export class ReplayFailed extends Error {}

export class ReplayedRows implements RowReader {
  readonly #scratch: ScratchPairs;
  /** By table: rows that are read often, and the keys of those that the scratch does not have as they are. */
  readonly #recent = new Map<TableName, Map<string, Tables[TableName] | undefined>>();
  readonly #changed = new Map<TableName, Set<string>>();
  #recentRows = 0;
  /** Queues that were acked since the last spill, and how far each was cleared before. */
  readonly #acked = new Set<PublicKey>();
  readonly #cleared = new Map<PublicKey, number>();

  constructor(scratch: ScratchPairs) {
    this.#scratch = scratch;
  }

  get<T extends TableName>(table: T, key: string): Tables[T] | undefined {
    const recent = isReadOften(table) ? this.#recentOf(table) : undefined;
    const row = recent?.get(key);
    if (row !== undefined || recent?.has(key)) return row as Tables[T] | undefined;
    const stored = rowKeyBytes(table, key);
    const value = this.#scratch.get(stored);
    const found = value && decodeRow(table, stored, value, key);
    if (recent) this.#keep(recent, key, found);
    return found;
  }

  get isFull(): boolean {
    return this.#scratch.isFull || this.#recentRows >= RECENT_MAX;
  }

  /** Reduces the event into the rows. Throws `ReplayFailed`. */
  apply(entry: LogEntry): void {
    for (const change of this.#reduced(entry)) {
      const { table, key, row } = change;
      if (!isReadOften(table)) {
        this.#write(change);
        continue;
      }
      this.#keep(this.#recentOf(table), key, row ?? undefined);
      this.#changedOf(table).add(key);
      if (table === 'target' && row && row.ackedThrough > 0) this.#acked.add(key as PublicKey);
    }
  }

  /** Writes what was changed, after which the scratch holds every row, acked ones too. */
  async flush(): Promise<void> {
    for (const [table, keys] of this.#changed) {
      const recent = this.#recentOf(table);
      for (const key of keys) this.#write({ table, key, row: recent.get(key) ?? null } as RowChange);
      keys.clear();
    }
    if (this.#recentRows >= RECENT_MAX) {
      for (const recent of this.#recent.values()) recent.clear();
      this.#recentRows = 0;
    }
    if (!this.#scratch.isFull) return;
    await this.#scratch.spill(this.ackedKeys());
    for (const target of this.#acked) await this.#clear(target);
    this.#acked.clear();
  }

  /** The rows of a range in one table, as the scratch has them after `flush`, without those that were acked. */
  async *runs(range: Parameters<ScratchPairs['runs']>[0]): AsyncGenerator<Pair[]> {
    const isAcked = this.ackedKeys();
    for await (const run of this.#scratch.runs(range)) {
      const left = run[0]?.[0][0] === PREFIX.queue ? run.filter(([key]) => !isAcked(key)) : run;
      if (left.length > 0) yield left;
    }
  }

  /** Says of keys, as one walk comes by them, whether they are of queue rows that their target acked. */
  ackedKeys(): (key: Buffer) => boolean {
    let target: Buffer | undefined;
    let through = 0;
    return (key) => {
      if (key[0] !== PREFIX.queue) return false;
      if (target?.compare(key, 1, 1 + KEY) !== 0) {
        target = Buffer.from(key.subarray(1, 1 + KEY));
        through = this.#ackedThrough(firstKeyOf(key));
      }
      return seqOf(key) <= through;
    };
  }

  #reduced(entry: LogEntry): RowChange[] {
    try {
      return reduce(entry, this);
    } catch (error) {
      throw new ReplayFailed((error as Error).message.replace(/^invariant: /, ''), { cause: error });
    }
  }

  #recentOf(table: TableName): Map<string, Tables[TableName] | undefined> {
    let recent = this.#recent.get(table);
    if (!recent) this.#recent.set(table, (recent = new Map()));
    return recent;
  }

  #changedOf(table: TableName): Set<string> {
    let changed = this.#changed.get(table);
    if (!changed) this.#changed.set(table, (changed = new Set()));
    return changed;
  }

  #keep(recent: Map<string, Tables[TableName] | undefined>, key: string, row: Tables[TableName] | undefined): void {
    const before = recent.size;
    recent.set(key, row);
    this.#recentRows += recent.size - before;
  }

  #write(change: RowChange): void {
    const key = rowKeyOf(change);
    if (!change.row) this.#scratch.del(key);
    else this.#scratch.put(key, encodeRow(change.table, key, change.row));
    if (change.table !== 'dedup') return;
    if (change.row) {
      const { dedupUntilMs, senderPubkey } = change.row;
      this.#scratch.put(...dedupOwnerPair(key, dedupUntilMs, senderPubkey));
    } else this.#scratch.del(dedupOwnerKey(key));
  }

  #ackedThrough(target: PublicKey): number {
    return this.get('target', target)?.ackedThrough ?? 0;
  }

  async #clear(target: PublicKey): Promise<void> {
    const through = this.#ackedThrough(target);
    const cleared = this.#cleared.get(target) ?? 0;
    if (through <= cleared) return;
    await this.#scratch.clearSpilled({ gt: queueKey(target, cleared), lte: queueKey(target, through) });
    this.#cleared.set(target, through);
  }
}

/** A queue row says what its key does, without a text that is taken apart again. */
function rowKeyOf({ table, key, row }: RowChange): Buffer {
  return table === 'queue' && row ? queueKey(row.targetPubkey, row.seq) : rowKeyBytes(table, key);
}

/** Under the key of a dedup row: until when it is known, and the sender, whom the row's own bytes do not name. */
function dedupOwnerPair(key: Buffer, dedupUntilMs: number, sender: PublicKey): Pair {
  const value = Buffer.allocUnsafe(TIME + KEY);
  writeNumber(value, dedupUntilMs, 0);
  value.write(sender, TIME, 'base64');
  return [dedupOwnerKey(key), value];
}

function dedupOwnerKey(key: Buffer): Buffer {
  const owner = Buffer.allocUnsafe(key.length);
  owner.set(key);
  owner[0] = DEDUP_OWNERS;
  return owner;
}

/** Every item has a queue and a dedup row, of which few are read again. */
function isReadOften(table: TableName): boolean {
  return table !== 'queue' && table !== 'dedup';
}

/** The hash trees that a replay of the log makes, in a scratch under the keys of the store. */
export class ReplayedTree {
  readonly #scratch: ScratchPairs;
  readonly #growth = new Growth(undefined, new TreeEdge());

  /** The caller spills the scratch. */
  constructor(scratch: ScratchPairs) {
    this.#scratch = scratch;
  }

  /**
   * Takes the hashes of the records up to `throughLsn`, which were pruned, out of the tiles of `level`. Whether those
   * are right is seen by what is made of them: the tiles above, the first leaf of the next tree, the last root. Throws
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
        if (this.#scratch.isFull) await this.#scratch.spill();
      }
    }
  }

  /** Adds the record of `entry`, as it is stored; with its hash, where that is known. Throws `ReplayFailed`. */
  add(entry: LogEntry, record: Buffer, leaf?: Buffer): void {
    if (this.#growth.starts.length === 0 && entry.event.type !== 'RelayInitialised') {
      throw new ReplayFailed('the first record of a store says which store it is');
    }
    this.#growth.add(entry, record, leaf);
    this.#write();
  }

  get size(): number {
    return this.#growth.edge.size;
  }

  get root(): Buffer {
    return this.#growth.edge.root();
  }

  #write(): void {
    for (const [key, value] of this.#growth.writes.splice(0)) this.#scratch.put(key, value);
  }
}

interface ReplayStart {
  /** The rows after this record are in the scratch; 0 when there are none. */
  throughLsn: number;
  /** Dedup rows among them whose sender is not known. */
  unowned: number;
}

export interface FoundCheckpoints {
  /** In the order of the log. */
  whole: RowCheckpoint[];
  damaged: DamagedRecord[];
}

/**
 * Reads checkpoints to their ends and compares each with its event: all of them, or the newest first until one is
 * whole.
 */
export async function* findCheckpoints(
  { store }: OfflineStore,
  { isNewestEnough = false } = {},
): AsyncGenerator<Progress, FoundCheckpoints> {
  const found: FoundCheckpoints = { whole: [], damaged: [] };
  const marks: Pair[] = [];
  for await (const mark of store.checkpoints.marks()) marks.push(mark);
  let rows = 0;
  for (const mark of isNewestEnough ? marks.toReversed() : marks) {
    try {
      const checkpoint = await store.checkpoints.marked(mark);
      for await (const pairs of store.checkpoints.pairs(checkpoint))
        yield { stage: 'checkpoints', done: (rows += pairs.length), of: undefined };
      found.whole.push(checkpoint);
      if (isNewestEnough) break;
    } catch (error) {
      if (!(error instanceof DamagedRecord)) throw error;
      found.damaged.push(error);
    }
  }
  return found;
}

/**
 * The checkpoint with which a replay of this log begins: the oldest after which every record is there, where records
 * were pruned; or the newest through `throughLsn`, so that as little as possible is replayed.
 */
export function baseOf(
  { whole }: FoundCheckpoints,
  { store }: OfflineStore,
  which: 'oldest' | 'newest',
  throughLsn = Number.POSITIVE_INFINITY,
): RowCheckpoint | undefined {
  const { throughLsn: pruned } = store.pruned;
  const isUsable = (one: RowCheckpoint): boolean => one.throughLsn >= pruned && one.throughLsn <= throughLsn;
  if (which === 'newest') return whole.findLast(isUsable);
  return pruned === 0 ? undefined : whole.find(isUsable);
}

/**
 * Brings the rows that a replay of this log begins with into the scratch, where nothing is yet: those of `base`, or
 * none where the log has its beginning. `undefined` when records are gone that nothing stands for.
 */
export async function* beginReplay(
  offline: OfflineStore,
  base: RowCheckpoint | undefined,
  scratch: ScratchPairs,
): AsyncGenerator<Progress, ReplayStart | undefined> {
  if (base) return yield* loadCheckpoint(offline, base, scratch);
  return offline.store.pruned.throughLsn === 0 ? { throughLsn: 0, unowned: 0 } : undefined;
}

/** Brings the rows of a checkpoint into the scratch, where nothing is yet. Throws `DamagedRecord`. */
async function* loadCheckpoint(
  { store }: OfflineStore,
  checkpoint: RowCheckpoint,
  scratch: ScratchPairs,
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
      if (scratch.isFull) await scratch.spill();
    }
    yield { stage: 'rows', done: loaded, of: rows };
  }
  // The sender of a dedup row is named only by the due entry of the time until which the row is kept.
  for await (const pairs of store.checkpoints.pairs(checkpoint)) {
    for (const pair of pairs) if (pair[0][0] === PREFIX.dedupUntil) await addOwners(pair, scratch);
  }
  let owned = 0;
  for await (const run of scratch.runs(prefixRange(DEDUP_OWNERS))) owned += run.length;
  return { throughLsn, unowned: dedupRows - owned };
}

/** Says whether a replay that came to the record of a checkpoint has the very rows that were kept. */
export async function hasRowsOf(
  { rows, rowsHash }: RowCheckpoint,
  replayed: ReplayedRows,
  scratch: ScratchPairs,
): Promise<boolean> {
  await replayed.flush();
  const digest = new RowsDigest();
  const canonical = new CanonicalPairs();
  for (const table of REPLAYED_TABLES)
    for await (const run of scratch.runs(prefixRange(PREFIX[table]))) digest.add(canonical.of(run));
  const found = digest.taken();
  return found.rows === rows && found.rowsHash === rowsHash;
}

/** The senders that a due entry names, of the rows that are known until its time. */
async function addOwners([due, runs]: Pair, scratch: ScratchPairs): Promise<void> {
  const dueMs = dueTimeOf(due);
  for (let at = 0; at + DEDUP_RUN_BYTES <= runs.length; at += DEDUP_RUN_BYTES) {
    const key = Buffer.concat([Buffer.of(PREFIX.dedup), runs.subarray(at + KEY, at + DEDUP_RUN_BYTES)]);
    const row = scratch.get(key);
    if (!row || decodeRow('dedup', key, row).dedupUntilMs !== dueMs) continue;
    scratch.put(...dedupOwnerPair(key, dueMs, keyTextAt(runs, at)));
  }
  if (scratch.isFull) await scratch.spill();
}
