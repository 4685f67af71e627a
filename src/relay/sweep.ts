/** The timers that submit commands: time is input, and this is where it comes in. */
import { HEARTBEAT_EVERY_MS } from '../protocol/limits.ts';
import type { Challenges } from './auth/challenges.ts';
import { ClockGuard } from './clock-guard.ts';
import type { Clock, Timers } from './engine/ambient.ts';
import { StoreFailed } from './engine/committer.ts';
import type { Engine } from './engine/engine.ts';

export interface SweepOptions {
  engine: Engine;
  challenges: Challenges;
  clock: Clock;
  timers: Timers;
  everyMs: number;
  /** Whether the start found the clock contradicted. */
  isClockDoubted: boolean;
  /** Told of what should not happen. */
  unexpected: (error: unknown) => void;
}

export class Sweeps {
  readonly #options: SweepOptions;
  readonly #guard: ClockGuard;
  readonly #cancels: (() => void)[];
  #running: Promise<void> | undefined;
  #isStopped = false;

  /** Starts the heartbeat and the sweep. */
  constructor(options: SweepOptions) {
    const { engine, clock, timers, everyMs, isClockDoubted } = options;
    this.#options = options;
    this.#guard = new ClockGuard(clock, isClockDoubted);
    this.#cancels = [
      timers.every(HEARTBEAT_EVERY_MS, () => {
        // Asked here too: a jump is to be seen soon.
        void this.#guard.isTrusted;
        // A failed heartbeat is a failed batch, and that ends the process by itself.
        engine.heartbeat(clock.nowMs()).catch(() => undefined);
      }),
      timers.every(everyMs, () => {
        void this.sweep();
      }),
    ];
  }

  /** Whether what deletes for good may believe the clock. */
  get isClockTrusted(): boolean {
    return this.#guard.isTrusted;
  }

  /** One sweep: expires, forgets, drops old challenges, invites and deny entries. A sweep under way is not joined by another. */
  sweep(): Promise<void> {
    this.#running ??= this.#sweep().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** Resolves when no sweep is under way any more. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const cancel of this.#cancels) cancel();
    await this.#running;
  }

  async #sweep(): Promise<void> {
    const { engine, challenges, clock, unexpected } = this.#options;
    challenges.forgetEnded();
    const nowMs = (): number => clock.nowMs();
    const goesOn = (): boolean => !this.#isStopped && this.#guard.isTrusted;
    try {
      await engine.expire(nowMs, goesOn);
      await engine.purgeDedup(nowMs, goesOn);
      if (goesOn()) await engine.lapseAdmissions(nowMs());
    } catch (error) {
      if (!(error instanceof StoreFailed)) unexpected(error);
    }
  }
}
