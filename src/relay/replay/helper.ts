/**
 * A thread that does one half of an audit beside this one: it replays the log into the rows that say which items are
 * known, and verifies or rebuilds them.
 *
 * It only ever says that it is done. Where there is no thread to be had, where it ends before its time, and where it
 * finds anything, the caller does all of the work itself, alone: so what is found and said does not depend on threads.
 */
import { availableParallelism } from 'node:os';
import { type AuditTask, AuditThread, type HalfDone, SHARED } from './audit-thread.ts';
import type { Progress } from './finding.ts';
import type { OfflineStore } from './offline.ts';
import type { ReplayHalf } from './replay.ts';

/** The thread takes a tenth of a second to begin, in which the half of so many records is verified. */
const HELPED_FROM = 20_000;
/** The moved rows of so many events, of 100 rows each, wait for the thread. */
const GIVEN_MAX = 50;
const GIVING_MS = 100;

export interface HelperOptions {
  /** Records from which on there is a thread, and the file that it runs. */
  helpedFrom?: number | undefined;
  helper?: URL | undefined;
}

export class Helper extends AuditThread<'half'> {
  /**
   * Starts it on the open database, which must be shared, where the log is worth it; `undefined` where it is not, on
   * one core, or where threads cannot be had.
   */
  static start(
    { level: { location }, store }: OfflineStore,
    half: NonNullable<AuditTask['half']>,
    { helpedFrom = HELPED_FROM, helper: file }: HelperOptions,
  ): Helper | undefined {
    if (store.lastLsn - store.pruned.throughLsn < helpedFrom) return undefined;
    if (availableParallelism() < 2) return undefined;
    try {
      return new Helper({ type: 'half', location, share: 1, half }, file);
    } catch {
      return undefined;
    }
  }

  /** The half that the caller does. It gives the thread moved rows, and waits where that is far behind. */
  get half(): ReplayHalf {
    return {
      of: 'others',
      give: (rows) => {
        const taken = Atomics.load(this.shared, SHARED.taken);
        // No longer than this: the thread may have ended.
        if (Atomics.load(this.shared, SHARED.given) - taken >= GIVEN_MAX)
          Atomics.wait(this.shared, SHARED.taken, taken, GIVING_MS);
        // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that of a window, and this is a thread
        this.worker.postMessage(rows);
        Atomics.add(this.shared, SHARED.given, 1);
        Atomics.notify(this.shared, SHARED.given);
      },
    };
  }

  /** Runs `own` to its result; `undefined` as soon as the thread ended without being done, and `own` is left. */
  async *beside<T>(own: AsyncGenerator<Progress, T>): AsyncGenerator<Progress, T | undefined> {
    try {
      let step = await own.next();
      for (; !step.done; step = await own.next()) {
        if (this.isEnded && !this.result) return undefined;
        yield step.value;
      }
      return step.value;
    } finally {
      await own.return(undefined as never);
    }
  }

  /** Waits for the result of the thread; `undefined` when it ended without. */
  async *answer(): AsyncGenerator<Progress, HalfDone | undefined> {
    while (!this.result && !this.isEnded) {
      // Asked for before the caller has its turn, so that nothing comes unheard meanwhile.
      const news = this.news();
      yield { ...this.progress };
      await news;
    }
    return this.result;
  }
}
