/**
 * The daily check of the rows against the log, and one on demand: a row that is not what the log gives is a fault of
 * the machine or of this software, and nothing that rests on it is to be believed.
 *
 * The work is done elsewhere (replay/audit-thread.ts); here is when, one at a time, and what is told of it.
 */
import type { Clock, Timers } from '../../lib/clock.ts';
import { PeriodicTask } from '../../lib/periodic-task.ts';
import { DAY_MS } from '../../protocol/limits.ts';
import type { AuditThread, CheckedRows } from '../replay/audit-thread.ts';

/** By then most relays have ended their first scrub. */
const FIRST_AFTER_MS = 60 * 60_000;
/** The share of one processor: under two hundredths, with what it costs to begin. */
export const QUIET_SHARE = 0.018;

/** One check under way. */
export interface RowsCheckRun extends Pick<AuditThread<'rows'>, 'progress' | 'stop'> {
  readonly done: Promise<CheckedRows | undefined>;
}

export interface CheckedAt {
  atMs: number;
  durationMs: number;
  checked: CheckedRows;
}

/** Begins a check. `share` is what of one processor it may take. */
export type StartRowsCheck = (share: number) => RowsCheckRun;

interface RowsCheckOptions {
  start: StartRowsCheck;
  clock: Clock;
  timers: Timers;
  onEnded: (ended: CheckedAt) => Promise<void> | void;
  onError: (error: unknown) => void;
}

export class RowsCheck {
  readonly #options: RowsCheckOptions;
  readonly #task: PeriodicTask;
  #share = QUIET_SHARE;
  #run: RowsCheckRun | undefined;
  #last: CheckedAt | undefined;
  #failedAtMs: number | undefined;

  /** Starts the timers. */
  constructor(options: RowsCheckOptions) {
    const { timers, onError } = options;
    this.#options = options;
    this.#task = new PeriodicTask({
      timers,
      firstAfterMs: FIRST_AFTER_MS,
      everyMs: DAY_MS,
      work: () => this.#check(),
      onError,
    });
  }

  /** The last whole check of this process. */
  get last(): CheckedAt | undefined {
    return this.#last;
  }

  /** The time at which a check failed; `undefined` when a whole one came after it, or none failed. */
  get failedAtMs(): number | undefined {
    return this.#failedAtMs;
  }

  /** The check under way. */
  get run(): RowsCheckRun | undefined {
    return this.#run;
  }

  /** Resolves when no check is under way. */
  get idle(): Promise<void> {
    return this.#task.idle;
  }

  /** Checks now, or joins the check under way, which keeps its pace. Resolves when it has ended; never rejects. */
  async check(share: number): Promise<void> {
    this.#share = share;
    try {
      await this.#task.run();
    } finally {
      this.#share = QUIET_SHARE;
    }
  }

  async stop(): Promise<void> {
    const stopped = this.#task.stop();
    await this.#run?.stop();
    await stopped;
  }

  async #check(): Promise<void> {
    const { start, clock, onEnded } = this.#options;
    const startedMs = clock.monotonicMs();
    try {
      this.#run = start(this.#share);
      const checked = await this.#run.done;
      if (!checked || this.#task.signal.aborted) return;
      this.#last = { atMs: clock.nowMs(), durationMs: clock.monotonicMs() - startedMs, checked };
      this.#failedAtMs = undefined;
      await onEnded(this.#last);
    } catch (error) {
      this.#failedAtMs = clock.nowMs();
      throw error;
    } finally {
      this.#run = undefined;
    }
  }
}
