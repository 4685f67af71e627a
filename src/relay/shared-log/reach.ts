/** Asks a shared log again until it can be reached and keeps two copies, and logs when that begins and ends. */
import { type Clock, type Timers, pause } from '../../lib/clock.ts';
import type { NodeLogger } from './node-options.ts';
import { NoSecondCopy, isPassing } from './shared-log.ts';

const AGAIN_EVERY_MS = 500;
/** Between two warnings that there is no second copy. */
const WARN_EVERY_MS = 60_000;

/** Thrown when the node is to stop while it asks. */
export class NodeStopped extends Error {}

interface ReachOptions {
  clock: Clock;
  timers: Timers;
  /** Ends the asking. */
  signal: AbortSignal;
  logger: NodeLogger;
}

export class LogReach {
  readonly #options: ReachOptions;
  #isReached = true;
  /** When it was last warned of, by the monotonic clock; `undefined` while there is a second copy. */
  #warnedMs: number | undefined;

  constructor(options: ReachOptions) {
    this.#options = options;
  }

  /** Returns the result of `work` once the log can be reached. Throws `NodeStopped`. */
  async reached<T>(work: () => Promise<T>): Promise<T> {
    const { signal } = this.#options;
    while (!signal.aborted) {
      try {
        const result = await work();
        this.note(undefined);
        return result;
      } catch (error) {
        if (!isPassing(error)) throw error;
        if (error instanceof NoSecondCopy) this.noteCopies(error.message);
        else this.note(error);
        await this.pause(AGAIN_EVERY_MS);
      }
    }
    throw new NodeStopped();
  }

  /** Logs the first of several errors, and when the log is reached again. */
  note(error: unknown): void {
    const { logger } = this.#options;
    if (error !== undefined && this.#isReached)
      logger.error({ err: error }, 'the log cannot be reached; it is tried again');
    if (error === undefined && !this.#isReached) logger.info({}, 'the log is reached again');
    this.#isReached = error === undefined;
  }

  /** Warns at once of what keeps a batch from a second copy, and then once a minute; logs when it has one again. */
  noteCopies(fault: string | undefined): void {
    const { logger, clock } = this.#options;
    if (fault === undefined) {
      if (this.#warnedMs !== undefined) logger.info({}, 'a batch of the log has a second copy again');
      this.#warnedMs = undefined;
      return;
    }
    const nowMs = clock.monotonicMs();
    if (this.#warnedMs !== undefined && nowMs - this.#warnedMs < WARN_EVERY_MS) return;
    this.#warnedMs = nowMs;
    logger.warn({ why: fault }, 'a batch of the log would have no second copy: nothing is accepted until it has one');
  }

  /** Resolves after `ms`, or when the node is to stop. */
  pause(ms: number): Promise<void> {
    return pause(this.#options.timers, ms, this.#options.signal);
  }
}
