/**
 * Work that is repeated on a timer.
 *
 * Invariants:
 *   - one run at a time: a tick or a call during a run joins it;
 *   - an error of a run goes to `onError`, and the next run comes in its time: no timer ends the process;
 *   - `stop` aborts the signal of the work, ends the timers and waits for the run; after it no run begins.
 */
import type { Cancel, Timers } from './clock.ts';

/** What long work reads between two steps; an `AbortSignal` is one. */
export type StopSignal = Pick<AbortSignal, 'aborted'>;

/** Aborted when `signal` is, and while `isForbidden` returns true: it is called at each reading. */
export function stopSignal(signal: StopSignal, isForbidden: () => boolean): StopSignal {
  return {
    get aborted() {
      return signal.aborted || isForbidden();
    },
  };
}

export interface PeriodicTaskOptions {
  timers: Timers;
  everyMs: number;
  /** A first run after this time; absent: after `everyMs`. */
  firstAfterMs?: number;
  /** To end soon after `signal` aborts. */
  work: (signal: AbortSignal) => Promise<void> | void;
  /** Called with what `work` throws, but not after `stop`. */
  onError: (error: unknown) => void;
}

export class PeriodicTask {
  readonly #options: PeriodicTaskOptions;
  readonly #cancels: Cancel[];
  readonly #stopped = new AbortController();
  #running: Promise<void> | undefined;

  /** Starts the timers. */
  constructor(options: PeriodicTaskOptions) {
    const { timers, everyMs, firstAfterMs } = options;
    const run = (): void => void this.run();
    this.#options = options;
    this.#cancels = [timers.every(everyMs, run)];
    if (firstAfterMs !== undefined) this.#cancels.push(timers.after(firstAfterMs, run));
  }

  /** Aborts at `stop`. */
  get signal(): AbortSignal {
    return this.#stopped.signal;
  }

  /** Resolves when no run is under way. */
  get idle(): Promise<void> {
    return this.#running ?? Promise.resolve();
  }

  /** Runs the work now, or joins the run under way. Never rejects. */
  run(): Promise<void> {
    return this.#running ?? this.#start(this.#options.work);
  }

  /** As `run`, of other work that must not overlap with it; waits for the run under way. */
  async runOther(work: PeriodicTaskOptions['work']): Promise<void> {
    while (this.#running) await this.#running;
    await this.#start(work);
  }

  /** Resolves when no run is under way. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    for (const cancel of this.#cancels) cancel();
    await this.#running;
  }

  #start(work: PeriodicTaskOptions['work']): Promise<void> {
    if (this.signal.aborted) return Promise.resolve();
    let running: Promise<void> | void = undefined;
    try {
      running = work(this.signal);
    } catch (error) {
      this.#report(error);
    }
    // Work without a promise is over by now: nothing can overlap with it.
    if (!running) return Promise.resolve();
    this.#running = running
      .catch((error: unknown) => this.#report(error))
      .finally(() => {
        this.#running = undefined;
      });
    return this.#running;
  }

  #report(error: unknown): void {
    if (!this.signal.aborted) this.#options.onError(error);
  }
}
