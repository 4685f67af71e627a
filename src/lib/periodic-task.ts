/**
 * Work that must not overlap with itself, run when it is asked for (`SingleFlightTask`) or on a timer too
 * (`PeriodicTask`).
 *
 * Invariants:
 *   - one run at a time: a tick or a call during a run joins it;
 *   - an error of a run goes to `onError`, and the next run comes in its time: no timer ends the process;
 *   - `stop` aborts the signal of the work, ends the timers and waits for the run; after it no run begins.
 */
import type { Cancel, Timers } from './clock.ts';

/** Long work reads it between two steps; an `AbortSignal` is one. */
export type StopSignal = Pick<AbortSignal, 'aborted'>;

/** Aborts when `signal` does, and while `isForbidden` returns true: it is asked at each reading. */
export function stopSignal(signal: StopSignal, isForbidden: () => boolean): StopSignal {
  return {
    get aborted() {
      return signal.aborted || isForbidden();
    },
  };
}

interface SingleFlightOptions {
  /** Ends soon after `signal` aborts. */
  work: (signal: AbortSignal) => Promise<void> | void;
  /** Gets what `work` throws, but not after `stop`. */
  onError: (error: unknown) => void;
}

export interface PeriodicTaskOptions extends SingleFlightOptions {
  timers: Timers;
  everyMs: number;
  /** A first run after this time; absent: after `everyMs`. */
  firstAfterMs?: number;
}

export class SingleFlightTask {
  readonly #options: SingleFlightOptions;
  readonly #stopped = new AbortController();
  #running: Promise<void> | undefined;
  /** The run that is to follow the one under way. */
  #next: Promise<void> | undefined;

  constructor(options: SingleFlightOptions) {
    this.#options = options;
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

  /** A whole run from now on: at once, or after the run under way, which may have missed a change. Never rejects. */
  rerun(): Promise<void> {
    if (!this.#running) return this.run();
    this.#next ??= this.#running.then(() => {
      this.#next = undefined;
      return this.rerun();
    });
    return this.#next;
  }

  /** Does as `run`, with other work that must not overlap with it; waits for the run under way. */
  async runOther(work: SingleFlightOptions['work']): Promise<void> {
    while (this.#running) await this.#running;
    await this.#start(work);
  }

  /** Resolves when no run is under way. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#running;
  }

  #start(work: SingleFlightOptions['work']): Promise<void> {
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
    if (this.signal.aborted) return;
    try {
      this.#options.onError(error);
    } catch {
      // Nobody is left to tell. The task goes on.
    }
  }
}

export class PeriodicTask extends SingleFlightTask {
  readonly #cancels: Cancel[];

  /** Starts the timers. */
  constructor(options: PeriodicTaskOptions) {
    super(options);
    const { timers, everyMs, firstAfterMs } = options;
    const run = (): void => void this.run();
    this.#cancels = [timers.every(everyMs, run)];
    if (firstAfterMs !== undefined) this.#cancels.push(timers.after(firstAfterMs, run));
  }

  override stop(): Promise<void> {
    for (const cancel of this.#cancels) cancel();
    return super.stop();
  }
}
