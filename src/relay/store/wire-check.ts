/**
 * Holds wire bytes against the rows that name them, and against the hashes that were accepted: of what goes into a
 * backup while it passes by, and of a store that is verified.
 *
 * The pairs of a store ascend, so its queue rows come before all wire bytes. A second walk over the rows keeps step
 * with the bytes; only rows whose bytes lie under another key, which a rotation moved, are kept in memory. Rows that
 * were acked keep their bytes until they are collected; what they lack is no loss.
 */
import { hasHash } from '../../protocol/encodings.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { type QueueRow, isMoved } from '../core/rows.ts';
import type { Pair } from '../../lib/pair-block.ts';
import { BOUND_BYTES, placedWires, readableRowsOf, wirePlaceOf } from './item-run.ts';
import { PREFIX, firstKeyOf, prefixRange } from './keys.ts';
import type { Level, LevelSnapshot } from './level.ts';
import { MARK_PREFIXES, isRowKey, verifiedBytes } from './checksum.ts';
import { readableRow, runsOf } from './scan.ts';

const READING = { pairs: 200, bytes: 128 << 10 };

/** The damage in what waits. */
export interface WireDamage {
  /** Items whose wire bytes are missing or altered. */
  items: number;
  /** The places in which they are queued, the first 10,000 of them. */
  places: Pick<QueueRow, 'targetPubkey' | 'seq'>[];
  /** Rows that are damaged: a restore refuses a backup that holds one. */
  unreadable: number;
}

interface WireJudge {
  /** Called for a waiting row whose wire bytes are not those that were accepted; `undefined`: nothing lies there. */
  lost: (row: QueueRow, wire: Buffer | undefined) => void;
  /** Called for the place of wire bytes that no row names. */
  unnamed?: (place: Buffer) => void;
}

export class WireCheck {
  /** Rows that cannot be read. */
  unreadable = 0;
  /** Wire bytes that have passed, and how many bytes they are with their keys. */
  wires = 0;
  bytes = 0;
  readonly #judge: WireJudge;
  readonly #ackedThrough = new Map<PublicKey, number>();
  /** Rows whose bytes lie elsewhere, by the place of those; of a row that was acked only that it has some. */
  readonly #moved = new Map<string, QueueRow | undefined>();
  readonly #unmoved: AsyncGenerator<QueueRow[]>;
  /** The rows of `#unmoved` that are at hand, and those of them whose bytes have passed. */
  #rows: QueueRow[] = [];
  #passed = 0;
  #isAtEnd = false;

  /** `snapshot` is that of which the pairs are. */
  constructor(level: Level, judge: WireJudge, snapshot?: LevelSnapshot) {
    this.#judge = judge;
    this.#unmoved = unmovedRows(level, snapshot);
  }

  /**
   * Must be given all targets, rows and wire bytes, in their order, and other pairs only where their damage is counted.
   */
  async pass(run: readonly Pair[]): Promise<void> {
    for (const pair of run) {
      const [key, value] = pair;
      if (key[0] === PREFIX.target) this.#noteTarget(key, value);
      else if (key[0] === PREFIX.queue) this.#noteRows(pair);
      else if (key[0] === PREFIX.payload)
        for (const placed of placedWires(pair)) while (!this.#compare(placed)) await this.#readRows();
      else if (isRowKey(key) && !MARK_PREFIXES.has(key[0]) && !verifiedBytes(key, value)) this.unreadable++;
    }
  }

  /** To be called when everything has passed. */
  async end(): Promise<void> {
    for (; !this.#isAtEnd; await this.#readRows())
      while (this.#passed < this.#rows.length) this.#judgeRow(this.#rows[this.#passed++] as QueueRow, undefined);
    for (const row of this.#moved.values()) if (row) this.#judgeRow(row, undefined);
  }

  /** To be called whether all of it has passed or not. */
  async close(): Promise<void> {
    await this.#unmoved.return(undefined);
  }

  #noteTarget(key: Buffer, value: Buffer): void {
    const row = readableRow('target', key, value);
    if (row) this.#ackedThrough.set(firstKeyOf(key), row.ackedThrough);
    else this.unreadable++;
  }

  #noteRows(pair: Pair): void {
    const rows = readableRowsOf(pair);
    if (!rows) this.unreadable++;
    for (const row of rows ?? [])
      if (isMoved(row)) this.#moved.set(markOf(wirePlaceOf(row)), this.#isAcked(row) ? undefined : row);
  }

  /** Judges the rows up to this place, and the bytes there; false where further rows are to be read first. */
  #compare([place, wire]: Pair): boolean {
    let order = -1;
    while (order < 0 && this.#passed < this.#rows.length) {
      const row = this.#rows[this.#passed] as QueueRow;
      order = Buffer.compare(wirePlaceOf(row), place);
      if (order > 0) break;
      this.#passed++;
      this.#judgeRow(row, order === 0 ? wire : undefined);
    }
    if (order < 0 && !this.#isAtEnd) return false;
    this.wires++;
    this.bytes += 1 + place.length - BOUND_BYTES + wire.length;
    const mark = this.#moved.size > 0 ? markOf(place) : '';
    const moved = this.#moved.get(mark);
    if (moved) this.#judgeRow(moved, wire);
    if (!this.#moved.delete(mark) && order !== 0) this.#judge.unnamed?.(place);
    return true;
  }

  #judgeRow(row: QueueRow, wire: Buffer | undefined): void {
    if (!this.#isAcked(row) && !hasHash(wire, row.wireHash)) this.#judge.lost(row, wire);
  }

  #isAcked({ targetPubkey, seq }: QueueRow): boolean {
    return seq <= (this.#ackedThrough.get(targetPubkey) ?? 0);
  }

  async #readRows(): Promise<void> {
    const next = await this.#unmoved.next();
    if (next.done) this.#isAtEnd = true;
    [this.#rows, this.#passed] = [next.done ? [] : next.value, 0];
  }
}

/** The rows whose bytes lie under their own key. */
async function* unmovedRows(level: Level, snapshot: LevelSnapshot | undefined): AsyncGenerator<QueueRow[]> {
  for await (const run of runsOf(level, prefixRange(PREFIX.queue), { ...READING, ...(snapshot && { snapshot }) }))
    yield run.flatMap((pair) => (readableRowsOf(pair) ?? []).filter((row) => !isMoved(row)));
}

function markOf(key: Buffer): string {
  return key.toString('latin1');
}
