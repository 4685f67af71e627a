/** Asks a shared log again until it can be reached, and logs when that begins and ends. */
import type { Timers } from '../../lib/clock.ts';
import type { NodeLogger } from './node-options.ts';
import { isPassing } from './shared-log.ts';

const AGAIN_EVERY_MS = 500;

/** Thrown when the node is to stop while it asks. */
export class NodeStopped extends Error {}

interface ReachOptions {
  timers: Timers;
  /** Ends the asking. */
  signal: AbortSignal;
  logger: NodeLogger;
}

export class LogReach {
  readonly #options: ReachOptions;
  #isReached = true;

  constructor(options: ReachOptions) {
    this.#options = options;
  }

  /** What `work` gives once the log can be reached; `undefined` when the node is to stop. */
  async reached<T>(work: () => Promise<T>): Promise<T | undefined> {
    const { signal } = this.#options;
    while (!signal.aborted) {
      try {
        const result = await work();
        this.note(undefined);
        return result;
      } catch (error) {
        if (!isPassing(error)) throw error;
        this.note(error);
        await this.pause(AGAIN_EVERY_MS);
      }
    }
    return undefined;
  }

  /** As `reached`, for work that gives up when the node is to stop. Throws `NodeStopped`. */
  async asked<T>(work: () => Promise<T>): Promise<T> {
    const answered = await this.reached(async () => ({ value: await work() }));
    if (!answered) throw new NodeStopped();
    return answered.value;
  }

  /** Logs the first of several errors, and when the log is reached again. */
  note(error: unknown): void {
    const { logger } = this.#options;
    if (error !== undefined && this.#isReached)
      logger.error({ err: error }, 'the log cannot be reached; it is tried again');
    if (error === undefined && !this.#isReached) logger.info({}, 'the log is reached again');
    this.#isReached = error === undefined;
  }

  /** Resolves after `ms`, or when the node is to stop. */
  async pause(ms: number): Promise<void> {
    const { timers, signal } = this.#options;
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const end = (): void => {
        cancel();
        signal.removeEventListener('abort', end);
        resolve();
      };
      const cancel = timers.after(ms, end);
      signal.addEventListener('abort', end);
    });
  }
}
