/**
 * A thread that does one half of an audit beside this one: it replays the log into the rows that say which items are
 * known, and verifies or rebuilds them (audit-worker.ts).
 *
 * It only ever says that it is done. Where there is no thread to be had, where it ends before its time, and where it
 * finds anything, the caller does all of the work itself, alone: so what is found and said does not depend on threads.
 */
import { extname } from 'node:path';
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import type { Progress } from './finding.ts';
import type { OfflineStore } from './offline.ts';
import type { DedupPurged } from '../core/event.ts';
import type { ReplayHalf } from './replay.ts';
import type { ChecksBounds } from './verification.ts';

/** It lies beside this file, in the sources and in the bundle. */
const WORKER = new URL(`./audit-worker${extname(import.meta.url)}`, import.meta.url);

/** The thread takes a tenth of a second to begin, in which the half of so many records is verified. */
const HELPED_FROM = 20_000;
/** The moved rows of so many events, of 100 rows each, wait for the thread. */
const GIVEN_MAX = 50;
const GIVING_MS = 100;

/** The task that the thread is given. */
export interface HelperTask extends ChecksBounds {
  /** The folder of the database, which is open and shared. */
  location: string;
  /** The folder of the database that is made anew, open and shared too; absent: to verify. */
  fresh?: string;
  /** Numbers that both threads see, by `SHARED`. */
  shared: Int32Array;
}

/** The result of the half of this thread. */
export interface HalfDone {
  rows: number;
  bytes: number;
  /** The records of the checkpoints that a rebuild came by. */
  checkpoints: readonly number[];
  /** A rebuild has the senders that are charged for dedup rows that time forgot, and for how many. */
  forgotten?: DedupPurged['senders'];
}

export type HelperMessage = { type: 'progress'; progress: Progress } | { type: 'done'; done: HalfDone };

/** The numbers that both threads see: whether nobody wants an answer any more, and the moved rows given and taken. */
export const SHARED = { stop: 0, given: 1, taken: 2 } as const;

export interface HelperOptions {
  /** Records from which on there is a thread, and the file that it runs. */
  helpedFrom?: number | undefined;
  helper?: URL | undefined;
}

export class Helper {
  readonly #worker: Worker;
  readonly #shared: Int32Array;
  readonly #ended: Promise<void>;
  #progress: Progress = { stage: 'log', done: 0, of: undefined };
  #done: HalfDone | undefined;
  #isEnded = false;
  #told: () => void = () => undefined;

  private constructor(worker: Worker, shared: Int32Array) {
    this.#worker = worker;
    this.#shared = shared;
    worker.on('message', (message: HelperMessage) => {
      if (message.type === 'progress') this.#progress = message.progress;
      else this.#done = message.done;
      this.#told();
    });
    this.#ended = new Promise((resolve) => {
      // An error is followed by the exit.
      worker.on('error', () => undefined);
      worker.on('exit', () => {
        this.#isEnded = true;
        this.#told();
        resolve();
      });
    });
  }

  /**
   * Starts it on the open database, which must be shared, where the log is worth it; `undefined` where it is not, on
   * one core, or where threads cannot be had.
   */
  static start(
    { level, store }: OfflineStore,
    task: Omit<HelperTask, 'location' | 'shared'>,
    { helpedFrom = HELPED_FROM, helper: file = WORKER }: HelperOptions,
  ): Helper | undefined {
    if (store.lastLsn - store.pruned.throughLsn < helpedFrom) return undefined;
    if (availableParallelism() < 2) return undefined;
    const bytes = Object.keys(SHARED).length * Int32Array.BYTES_PER_ELEMENT;
    const shared = new Int32Array(new SharedArrayBuffer(bytes));
    const workerData: HelperTask = { ...task, location: level.location, shared };
    try {
      return new Helper(new Worker(file, { workerData, name: 'poste-audit' }), shared);
    } catch {
      return undefined;
    }
  }

  /** The half that the caller does. It gives the thread moved rows, and waits where that is far behind. */
  get half(): ReplayHalf {
    return {
      of: 'others',
      give: (rows) => {
        const taken = Atomics.load(this.#shared, SHARED.taken);
        // No longer than this: the thread may have ended.
        if (Atomics.load(this.#shared, SHARED.given) - taken >= GIVEN_MAX)
          Atomics.wait(this.#shared, SHARED.taken, taken, GIVING_MS);
        // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that of a window, and this is a thread
        this.#worker.postMessage(rows);
        Atomics.add(this.#shared, SHARED.given, 1);
        Atomics.notify(this.#shared, SHARED.given);
      },
    };
  }

  /** Runs `own` to its result; `undefined` as soon as the thread ended without being done, and `own` is left. */
  async *beside<T>(own: AsyncGenerator<Progress, T>): AsyncGenerator<Progress, T | undefined> {
    try {
      let step = await own.next();
      for (; !step.done; step = await own.next()) {
        if (this.#isEnded && !this.#done) return undefined;
        yield step.value;
      }
      return step.value;
    } finally {
      await own.return(undefined as never);
    }
  }

  /** Waits for the result of the thread; `undefined` when it ended without. */
  async *answer(): AsyncGenerator<Progress, HalfDone | undefined> {
    while (!this.#done && !this.#isEnded) {
      // Asked for before the caller has its turn, so that nothing comes unheard meanwhile.
      const news = new Promise<void>((resolve) => {
        this.#told = resolve;
      });
      yield { ...this.#progress };
      await news;
    }
    return this.#done;
  }

  /** Ends the thread, which has left the database when this resolves. */
  async close(): Promise<void> {
    Atomics.store(this.#shared, SHARED.stop, 1);
    // It may wait for rows.
    Atomics.add(this.#shared, SHARED.given, 1);
    Atomics.notify(this.#shared, SHARED.given);
    await this.#ended;
  }
}
