/**
 * A replay of the log: the rows that it gives, and the hash trees, in a database of its own under the keys of the store.
 *
 * A million events leave more rows than belong in memory, so what was changed is held until the next `flush` and what
 * is read again and again (quotas, queues as a whole) a little longer; everything else is on disk. Rows that are acked
 * or that nobody knows any more are left out as the live store leaves them to its collector. The database may hold the rows of a
 * checkpoint already: the replay goes on from there.
 */
import type { Pair } from '../../lib/pair-block.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { LogEntry } from '../core/event.ts';
import { reduce } from '../core/reduce.ts';
import type { RowChange, RowReader, TableName, Tables } from '../core/rows.ts';
import type { BulkDatabase } from '../store/bulk.ts';
import { DEDUP_OWNERS, queueKey, rowKeyBytes } from '../store/keys.ts';
import type { Level } from '../store/level.ts';
import { Growth, storedLeafHashes, treeStarts } from '../store/log-tree.ts';
import { keyBytes } from '../store/packing.ts';
import { DamagedRecord } from '../store/record.ts';
import { decodeRow, encodeRow } from '../store/row-codec.ts';
import { TreeEdge } from '../store/tiles.ts';

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
export function dedupOwnerPair(key: Buffer, dedupUntilMs: number, sender: Buffer): Pair {
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

  /** Whoever replays flushes the database. */
  constructor(database: BulkDatabase) {
    this.#database = database;
  }

  /**
   * Takes the hashes of the records up to `throughLsn`, which were pruned, out of the tiles of `level`. Whether those are
   * right is seen by what is made of them: the tiles above, the first leaf of the next tree, the last root. Throws
   * `DamagedRecord`.
   */
  async takePruned(level: Level, throughLsn: number): Promise<void> {
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

  /** Leaves of the last tree. */
  get size(): number {
    return this.#growth.edge.size;
  }

  /** Of the last tree. */
  get root(): Buffer {
    return this.#growth.edge.root();
  }

  #write(): void {
    for (const [key, value] of this.#growth.writes.splice(0)) this.#database.put(key, value);
  }
}
