/**
 * Keeps the log bounded: takes checkpoints of the rows, drops those that are no longer needed, and prunes old records.
 *
 * All of it runs beside the mail, in ordinary batches, until its signal aborts. A crash at any point leaves parts of a
 * checkpoint that have no mark, which the next start drops, or a log that begins later than it did: never one with a
 * gap.
 */
import { eventTimeMs } from '../core/event.ts';
import {
  checkpointParts,
  type ListedCheckpoints,
  type RowCheckpoint,
  RowsDigest,
  type TakenDigest,
} from '../store/row-checkpoints.ts';
import { PRUNED_AT_ONCE } from '../store/durable-log.ts';
import { missingRecord } from '../store/record-run.ts';
import type { EngineParts } from './parts.ts';
import { inTurns } from '../../lib/clock.ts';
import type { StopSignal } from '../../lib/periodic-task.ts';
import { CHECKSUM_BYTES } from '../store/checksum.ts';
import type { StoreSnapshot } from '../store/store-reader.ts';
import { type KeepingTime, ageOf, baseCheckpoint, decideCheckpoint } from '../core/decide-log.ts';

/** Parts of a checkpoint that one batch drops. */
const PARTS_AT_ONCE = 250;
/** Pruned records whose space is given back in one go: a stop waits for it. */
const COMPACTED_AT_ONCE = 100_000;

/** `stopped` and `no room` leave nothing of a checkpoint. */
export type TakenCheckpoint =
  | { type: 'CheckpointTaken'; throughLsn: number; rows: number; bytes: number }
  | { type: 'stopped' }
  | { type: 'no room' };

export class LogRetention {
  readonly #parts: EngineParts;
  /** The LSN of the checkpoint that was last read to its end. */
  #readThrough = 0;

  constructor(parts: EngineParts) {
    this.#parts = parts;
  }

  /** Runs `work` while no batch is in flight: what the store shows then is durable. Rejects with `StoreFailed`. */
  betweenBatches<T>(work: () => T): Promise<T> {
    return this.#parts.committer.betweenBatches(work);
  }

  /** Says in the log what the rows were, for a copy of them that is kept elsewhere. */
  async vouch(taken: TakenDigest & { throughLsn: number }, nowMs: number): Promise<void> {
    const { committer } = this.#parts;
    while (committer.isFull) await committer.room();
    const decision = decideCheckpoint({ type: 'TakeCheckpoint', ...taken, nowMs });
    committer.add({ partless: taken.throughLsn });
    await committer.answer(decision);
  }

  /** The checkpoints that are whole, in order, and what is wrong with the marks of others. */
  checkpoints(): Promise<ListedCheckpoints> {
    return this.#parts.store.checkpoints.list();
  }

  /**
   * Saves the rows as they are at one moment. `hasRoom` is called with the bytes of each part before it is written.
   * Throws `StoreFailed`, and `DamagedRecord` when the parts cannot be read back as they were written.
   */
  async takeCheckpoint(
    nowMs: () => number,
    signal: StopSignal,
    hasRoom: (bytes: number) => boolean,
  ): Promise<TakenCheckpoint> {
    const { store, committer } = this.#parts;
    await this.dropOrphanParts();
    const snapshot = await committer.betweenBatches(() => store.snapshot());
    let written: Written | 'stopped' | 'no room';
    try {
      written = await this.#write(snapshot, signal, hasRoom);
    } finally {
      await snapshot.close();
    }
    if (typeof written === 'string') return this.#givenUp(written);
    const { bytes, ...taken } = written;
    if (!(await this.#readBack(taken, signal))) return this.#givenUp('stopped');
    while (committer.isFull) await committer.room();
    await committer.answer(decideCheckpoint({ type: 'TakeCheckpoint', ...taken, nowMs: nowMs() }));
    return { type: 'CheckpointTaken', throughLsn: taken.throughLsn, rows: taken.rows, bytes };
  }

  /**
   * Drops the checkpoints that an old one replaces, after reading that one to its end again, and every part that
   * belongs to none. Throws `DamagedRecord`.
   */
  async dropNeedless(time: KeepingTime, signal: StopSignal): Promise<void> {
    const { store, committer } = this.#parts;
    const base = baseCheckpoint((await this.checkpoints()).whole, time);
    const needless: number[] = [];
    for await (const lsn of store.checkpoints.lsns()) if (base && lsn < base.throughLsn) needless.push(lsn);
    if (base && needless.length > 0) {
      if (!(await this.#isStillWhole(base, signal))) return;
      committer.add({ checkpoints: needless.map((throughLsn) => ({ type: 'drop mark', throughLsn })) });
      await committer.durable();
    }
    await this.dropOrphanParts();
  }

  /** Drops the parts of unfinished checkpoints. None may be under way. */
  async dropOrphanParts(): Promise<void> {
    const { store, committer } = this.#parts;
    for (;;) {
      const parts = await store.checkpoints.orphanParts(PARTS_AT_ONCE);
      if (parts.length === 0) return;
      const drop = 'drop part' as const;
      committer.add({ checkpoints: parts.map(({ throughLsn, part }) => ({ type: drop, throughLsn, part })) });
      await committer.durable();
    }
  }

  /**
   * The last record that may go: all up to it are old, a checkpoint that can still be read stands for them and the hash
   * tree holds their hashes. It ends a stored run, so at most 255 records stay longer. At most `atMost` records are
   * looked at; `undefined` when none may go. Throws `DamagedRecord`.
   */
  async prunable(time: KeepingTime, atMost: number, signal: StopSignal): Promise<number | undefined> {
    const { store, monotonicMs } = this.#parts;
    const [base] = (await this.checkpoints()).whole;
    const { firstLsn, tree } = store;
    const lastLsn = Math.min(base?.throughLsn ?? 0, tree.prunableThrough, firstLsn + atMost - 1);
    if (lastLsn < firstLsn) return undefined;
    let found: number | undefined;
    for await (const { lsn, event } of inTurns(store.read(firstLsn), monotonicMs)) {
      if (lsn > lastLsn) break;
      const age = ageOf(eventTimeMs(event), time);
      if (age === 'young') break;
      if (age === 'old') found = lsn;
    }
    const throughLsn = await store.lastEndUpTo(found ?? 0);
    return base && throughLsn >= firstLsn && (await this.#isStillWhole(base, signal)) ? throughLsn : undefined;
  }

  /** Prunes the log through a record that `prunable` named. Returns false when `signal` aborted before the end. */
  async prune(throughLsn: number, signal: StopSignal): Promise<boolean> {
    const { store, committer } = this.#parts;
    // Asked first: a search behind what was pruned would go through all of its tombstones.
    while (store.firstLsn <= throughLsn) {
      if (signal.aborted) return false;
      const lsn = await store.lastEndUpTo(Math.min(throughLsn, store.firstLsn + PRUNED_AT_ONCE - 1));
      if (lsn < store.firstLsn) return true;
      const last = await store.entry(lsn);
      if (!last) throw missingRecord(lsn);
      committer.add({ pruned: { throughLsn: lsn, atMs: eventTimeMs(last.event) } });
      await committer.durable();
    }
    return true;
  }

  /** Gives back the space of the records from `fromLsn` on that were pruned. */
  async compact(fromLsn: number, signal: StopSignal): Promise<void> {
    const { store } = this.#parts;
    for (let from = fromLsn; from < store.firstLsn && !signal.aborted; from += COMPACTED_AT_ONCE)
      await store.compactRecords(from, from + COMPACTED_AT_ONCE - 1);
  }

  async #givenUp(type: 'stopped' | 'no room'): Promise<TakenCheckpoint> {
    await this.dropOrphanParts();
    return { type };
  }

  async #write(
    snapshot: StoreSnapshot,
    signal: StopSignal,
    hasRoom: (bytes: number) => boolean,
  ): Promise<Written | 'stopped' | 'no room'> {
    const { committer, monotonicMs } = this.#parts;
    const throughLsn = snapshot.lsn;
    const digest = new RowsDigest();
    let bytes = 0;
    for await (const part of checkpointParts(throughLsn, inTurns(snapshot.rows(), monotonicMs), digest)) {
      if (signal.aborted) return 'stopped';
      const size = CHECKSUM_BYTES + part.packed.length;
      if (!hasRoom(size)) return 'no room';
      bytes += size;
      while (committer.isFull) await committer.room();
      committer.add({ checkpoints: [{ type: 'part', ...part }] });
      await committer.durable();
    }
    return { throughLsn, bytes, ...digest.taken() };
  }

  /**
   * Reads a checkpoint again before anything is deleted because of it, once in the life of the process: it may be
   * months old, and the disk may have altered it since. False when `signal` aborted before. Throws `DamagedRecord`.
   */
  async #isStillWhole(base: RowCheckpoint, signal: StopSignal): Promise<boolean> {
    return base.throughLsn === this.#readThrough || this.#readBack(base, signal);
  }

  /** Reads what was written to its end; false when `signal` aborted before. Throws `DamagedRecord`. */
  async #readBack(taken: TakenDigest & { throughLsn: number }, signal: StopSignal): Promise<boolean> {
    const { store, monotonicMs } = this.#parts;
    for await (const _pairs of inTurns(store.checkpoints.pairs(taken), monotonicMs)) if (signal.aborted) return false;
    this.#readThrough = taken.throughLsn;
    return true;
  }
}

interface Written extends TakenDigest {
  throughLsn: number;
  /** The bytes of the parts, as they are stored. */
  bytes: number;
}
