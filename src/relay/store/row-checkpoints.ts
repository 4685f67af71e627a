/**
 * Checkpoints of the rows: what a replay may begin with when the records before are gone. To the byte (DO NOT CHANGE):
 *
 *   a part   checked (checksum.ts), gzip of pairs (pair-block.ts): the rows as `canonicalRows` gives them, then
 *            the entries under 51 (keys.ts) as they are stored, because a dedup row names no sender
 *   a mark   checked, the LSN of its event `CheckpointTaken`, u64
 *
 * Invariants:
 *   - a mark is written with its event, and that when every part is durable: what has no mark is of a checkpoint that
 *     was cut short, or of one that is being dropped, and is ignored;
 *   - the event counts and hashes what is in the parts; it is a leaf of the hash tree.
 */
import { createHash } from 'node:crypto';
import { onlyOf } from '../../lib/caught.ts';
import { type Pair, packedBlocks, pairLengths, unpackedBlock } from '../../lib/pair-block.ts';
import type { Sha256Hex } from '../../protocol/encodings.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { CheckpointTaken } from '../core/event.ts';
import { decodeChecked, encodeChecked, withoutChecksum } from './checksum.ts';
import {
  checkpointKey,
  firstNumberOf,
  checkpointPartKey,
  checkpointPartOf,
  firstKeyOf,
  KEY_BYTES,
  numberAt,
  numberBytes,
  PREFIX,
  prefixRange,
  REPLAYED_TABLES,
  seqOf,
} from './keys.ts';
import type { Level } from './level.ts';
import { DamagedRecord, decodeRecord } from './record.ts';
import { recordAt } from './record-run.ts';
import { rowBytesOf } from './item-run.ts';
import { rowOf } from './row-codec.ts';
import { runsOf, type RunsOptions } from './scan.ts';
import type { CheckpointPartName } from './durable-log.ts';

/** Bytes of pairs in a part, about. */
const PART_BYTES = 128 << 10;

export type TakenDigest = Pick<CheckpointTaken, 'rows' | 'rowsHash' | 'dueHash'>;

/** A checkpoint that is whole, as far as its event says. */
export interface RowCheckpoint extends TakenDigest {
  throughLsn: number;
  eventLsn: number;
  atMs: number;
}

/** The mark that is written with an event. */
export function checkpointMark({ throughLsn }: CheckpointTaken, eventLsn: number): Pair {
  const key = checkpointKey(throughLsn);
  return [key, encodeChecked(key, numberBytes(eventLsn))];
}

/** A part as it is stored. */
export function checkpointPart({ throughLsn, part, packed }: PackedPart): Pair {
  const key = checkpointPartKey(throughLsn, part);
  return [key, encodeChecked(key, packed)];
}

/** A part, compressed. */
interface PackedPart extends CheckpointPartName {
  packed: Buffer;
}

/** The parts of a checkpoint, in order. Adds to `digest`. */
export async function* checkpointParts(
  throughLsn: number,
  runs: AsyncIterable<readonly Pair[]>,
  digest: RowsDigest,
): AsyncGenerator<PackedPart> {
  let part = 0;
  for await (const packed of packedBlocks(digest.passed(runs), PART_BYTES)) yield { throughLsn, part: part++, packed };
}

export interface ListedCheckpoints {
  /** As far as their events say, in order. */
  whole: RowCheckpoint[];
  /** The marks that are altered, or whose event is. */
  damaged: DamagedRecord[];
}

export class RowCheckpoints {
  readonly #level: Level;

  constructor(level: Level) {
    this.#level = level;
  }

  /** Every checkpoint that has a mark. */
  async list(): Promise<ListedCheckpoints> {
    const found: ListedCheckpoints = { whole: [], damaged: [] };
    for await (const mark of this.marks()) {
      const checkpoint = await this.marked(mark).catch(onlyOf(DamagedRecord, (fault) => fault));
      if (checkpoint instanceof DamagedRecord) found.damaged.push(checkpoint);
      else found.whole.push(checkpoint);
    }
    return found;
  }

  /** Yields the LSN of every mark, in order, whatever is in it. */
  async *lsns(): AsyncGenerator<number> {
    for await (const [key] of this.marks()) yield firstNumberOf(key);
  }

  /** The marks, in order; what else lies among them is left out. */
  async *marks(): AsyncGenerator<Pair> {
    for await (const run of runsOf(this.#level, prefixRange(PREFIX.checkpoint))) {
      for (const mark of run) if (mark[0].length === KEY_BYTES[PREFIX.checkpoint]) yield mark;
    }
  }

  /** The checkpoint of a mark. Throws `DamagedRecord`. */
  async marked([key, value]: Pair): Promise<RowCheckpoint> {
    const throughLsn = firstNumberOf(key);
    const eventLsn = numberAt(decodeChecked(key, value, `the mark of checkpoint ${throughLsn}`), 0);
    const record = await recordAt(this.#level, eventLsn);
    if (!record) throw new DamagedRecord(`the event of checkpoint ${throughLsn}, log record ${eventLsn}, is missing`);
    const { event } = decodeRecord(eventLsn, record);
    if (event.type !== 'CheckpointTaken' || event.throughLsn !== throughLsn)
      throw new DamagedRecord(`log record ${eventLsn} is not the event of checkpoint ${throughLsn}`);
    const { rows, rowsHash, dueHash, atMs } = event;
    return { throughLsn, eventLsn, rows, rowsHash, dueHash, atMs };
  }

  /**
   * Yields what a checkpoint holds, in runs. Throws `DamagedRecord`, at the latest at the end: believe nothing before.
   */
  async *pairs(checkpoint: TakenDigest & { throughLsn: number }): AsyncGenerator<Pair[]> {
    const { throughLsn } = checkpoint;
    const damaged = (what: string): DamagedRecord => new DamagedRecord(`checkpoint ${throughLsn} ${what}`);
    const digest = new RowsDigest();
    let part = 0;
    for await (const run of runsOf(this.#level, partsOf(throughLsn), { pairs: 4 })) {
      for (const [key, value] of run) {
        if (key.length !== KEY_BYTES[PREFIX.checkpointPart]) continue;
        if (checkpointPartOf(key) !== part) throw damaged(`lacks its part ${part}`);
        const packed = decodeChecked(key, value, `part ${part++} of checkpoint ${throughLsn}`);
        const pairs = await unpackedBlock(packed);
        if (!pairs) throw damaged('has a part that cannot be read');
        digest.add(pairs);
        yield pairs;
      }
    }
    if (!isSameDigest(digest.taken(), checkpoint)) throw damaged('does not hold what its event says');
  }

  /** Parts without a mark, at most `limit`. */
  async orphanParts(limit: number): Promise<CheckpointPartName[]> {
    const marked = new Set<number>();
    for await (const lsn of this.lsns()) marked.add(lsn);
    const parts: CheckpointPartName[] = [];
    let from = prefixRange(PREFIX.checkpointPart).gte;
    while (parts.length < limit) {
      const range = { gte: from, lt: prefixRange(PREFIX.checkpointPart).lt };
      const [next] = await this.#level.keys({ ...range, limit: 1, fillCache: false }).all();
      if (!next) break;
      const throughLsn = firstNumberOf(next);
      from = checkpointPartKey(throughLsn + 1, 0);
      if (marked.has(throughLsn)) continue;
      const reading = { gte: next, lt: from, limit: limit - parts.length, fillCache: false };
      for (const key of await this.#level.keys(reading).all())
        if (key.length === KEY_BYTES[PREFIX.checkpointPart]) parts.push({ throughLsn, part: checkpointPartOf(key) });
    }
    return parts;
  }
}

function partsOf(lsn: number): { gte: Buffer; lt: Buffer } {
  return { gte: checkpointPartKey(lsn, 0), lt: checkpointPartKey(lsn + 1, 0) };
}

/** A table, or the index that says of whom dedup rows are. */
type KeptTable = (typeof REPLAYED_TABLES)[number] | 'dedupUntil';

/**
 * The pairs of these tables as a replay gives them, ascending and without checksums; runs may be empty. It leaves out
 * acked queue rows and purged dedup rows, which the collector may or may not have deleted yet. The bytes of a row are
 * the same in every schema. Throws `DamagedRow`.
 */
export async function* canonicalRows(
  level: Level,
  tables: readonly KeptTable[],
  options?: RunsOptions,
): AsyncGenerator<Pair[]> {
  const canonical = new CanonicalPairs();
  for (const table of tables)
    for await (const run of runsOf(level, prefixRange(PREFIX[table]), options)) yield canonical.of(run);
}

const KEPT_TABLES: ReadonlyMap<number | undefined, KeptTable> = new Map(
  [...REPLAYED_TABLES, 'dedupUntil' as const].map((table) => [PREFIX[table], table]),
);

/** Picks such pairs out of stored ones, which come in the order of their keys. */
export class CanonicalPairs {
  readonly #ackedThrough = new Map<PublicKey, number>();
  #purgedMs = 0;

  /** `bytesOf` says what the bytes of a row are without its checksum. Throws `DamagedRow`. */
  of(run: readonly Pair[], bytesOf = withoutChecksum): Pair[] {
    const pairs: Pair[] = [];
    for (const pair of run) {
      const [key, value] = pair;
      const table = KEPT_TABLES.get(key[0]);
      if (!table || key.length !== KEY_BYTES[PREFIX[table]]) continue;
      const isOfQueue = table === 'queue' && bytesOf === withoutChecksum;
      const rows = isOfQueue ? rowBytesOf(pair) : [[key, bytesOf(key, value)] as Pair];
      for (const row of rows) if (this.#isKept(table, ...row)) pairs.push(row);
    }
    return pairs;
  }

  /** The first tables decide which rows of the others are kept. */
  #isKept(table: KeptTable, key: Buffer, bytes: Buffer): boolean {
    switch (table) {
      case 'relay':
        this.#purgedMs = rowOf('relay', key, bytes).dedupPurgedMs;
        return true;
      case 'target': {
        const { ackedThrough } = rowOf('target', key, bytes);
        if (ackedThrough > 0) this.#ackedThrough.set(firstKeyOf(key), ackedThrough);
        return true;
      }
      case 'queue':
        return seqOf(key) > (this.#ackedThrough.get(firstKeyOf(key)) ?? 0);
      case 'dedup':
        return rowOf('dedup', key, bytes).dedupUntilMs > this.#purgedMs;
      default:
        return true;
    }
  }
}

/** Counts and hashes what `canonicalRows` gives. */
export class RowsDigest {
  rows = 0;
  readonly #rows = createHash('sha256');
  readonly #due = createHash('sha256');

  add(run: readonly Pair[]): void {
    for (const pair of run) {
      const isRow = pair[0][0] !== PREFIX.dedupUntil;
      if (isRow) this.rows++;
      const hash = isRow ? this.#rows : this.#due;
      hash.update(pairLengths(pair)).update(pair[0]).update(pair[1]);
    }
  }

  /** The same runs, each added when it was used; `of` says what of it counts. */
  async *passed(
    runs: AsyncIterable<readonly Pair[]>,
    of: (run: readonly Pair[]) => readonly Pair[] = (run) => run,
  ): AsyncGenerator<readonly Pair[]> {
    for await (const run of runs) {
      yield run;
      this.add(of(run));
    }
  }

  /** Returns the digest of everything that was added; nothing can be added afterwards. */
  taken(): TakenDigest {
    const { rows } = this;
    return { rows, rowsHash: this.#rows.digest('hex') as Sha256Hex, dueHash: this.#due.digest('hex') as Sha256Hex };
  }
}

export function isSameDigest(one: TakenDigest, other: TakenDigest): boolean {
  return one.rows === other.rows && one.rowsHash === other.rowsHash && one.dueHash === other.dueHash;
}
