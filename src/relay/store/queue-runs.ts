/**
 * Reads queues where their rows lie in runs (item-run.ts): one row by its place, those of a page, wire bytes.
 *
 * A synchronous read finds a run by its bound, which `FoundRuns` knows; where it does not, the read throws `LookFirst`.
 * The runs that were read last stay decoded until a batch writes them (`written`).
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import { LookFirst, type QueueRow } from '../core/rows.ts';
import type { Pair } from '../../lib/pair-block.ts';
import { keepRecent } from '../../lib/recent.ts';
import { DamagedRow } from './checksum.ts';
import { FoundRuns, placeOf } from './found-runs.ts';
import {
  type RowRun,
  type WireEntry,
  decodeRowRun,
  decodeWireRun,
  isRun,
  keyAt,
  queueRowOf,
  queueRowsOf,
  wholeWire,
} from './item-run.ts';
import { payloadKey, queueBehind, queueKey, seqOf } from './keys.ts';
import type { Level } from './level.ts';
import { decodeRow } from './row-codec.ts';

/** Runs of either kind that stay decoded: with their bytes, 4 MiB. */
const HEADS_MAX = 64;
/** Bounds that are read at once, where a run may be one row. */
const BOUNDS_AT_ONCE = 100;
/** Rows of a page that are read at once: some runs, or some hundred rows that lie alone. */
const PAGE_READ_BYTES = 64 << 10;

/** A run that a batch writes: its queue, its first seq and its last. */
export interface FreshRun {
  target: PublicKey;
  first: number;
  bound: number;
}

export class QueueRuns {
  readonly #level: Level;
  readonly #found = new FoundRuns();
  readonly #heads = new Heads();

  constructor(level: Level) {
    this.#level = level;
  }

  /** Throws `DamagedRow`; and `LookFirst` for a row that may be in a run of which nobody knows here. */
  row(target: PublicKey, seq: number): QueueRow | undefined {
    const bound = this.#found.boundOf(target, seq);
    if (bound === 'none') return undefined;
    const key = queueKey(target, bound ?? seq);
    const known = this.#heads.rows(key);
    const value = known ? undefined : this.#level.getSync(key);
    if (!known && !value) {
      if (bound !== undefined) return undefined;
      throw new LookFirst(`the queue row at seq ${seq}`, () => this.find(target, [seq]));
    }
    if (value && !isRun(value)) {
      // Also where it is another row: a run of which not even the form is left is no proof that this one is gone.
      const alone = decodeRow('queue', key, value);
      return alone.seq === seq ? alone : undefined;
    }
    const run = known ?? decodeRowRun(key, value as Buffer);
    if (!run) throw new DamagedRow(key, 'does not match its checksum');
    this.#heads.keep(key, run);
    const row = withSeq(run.rows, seq);
    return row && queueRowOf(run, row);
  }

  /** Says whether the wire bytes of a row that was read are stored, in their length. */
  hasWire({ payloadTarget, payloadSeq, payloadBound, bytes }: QueueRow): boolean {
    const key = payloadKey(payloadTarget, payloadBound ?? payloadSeq);
    let entries = payloadBound === undefined ? undefined : this.#heads.wires(key);
    if (!entries) {
      const value = this.#level.getSync(key);
      if (!value || payloadBound === undefined) return value !== undefined;
      entries = decodeWireRun(key, value);
      if (!entries) return false;
      // A large item is a run of its own.
      if (entries.length > 1) this.#heads.keep(key, entries);
    }
    return withSeq(entries, payloadSeq)?.wire.length === bytes;
  }

  /** Rows with `after` < seq <= `through`, ascending, at most `limit`. Throws `DamagedRow`. */
  async rows(target: PublicKey, after: number, through: number, limit: number): Promise<QueueRow[]> {
    const rows: QueueRow[] = [];
    if (after >= through) return rows;
    const iterator = this.#level.iterator({ ...queueBehind(target, after), highWaterMarkBytes: PAGE_READ_BYTES });
    try {
      for (let before = after; rows.length < limit; ) {
        // With one pair more LevelDB sees the end at once.
        const pairs = await iterator.nextv(limit - rows.length + 1);
        for (const pair of pairs) {
          for (const row of queueRowsOf(pair)) if (row.seq > after && row.seq <= through) rows.push(row);
          const bound = seqOf(pair[0]);
          if (isRun(pair[1])) this.#found.note(target, before + 1, bound);
          before = bound;
        }
        if (pairs.length === 0 || before >= through) break;
      }
    } finally {
      await iterator.close();
    }
    return rows.slice(0, limit);
  }

  /**
   * The wire bytes of rows that were read, in their order; `undefined` where they are missing, or are not what their
   * checksum is of. Those of rows without a `payloadBound` have none.
   */
  async wires(rows: readonly QueueRow[]): Promise<(Buffer | undefined)[]> {
    const { keys, places } = wirePlacesOf(rows);
    const read = new ReadWires(keys, await this.#level.getMany(keys, { fillCache: false }));
    return rows.map(({ payloadSeq, payloadBound, bytes }, at) => {
      const place = places[at] as number;
      return payloadBound === undefined ? read.raw(place) : read.whole(place, payloadSeq, bytes);
    });
  }

  /**
   * Looks for rows of ascending seqs together, so that reads of them need no look of their own. Returns the bound of
   * the run that may hold each; `undefined` where nothing lies at or behind it.
   */
  async find(target: PublicKey, seqs: readonly number[]): Promise<(number | undefined)[]> {
    const limit = Math.min(seqs.length, BOUNDS_AT_ONCE);
    const bounds: (number | undefined)[] = [];
    let read: number[] = [];
    let at = 0;
    let isEnd = false;
    for (const seq of seqs) {
      while (at < read.length && (read[at] as number) < seq) at++;
      if (at === read.length && !isEnd) {
        const range = { gte: queueKey(target, seq), lte: queueKey(target, Number.MAX_SAFE_INTEGER), limit };
        read = (await this.#level.keys({ ...range, fillCache: false }).all()).map(seqOf);
        at = 0;
        isEnd = read.length < limit;
      }
      const bound = read[at];
      if (bound === undefined) this.#found.noteEnd(target, seq);
      // A row that lies alone is found under its own key, and the first row of a run stands for the others.
      else if (bound !== seq && bound !== bounds.at(-1)) this.#found.note(target, seq, bound);
      bounds.push(bound);
    }
    return bounds;
  }

  /** What lies under the key of the run that may hold the row, if anything does. */
  async holder(target: PublicKey, seq: number): Promise<Pair | undefined> {
    // A row that lies alone is found at once: a seek costs ten times as much.
    const own = queueKey(target, seq);
    const alone = this.#level.getSync(own, { fillCache: false });
    if (alone) return [own, alone];
    let bound = this.#found.boundOf(target, seq);
    if (bound === undefined) [bound] = await this.find(target, [seq]);
    if (bound === undefined || bound === 'none') return undefined;
    const key = queueKey(target, bound);
    const value = await this.#level.get(key, { fillCache: false });
    return value && [key, value];
  }

  /** Reads anew what was decoded. */
  forgetDecoded(): void {
    this.#heads.clear();
  }

  /** To be called when the database shows these runs, new ones among them, as they are written now. */
  written(keys: readonly Buffer[], fresh: readonly FreshRun[]): void {
    for (const key of keys) this.#heads.drop(key);
    for (const { target, first, bound } of fresh) this.#found.note(target, first, bound);
  }
}

/** The keys under which the wire bytes of rows lie, and which of them each row names. */
export function wirePlacesOf(rows: readonly QueueRow[]): { keys: Buffer[]; places: number[] } {
  const keys: Buffer[] = [];
  const places: number[] = [];
  let last: QueueRow | undefined;
  for (const row of rows) {
    const { payloadTarget, payloadSeq, payloadBound } = row;
    const isSame = payloadBound !== undefined && payloadBound === last?.payloadBound;
    if (!isSame || payloadTarget !== last?.payloadTarget)
      keys.push(payloadKey(payloadTarget, payloadBound ?? payloadSeq));
    places.push(keys.length - 1);
    last = row;
  }
  return { keys, places };
}

/** What lies under such keys. */
export class ReadWires {
  readonly #keys: readonly Buffer[];
  readonly #values: readonly (Buffer | undefined)[];
  readonly #runs = new Map<number, WireEntry[]>();

  constructor(keys: readonly Buffer[], values: readonly (Buffer | undefined)[]) {
    this.#keys = keys;
    this.#values = values;
  }

  /** Wire bytes that lie alone, unchecked. */
  raw(place: number): Buffer | undefined {
    return this.#values[place];
  }

  /** Wire bytes of a run; `undefined` when they are missing, or are not what their checksum is of. */
  whole(place: number, seq: number, bytes: number): Buffer | undefined {
    const [key, value] = [this.#keys[place], this.#values[place]];
    if (!key || !value) return undefined;
    let entries = this.#runs.get(place);
    if (!entries) this.#runs.set(place, (entries = decodeWireRun(key, value) ?? []));
    const entry = withSeq(entries, seq);
    return entry?.wire.length === bytes ? wholeWire(key, entry) : undefined;
  }
}

/**
 * The wire bytes that were accepted at the places of these keys, wherever they lie: for those who do not know the rows
 * as they are stored. Unchecked.
 */
export async function wiresAt(level: Level, keys: readonly Buffer[]): Promise<(Buffer | undefined)[]> {
  const values = await level.getMany([...keys], { fillCache: false });
  const wires: (Buffer | undefined)[] = [];
  let near: { key: Buffer; entries: WireEntry[] } | undefined;
  for (const [at, key] of keys.entries()) {
    let value = values[at];
    const isOfNear = near && isSameQueue(near.key, key) && withSeq(near.entries, seqOf(key)) !== undefined;
    if (!value && !isOfNear) {
      const range = { gte: key, lte: keyAt(key, Number.MAX_SAFE_INTEGER), limit: 1 };
      const [found] = await level.iterator({ ...range, fillCache: false }).all();
      near = found && { key: found[0], entries: decodeWireRun(...found) ?? [] };
    } else if (value) {
      const entries = decodeWireRun(key, value);
      if (entries) [near, value] = [{ key, entries }, undefined];
    }
    wires.push(value ?? withSeq(near?.entries ?? [], seqOf(key))?.wire);
  }
  return wires;
}

function isSameQueue(one: Buffer, other: Buffer): boolean {
  return one.compare(other, 0, other.length - 8, 0, one.length - 8) === 0;
}

/** Decoded runs by their keys; that which was read longest ago goes. */
class Heads {
  readonly #heads = new Map<string, RowRun | WireEntry[]>();

  rows(key: Buffer): RowRun | undefined {
    return this.#heads.get(nameOf(key)) as RowRun | undefined;
  }

  wires(key: Buffer): WireEntry[] | undefined {
    return this.#heads.get(nameOf(key)) as WireEntry[] | undefined;
  }

  keep(key: Buffer, head: RowRun | WireEntry[]): void {
    keepRecent(this.#heads, nameOf(key), head, HEADS_MAX);
  }

  drop(key: Buffer): void {
    this.#heads.delete(nameOf(key));
  }

  clear(): void {
    this.#heads.clear();
  }
}

/** The prefix is in it: of a row run and a wire run. */
function nameOf(key: Buffer): string {
  return key.toString('latin1');
}

/** The member with this seq. */
function withSeq<T extends { seq: number }>(ascending: readonly T[], seq: number): T | undefined {
  const found = ascending[placeOf(ascending, seq, (one) => one.seq)];
  return found?.seq === seq ? found : undefined;
}
