/** By the clock: sessions whose program runs are live, and what nobody wants to know any more is forgotten. */
import type { Office } from '../office/office.ts';
import { sessionsWithProgram, tidySessions } from '../office/sessions.ts';
import type { Cancel, Timers } from '../office/timers.ts';
import { type FactsOf, isRunning } from './processes.ts';

/** Several times within the window of liveness. */
export const SESSION_TIDY_MS = 60_000;

export interface SessionKeeperParts {
  office: Office;
  timers: Timers;
  factsOf: FactsOf;
}

export class SessionKeeper {
  readonly #parts: SessionKeeperParts;
  readonly #closing = new AbortController();
  readonly #cancel: Cancel;
  #running: Promise<void> | undefined;

  /** The first look is at once: sessions outlive a daemon that was started again. */
  constructor(parts: SessionKeeperParts) {
    this.#parts = parts;
    this.#cancel = parts.timers.every(SESSION_TIDY_MS, () => this.tidy());
    this.tidy();
  }

  /** One look at a time. */
  tidy(): void {
    this.#running ??= this.#tidy().finally(() => {
      this.#running = undefined;
    });
  }

  /** Resolves when no look is under way. */
  async idle(): Promise<void> {
    await this.#running;
  }

  async close(): Promise<void> {
    this.#cancel();
    this.#closing.abort();
    await this.#running;
  }

  async #tidy(): Promise<void> {
    const { office, factsOf } = this.#parts;
    const { signal } = this.#closing;
    try {
      const running = [];
      for (const session of await sessionsWithProgram(office)) {
        if (await isRunning(session.process, factsOf, signal)) running.push(session);
      }
      if (!signal.aborted) await tidySessions(office, running);
    } catch (error) {
      office.log('warn', 'sessions could not be looked after', { err: error });
    }
  }
}
