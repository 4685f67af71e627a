/**
 * What a batch does to runs that are stored (item-run.ts): rows leave them, rows of a rotation come out of them, wire
 * bytes are put back.
 *
 * It is gathered while the batch is encoded and resolved once, when the database shows every batch before. So two
 * changes of a batch to one run cannot undo each other, and a batch may be encoded while the one before is written. No
 * edit fails a batch:
 *   - a row that is not there is passed over;
 *   - a run of rows that cannot be read stays until all of it is acked;
 *   - wire bytes whose head cannot be read stay until the rows of that run have gone.
 *
 * An entry of a wire run keeps its checksum, so a rewrite never makes altered bytes good. Rows that were moved name the
 * wire run of their acceptance: the edit that takes out its last entry deletes it.
 */
import type { Pair } from '../../lib/pair-block.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { QueueRow } from '../core/rows.ts';
import type { CollectedSlice } from './collect.ts';
import { yieldToEventLoop } from './due.ts';
import type { BatchEffects, BatchWrites, Payload } from './durable-log.ts';
import {
  type RowRun,
  type WireEntry,
  decodeRowRun,
  decodeWireRun,
  encodeRowRun,
  encodeWireRun,
  isRun,
  queueRowOf,
  wireEntry,
} from './item-run.ts';
import { firstKeyOf, payloadKey, queueKey, seqOf } from './keys.ts';
import type { Level } from './level.ts';
import type { FreshRun, QueueRuns } from './queue-runs.ts';
import { encodeRow, rowBytes } from './row-codec.ts';
import { readableRow } from './scan.ts';

/** Runs that are rewritten before other work gets its turn: about a millisecond. */
const RUNS_AT_ONCE = 8;

/** Why a row leaves: its wire bytes go with it, unless it is moved. */
type Leaving = 'dropped' | 'moved' | 'collected';

interface WireEdit {
  key: Buffer;
  gone: Set<number>;
  repaired: Map<number, Buffer>;
  /** The run of rows that these bytes came with is deleted. */
  areRowsGone: boolean;
  /** All of it goes, whatever else was to become of it. */
  isGone: boolean;
}

interface EditedStore {
  level: Level;
  runs: QueueRuns;
  writes: BatchWrites;
  effects: BatchEffects | undefined;
}

export class RunEdits {
  readonly #leaving = new Map<PublicKey, Map<number, Leaving>>();
  readonly #moved: QueueRow[] = [];
  readonly #repaired: Payload[] = [];
  #collected: CollectedSlice | undefined;
  readonly #wires = new Map<string, WireEdit>();
  /** By the places of their wire bytes: the runs in which those of moved rows lie. */
  readonly #boundOf = new Map<string, number | undefined>();
  #done = 0;
  /** The runs that were written, once it is resolved, and the bytes of rows that were dropped. */
  readonly written: Buffer[] = [];
  readonly fresh: FreshRun[] = [];
  droppedBytes = 0;

  /** The row goes, with its wire bytes unless it is `moved`. */
  remove(target: PublicKey, seq: number, leaving: Leaving): void {
    let seqs = this.#leaving.get(target);
    if (!seqs) this.#leaving.set(target, (seqs = new Map()));
    seqs.set(seq, leaving);
  }

  /** Acked rows go. */
  collect(slice: CollectedSlice): void {
    this.#collected = slice;
    for (const { seq } of slice.items) this.remove(slice.targetPubkey, seq, 'collected');
    for (const seq of slice.further ?? []) this.remove(slice.targetPubkey, seq, 'collected');
  }

  /** A row comes whose wire bytes lie where it was accepted. */
  move(row: QueueRow): void {
    this.#moved.push(row);
  }

  /** Wire bytes of a stored item are put back. */
  repair(payload: Payload): void {
    this.#repaired.push(payload);
  }

  /** Says whether a row that is moved names these wire bytes. */
  moves({ targetPubkey, seq }: Pick<Payload, 'targetPubkey' | 'seq'>): boolean {
    return this.#moved.some(({ payloadTarget, payloadSeq }) => payloadTarget === targetPubkey && payloadSeq === seq);
  }

  /** Adds what all of it comes to. To be called once, when the database shows every batch before. */
  async resolve(store: EditedStore): Promise<void> {
    for (const [target, leaving] of this.#leaving) await this.#take(target, leaving, store);
    this.#putMoved(store.writes);
    for (const { targetPubkey, seq, bound, wire } of this.#repaired) {
      if (bound === undefined) store.writes.put(payloadKey(targetPubkey, seq), wire);
      else this.#wireEdit(payloadKey(targetPubkey, bound)).repaired.set(seq, wire);
    }
    for (const edit of this.#wires.values()) {
      await this.#rewriteWires(edit, store);
      await this.#pause();
    }
  }

  async #take(target: PublicKey, leaving: ReadonlyMap<number, Leaving>, store: EditedStore): Promise<void> {
    const seqs = Float64Array.from(leaving.keys()).toSorted();
    const known = (this.#collected?.targetPubkey === target && this.#collected.pairs) || [];
    for (let at = 0, next = 0; at < seqs.length; ) {
      const seq = seqs[at] as number;
      while (next < known.length && seqOf((known[next] as Pair)[0]) < seq) next++;
      const pair = known[next] ?? (await store.runs.holder(target, seq));
      const from = at;
      const bound = pair ? seqOf(pair[0]) : seq;
      while (at < seqs.length && (seqs[at] as number) <= bound) at++;
      const here = new Map(Array.from(seqs.subarray(from, at), (one) => [one, leaving.get(one) as Leaving]));
      if (!pair) await this.#takeNothing(target, here, store);
      else if (isRun(pair[1])) await this.#takeFromRun(pair, here, store);
      else await this.#takeAlone(pair, here, store);
      await this.#pause();
    }
  }

  async #takeAlone([key, value]: Pair, leaving: Map<number, Leaving>, store: EditedStore): Promise<void> {
    const seq = seqOf(key);
    const why = leaving.get(seq);
    leaving.delete(seq);
    await this.#takeNothing(firstKeyOf(key), leaving, store);
    if (!why) return;
    store.writes.del(key);
    const row = readableRow('queue', key, value);
    if (row) this.#noteGone(row, why, store);
    // One that cannot be read, or a run of which not even the form is left, has its bytes at its own place, as a rule.
    else if (why === 'collected') this.#wireEdit(payloadKey(firstKeyOf(key), seq)).isGone = true;
    else if (why === 'dropped') await this.#takeNothing(firstKeyOf(key), new Map([[seq, why]]), store);
  }

  async #takeFromRun([key, value]: Pair, leaving: Map<number, Leaving>, store: EditedStore): Promise<void> {
    const { writes } = store;
    const run = decodeRowRun(key, value);
    const isAllAcked = this.#collected?.targetPubkey === firstKeyOf(key) && seqOf(key) <= this.#collected.through;
    if (!run) {
      if (!isAllAcked) return;
      writes.del(key);
      this.#wireEdit(payloadKey(firstKeyOf(key), seqOf(key))).isGone = true;
      return;
    }
    // All of it goes, also what another key that may not lie there (a bit of it flipped) was taken to hold.
    const left = isAllAcked ? [] : run.rows.filter(({ seq }) => !leaving.has(seq));
    const whys = new Set(leaving.values());
    // A run that names its wire bytes shares them: the edit that takes its rows leaves the entries of moved ones.
    const namesWires = run.isMoved || whys.has('moved');
    this.written.push(key);
    if (left.length > 0) writes.put(key, encodeRowRun(key, left, namesWires ? run.wireKey : undefined));
    else writes.del(key);
    const isGone = left.length === 0 && !run.isMoved && !whys.has('moved');
    // None of them was moved: nobody else names these bytes.
    const takesAllWires = isGone && isAllAcked && !whys.has('dropped');
    if (takesAllWires) this.#wireEdit(run.wireKey).isGone = true;
    else if (isGone) this.#wireEdit(run.wireKey).areRowsGone = true;
    this.#takeRows(run, leaving, takesAllWires, store);
    await this.#takeNothing(firstKeyOf(key), leaving, store);
  }

  /** What is left in `leaving` was not in the run. */
  #takeRows(run: RowRun, leaving: Map<number, Leaving>, areWiresGone: boolean, store: EditedStore): void {
    for (const one of run.rows) {
      const why = leaving.get(one.seq);
      if (!why) continue;
      leaving.delete(one.seq);
      if (why === 'collected' && !run.isMoved) {
        if (!areWiresGone) this.#wireEdit(run.wireKey).gone.add(one.seq);
      } else this.#noteGone(queueRowOf(run, one), why, store);
    }
  }

  #noteGone({ payloadTarget, payloadSeq, payloadBound, bytes }: QueueRow, why: Leaving, store: EditedStore): void {
    const place = payloadKey(payloadTarget, payloadSeq);
    if (why === 'moved') {
      this.#boundOf.set(place.toString('latin1'), payloadBound);
      return;
    }
    if (why === 'dropped') {
      this.droppedBytes += bytes;
      store.effects?.del(place);
    }
    if (payloadBound === undefined) store.writes.del(place);
    else this.#wireEdit(payloadKey(payloadTarget, payloadBound)).gone.add(payloadSeq);
  }

  /** Rows that are gone already leave their bytes where they were put when they were accepted, as a rule. */
  async #takeNothing(target: PublicKey, leaving: ReadonlyMap<number, Leaving>, store: EditedStore): Promise<void> {
    for (const [seq, why] of leaving) {
      if (why === 'moved') continue;
      const place = payloadKey(target, seq);
      if (why === 'dropped') store.effects?.del(place);
      const range = { gte: place, lte: payloadKey(target, Number.MAX_SAFE_INTEGER), limit: 1 };
      const [found] = await store.level.iterator({ ...range, fillCache: false }).all();
      if (!found) continue;
      if (decodeWireRun(...found)) this.#wireEdit(found[0]).gone.add(seq);
      else if (seqOf(found[0]) === seq && !isRun(found[1])) store.writes.del(place);
    }
  }

  /** Moved rows whose wire bytes lie in one run are a run again; those with raw bytes lie alone. */
  #putMoved(writes: BatchWrites): void {
    let run: QueueRow[] = [];
    const put = (): void => {
      const [first, last] = [run[0], run.at(-1)];
      if (!first || !last) return;
      const { targetPubkey, payloadTarget, payloadBound } = first;
      const key = queueKey(targetPubkey, last.seq);
      if (payloadBound === undefined) writes.put(key, encodeRow('queue', key, first));
      else {
        const rows = run.map((row) => ({ seq: row.seq, bytes: rowBytes('queue', row) }));
        writes.put(key, encodeRowRun(key, rows, payloadKey(payloadTarget, payloadBound)));
      }
      this.fresh.push({ target: targetPubkey, first: first.seq, bound: last.seq });
      run = [];
    };
    for (const row of this.#moved) {
      const place = payloadKey(row.payloadTarget, row.payloadSeq).toString('latin1');
      const bound = this.#boundOf.has(place) ? this.#boundOf.get(place) : row.payloadBound;
      row.payloadBound = bound;
      const [first, last] = [run[0], run.at(-1)];
      const goesOn =
        bound !== undefined &&
        first?.payloadBound === bound &&
        first.payloadTarget === row.payloadTarget &&
        first.targetPubkey === row.targetPubkey &&
        (last?.seq ?? 0) < row.seq;
      if (!goesOn) put();
      run.push(row);
    }
    put();
  }

  #wireEdit(key: Buffer): WireEdit {
    const name = key.toString('latin1');
    let edit = this.#wires.get(name);
    if (edit) return edit;
    edit = { key, gone: new Set(), repaired: new Map(), areRowsGone: false, isGone: false };
    this.#wires.set(name, edit);
    return edit;
  }

  async #rewriteWires(edit: WireEdit, { level, writes }: EditedStore): Promise<void> {
    const { key, gone, repaired, areRowsGone, isGone } = edit;
    if (isGone) {
      this.written.push(key);
      writes.del(key);
      return;
    }
    const value = await level.get(key, { fillCache: false });
    const stored = value && decodeWireRun(key, value);
    // Nobody knows what else is in it.
    if (value && !stored && repaired.size === 0 && !areRowsGone) return;
    const left: WireEntry[] = (stored ?? []).filter(({ seq }) => !gone.has(seq) && !repaired.has(seq));
    if (left.length === stored?.length && repaired.size === 0) return;
    for (const [seq, wire] of repaired) left.push(wireEntry(key, seq, wire));
    left.sort((a, b) => a.seq - b.seq);
    this.written.push(key);
    if (left.length > 0) writes.put(key, encodeWireRun(key, left));
    else if (value) writes.del(key);
  }

  async #pause(): Promise<void> {
    if (++this.#done % RUNS_AT_ONCE === 0) await yieldToEventLoop();
  }
}
