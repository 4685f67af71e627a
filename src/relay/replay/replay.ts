/**
 * A replay of the log: the rows that it gives, without checksums, and the hash trees, in a scratch under the keys of
 * the store.
 *
 * Items and dedup rows are encoded as they come; rows that are read often (quotas, target rows) are held as values
 * until the next `flush`. What is acked or purged may lie there still, as in the live store before its collector came:
 * readers pass over it.
 *
 * Two threads may each replay one half of the rows (core/reduce.ts).
 */
import type { Pair } from '../../lib/pair-block.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { LogEntry } from '../core/event.ts';
import { type Half, reduce } from '../core/reduce.ts';
import { type QueueRow, type RowChange, type RowReader, type TableName, type Tables, rowKey } from '../core/rows.ts';
import {
  firstKeyOf,
  numberAt,
  queueKey,
  seqOf,
  rowKeyBytes,
  writeNumber,
  PREFIX,
  REPLAYED_TABLES,
} from '../store/keys.ts';
import type { Level } from '../store/level.ts';
import { Growth, storedLeafHashes, treeStarts, TreeEdge } from '../store/log-tree.ts';
import { DamagedRecord } from '../store/record.ts';
import { packRow, rowOf } from '../store/row-codec.ts';
import type { ScratchPairs } from '../store/scratch.ts';

const KEY = 32;
const TIME = 8;
const KNOWN_PREFIXES: ReadonlySet<number> = new Set([PREFIX.sender, PREFIX.dedup]);
/** Rows that are kept at hand, because they are read often. */
const RECENT_MAX = 20_000;

/** An event contradicts the ones before it. */
export class ReplayFailed extends Error {}

/** Queue rows of items that a rotation moves, by their keys. */
export type MovedRows = ReadonlyMap<string, QueueRow | undefined>;

/** One half of a replay. The one half gives the other the rows of an event that moves items, before it applies it. */
export type ReplayHalf =
  | { of: 'known'; take: (key: string) => QueueRow | undefined }
  | { of: 'others'; give: (rows: MovedRows) => void };

/** Rows of one table, and the keys of those that the scratch does not have as they are. */
interface RecentRows {
  rows: Map<string, Tables[TableName] | undefined>;
  changed: Set<string>;
}

export class ReplayedRows implements RowReader {
  readonly scratch: ScratchPairs;
  readonly #half: ReplayHalf | undefined;
  /** The rows that are read often, by table: every item has a queue and a dedup row, of which few are read again. */
  readonly #recent: ReadonlyMap<TableName, RecentRows>;
  #recentRows = 0;
  /** Queues that were acked since the last spill, and how far each was cleared before. */
  readonly #acked = new Set<PublicKey>();
  readonly #cleared = new Map<PublicKey, number>();

  /** Replays all rows where there is no half. */
  constructor(scratch: ScratchPairs, half?: ReplayHalf) {
    this.scratch = scratch;
    this.#half = half;
    const often = REPLAYED_TABLES.filter((table) => table !== 'queue' && table !== 'dedup');
    this.#recent = new Map(often.map((table) => [table, { rows: new Map(), changed: new Set() }]));
  }

  get half(): Half | undefined {
    return this.#half?.of;
  }

  /** The prefixes of the rows that no other half has, in their order. */
  get prefixes(): number[] {
    const isOwn = (prefix: number): boolean => !this.half || KNOWN_PREFIXES.has(prefix) === (this.half === 'known');
    return REPLAYED_TABLES.map((table) => PREFIX[table]).filter(isOwn);
  }

  /** The prefixes of all its rows, in their order. */
  get heldPrefixes(): ReadonlySet<number> {
    return new Set([PREFIX.relay, ...this.prefixes]);
  }

  get<T extends TableName>(table: T, key: string): Tables[T] | undefined {
    if (table === 'queue' && this.#half?.of === 'known') return this.#half.take(key) as Tables[T] | undefined;
    const recent = this.#recent.get(table);
    const row = recent?.rows.get(key);
    if (row !== undefined || recent?.rows.has(key)) return row as Tables[T] | undefined;
    const stored = rowKeyBytes(table, key);
    const value = this.scratch.get(stored);
    const found = value && rowOf(table, stored, rowBytes(stored, value), key);
    if (recent) this.#keep(recent, key, found);
    return found;
  }

  get isFull(): boolean {
    return this.scratch.isFull || this.#recentRows >= RECENT_MAX;
  }

  /** Reduces the event into the rows. Throws `ReplayFailed`. */
  apply(entry: LogEntry): void {
    const { event } = entry;
    // Where none was left to move, the other half takes none.
    if (this.#half?.of === 'others' && event.type === 'ItemsMoved' && event.fromSeqs.length > 0) {
      const keys = event.fromSeqs.map((seq) => rowKey.queue(event.oldPubkey, seq));
      this.#half.give(new Map(keys.map((key) => [key, this.get('queue', key)])));
    }
    for (const change of this.#reduce(entry)) {
      const { table, key, row } = change;
      const recent = this.#recent.get(table);
      if (!recent) {
        this.#write(change);
        continue;
      }
      this.#keep(recent, key, row ?? undefined);
      recent.changed.add(key);
      if (table === 'target' && row && row.ackedThrough > 0) this.#acked.add(key as PublicKey);
    }
  }

  /** Writes what was changed, after which the scratch holds every row, acked ones too. */
  async flush(): Promise<void> {
    for (const [table, { rows, changed }] of this.#recent) {
      for (const key of changed) this.#write({ table, key, row: rows.get(key) ?? null } as RowChange);
      changed.clear();
      if (this.#recentRows >= RECENT_MAX) rows.clear();
    }
    if (this.#recentRows >= RECENT_MAX) this.#recentRows = 0;
    if (!this.scratch.isFull) return;
    await this.scratch.spill(this.ackedKeys());
    for (const target of this.#acked) await this.#clear(target);
    this.#acked.clear();
  }

  /** The rows of a range in one table, as the scratch has them after `flush`, without those that were acked. */
  async *runs(range: Parameters<ScratchPairs['runs']>[0]): AsyncGenerator<Pair[]> {
    const isAcked = this.ackedKeys();
    for await (const run of this.scratch.runs(range)) {
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

  #reduce(entry: LogEntry): RowChange[] {
    try {
      return reduce(entry, this, this.half);
    } catch (error) {
      throw new ReplayFailed((error as Error).message.replace(/^invariant: /, ''), { cause: error });
    }
  }

  #keep({ rows }: RecentRows, key: string, row: Tables[TableName] | undefined): void {
    const before = rows.size;
    rows.set(key, row);
    this.#recentRows += rows.size - before;
  }

  #write(change: RowChange): void {
    const key = rowKeyOf(change);
    const bytes = change.row && packRow(change.table, change.row);
    if (!bytes) this.scratch.del(key);
    else if (change.table !== 'dedup') this.scratch.put(key, bytes);
    else this.scratch.put(key, bytes, ownerOf(change.row?.dedupUntilMs, change.row?.senderPubkey));
  }

  #ackedThrough(target: PublicKey): number {
    return this.get('target', target)?.ackedThrough ?? 0;
  }

  async #clear(target: PublicKey): Promise<void> {
    const through = this.#ackedThrough(target);
    const cleared = this.#cleared.get(target) ?? 0;
    if (through <= cleared) return;
    await this.scratch.clearSpilled({ gt: queueKey(target, cleared), lte: queueKey(target, through) });
    this.#cleared.set(target, through);
  }
}

/** A queue row says what its key does, without a text that is taken apart again. */
function rowKeyOf({ table, key, row }: RowChange): Buffer {
  return table === 'queue' && row ? queueKey(row.targetPubkey, row.seq) : rowKeyBytes(table, key);
}

const OWNER_BYTES = TIME + KEY;
/** Each use fills it, and puts it into a scratch at once. */
const owner = Buffer.alloc(OWNER_BYTES);

/**
 * Makes what a scratch holds behind the bytes of a dedup row: until when it is known, u64, and the sender, 32 bytes,
 * whom the bytes do not name; zeros where nothing says whose it is.
 */
export function ownerOf(dedupUntilMs = 0, sender?: PublicKey): Buffer {
  writeNumber(owner, dedupUntilMs, 0);
  if (sender === undefined) owner.fill(0);
  else owner.write(sender, TIME, 'base64');
  return owner;
}

/** The bytes of a row that lies under the key in a scratch. */
export function rowBytes(key: Buffer, value: Buffer): Buffer {
  return key[0] === PREFIX.dedup ? value.subarray(0, value.length - OWNER_BYTES) : value;
}

/** Reads in a dedup row of a scratch until when it is known; 0 where nothing says whose it is. */
export function knownUntilMs(value: Buffer): number {
  return numberAt(value, value.length - OWNER_BYTES);
}

/** Does as `knownUntilMs`, also where nothing says whose it is. */
export function keptUntilMs(key: Buffer, value: Buffer): number {
  return knownUntilMs(value) || rowOf('dedup', key, rowBytes(key, value)).dedupUntilMs;
}

/** Returns where the value of a dedup row in a scratch has the key of the sender. */
export function senderAt(value: Buffer): number {
  return value.length - KEY;
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
      for await (const hash of storedLeafHashes(level, [start], start.firstLsn, last)) {
        if (!hash) throw new DamagedRecord('a part of the hash tree is missing');
        this.#growth.addHash(hash);
        this.#write();
        if (this.#scratch.isFull) await this.#scratch.spill();
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
    for (const [key, value] of this.#growth.writes.splice(0)) this.#scratch.put(key, value);
  }
}
