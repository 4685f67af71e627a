/**
 * Keeps the log bounded: takes checkpoints of the rows, drops those that are needless, and prunes old records.
 *
 * All of it beside the mail, in slices of batches like any other. A crash at any point leaves parts of a checkpoint that
 * have no mark, which the next start drops, or a log that begins later than it did: never one with a gap.
 */
import { type KeepingTime, ageOf, baseCheckpoint, decideCheckpoint } from '../core/decide-log-keeping.ts';
import { eventTimeMs } from '../core/event.ts';
import { RowsDigest } from '../store/canonical-rows.ts';
import { checkpointKey } from '../store/keys.ts';
import { PRUNED_AT_ONCE } from '../store/log.ts';
import { DamagedRecord, decodeRecord } from '../store/record.ts';
import type { RelayStore } from '../store/relay-store.ts';
import {
  type ListedCheckpoints,
  type RowCheckpoint,
  type TakenDigest,
  checkpointParts,
} from '../store/row-checkpoints.ts';
import type { StoreSnapshot } from '../store/snapshot.ts';
import type { Committer } from './committer.ts';
import { Stretch } from './stretch.ts';

/** Parts of a checkpoint that one batch drops. */
const PARTS_AT_ONCE = 250;
/** Pruned records whose space is given back in one go: a stop waits for it. */
const COMPACTED_AT_ONCE = 100_000;

export interface LogKeepingOptions {
  store: RelayStore;
  committer: Committer;
  monotonicMs: () => number;
}

/** What a checkpoint came to. `stopped` and `no room` leave nothing that counts. */
export type TakenCheckpoint =
  | { type: 'CheckpointTaken'; throughLsn: number; rows: number; bytes: number }
  | { type: 'stopped' }
  | { type: 'no room' };

export class LogKeeping {
  readonly #options: LogKeepingOptions;
  /** The checkpoint that was last read to its end, by its LSN. */
  #readThrough = 0;

  constructor(options: LogKeepingOptions) {
    this.#options = options;
  }

  /** The checkpoints that are whole, in order, and what is wrong with the marks of others. */
  checkpoints(): Promise<ListedCheckpoints> {
    return this.#options.store.checkpoints.list();
  }

  /**
   * Keeps the rows as they are at one moment. `hasRoom` is told of every part before it is written; `goesOn` is asked
   * as often, and while they are read back. Throws `StoreFailed`, and `DamagedRecord` when what was written does not come back.
   */
  async takeCheckpoint(
    nowMs: () => number,
    goesOn: () => boolean,
    hasRoom: (bytes: number) => boolean,
  ): Promise<TakenCheckpoint> {
    const { store, committer } = this.#options;
    await this.dropWorthless();
    const snapshot = await committer.betweenBatches(() => store.snapshot());
    let written: Written | 'stopped' | 'no room';
    try {
      written = await this.#write(snapshot, goesOn, hasRoom);
    } finally {
      await snapshot.close();
    }
    if (typeof written === 'string') return this.#givenUp(written);
    const { bytes, ...taken } = written;
    if (!(await this.#readBack(taken, goesOn))) return this.#givenUp('stopped');
    while (committer.isFull) await committer.room();
    await committer.answer(decideCheckpoint({ type: 'TakeCheckpoint', ...taken, nowMs: nowMs() }));
    return { type: 'CheckpointTaken', throughLsn: taken.throughLsn, rows: taken.rows, bytes };
  }

  /**
   * Drops the checkpoints that an old one makes needless, once that was read to its end again, and every part that
   * belongs to none. Throws `DamagedRecord`.
   */
  async dropNeedless(time: KeepingTime, goesOn: () => boolean): Promise<void> {
    const { store, committer } = this.#options;
    const base = baseCheckpoint((await this.checkpoints()).whole, time);
    const needless: number[] = [];
    for await (const lsn of store.checkpoints.lsns()) if (base && lsn < base.throughLsn) needless.push(lsn);
    if (base && needless.length > 0) {
      if (!(await this.#isStillWhole(base, goesOn))) return;
      for (const lsn of needless) committer.keep([checkpointKey(lsn), null]);
      await committer.durable();
    }
    await this.dropWorthless();
  }

  /** Drops what is left of checkpoints that were cut short. None may be under way. */
  async dropWorthless(): Promise<void> {
    const { store, committer } = this.#options;
    for (;;) {
      const keys = await store.checkpoints.worthless(PARTS_AT_ONCE);
      if (keys.length === 0) return;
      committer.forget(keys);
      await committer.durable();
    }
  }

  /**
   * The last record that may go: all up to it are old, a checkpoint that can still be read stands for them and the hash
   * tree holds their hashes. At most `atMost` records are looked at; `undefined` when none may go. Throws
   * `DamagedRecord`.
   */
  async prunable(time: KeepingTime, atMost: number, goesOn: () => boolean): Promise<number | undefined> {
    const { store, monotonicMs } = this.#options;
    const [base] = (await this.checkpoints()).whole;
    const { firstLsn, tree } = store;
    const lastLsn = Math.min(base?.throughLsn ?? 0, tree.prunableThrough, firstLsn + atMost - 1);
    if (lastLsn < firstLsn) return undefined;
    const stretch = new Stretch(monotonicMs);
    let found: number | undefined;
    for await (const { lsn, event } of store.read(firstLsn)) {
      if (lsn > lastLsn) break;
      const age = ageOf(eventTimeMs(event), time);
      if (age === 'young') break;
      if (age === 'old') found = lsn;
      if (stretch.isOver) await stretch.pause();
    }
    return base && found !== undefined && (await this.#isStillWhole(base, goesOn)) ? found : undefined;
  }

  /** Prunes the log through a record that `prunable` named. Answers whether all of it went before `goesOn` said no. */
  async prune(throughLsn: number, goesOn: () => boolean): Promise<boolean> {
    const { store, committer } = this.#options;
    while (store.firstLsn <= throughLsn) {
      if (!goesOn()) return false;
      const lsn = Math.min(throughLsn, store.firstLsn + PRUNED_AT_ONCE - 1);
      const record = store.record(lsn);
      if (!record) throw new DamagedRecord(`log record ${lsn} is missing`);
      committer.prune({ throughLsn: lsn, atMs: eventTimeMs(decodeRecord(lsn, record).event) });
      await committer.durable();
    }
    return true;
  }

  /** Gives back the space of the records from `fromLsn` on that were pruned. */
  async compact(fromLsn: number, goesOn: () => boolean): Promise<void> {
    const { store } = this.#options;
    for (let from = fromLsn; from < store.firstLsn && goesOn(); from += COMPACTED_AT_ONCE)
      await store.compactRecords(from, from + COMPACTED_AT_ONCE - 1);
  }

  async #givenUp(type: 'stopped' | 'no room'): Promise<TakenCheckpoint> {
    await this.dropWorthless();
    return { type };
  }

  async #write(
    snapshot: StoreSnapshot,
    goesOn: () => boolean,
    hasRoom: (bytes: number) => boolean,
  ): Promise<Written | 'stopped' | 'no room'> {
    const { committer, monotonicMs } = this.#options;
    const throughLsn = snapshot.lsn;
    const digest = new RowsDigest();
    const stretch = new Stretch(monotonicMs);
    let bytes = 0;
    for await (const part of checkpointParts(throughLsn, snapshot.rows(), digest)) {
      if (!goesOn()) return 'stopped';
      if (part) {
        const size = part[1].length;
        if (!hasRoom(size)) return 'no room';
        bytes += size;
        while (committer.isFull) await committer.room();
        committer.keep(part);
        await committer.durable();
      }
      if (stretch.isOver) await stretch.pause();
    }
    return { throughLsn, bytes, ...digest.taken() };
  }

  /**
   * Reads a checkpoint again before anything goes on the strength of it, once in the life of the process: it may be
   * months old, and the disk may have altered it since. False when `goesOn` said no before. Throws `DamagedRecord`.
   */
  async #isStillWhole(base: RowCheckpoint, goesOn: () => boolean): Promise<boolean> {
    return base.throughLsn === this.#readThrough || this.#readBack(base, goesOn);
  }

  /** Reads what was written to its end; false when `goesOn` said no before. Throws `DamagedRecord`. */
  async #readBack(taken: TakenDigest & { throughLsn: number }, goesOn: () => boolean): Promise<boolean> {
    const { store, monotonicMs } = this.#options;
    const stretch = new Stretch(monotonicMs);
    for await (const _pairs of store.checkpoints.pairs(taken)) {
      if (!goesOn()) return false;
      if (stretch.isOver) await stretch.pause();
    }
    this.#readThrough = taken.throughLsn;
    return true;
  }
}

interface Written extends TakenDigest {
  throughLsn: number;
  /** Of the parts, as they are stored. */
  bytes: number;
}
