/**
 * The jobs that submit commands by the clock: the heartbeat, and the sweep that expires and forgets what its time has
 * passed. Neither deletes anything while the clock is not trusted (lib/clock-guard.ts).
 */
import type { Clock, Timers } from '../../lib/clock.ts';
import { PeriodicTask, stopSignal } from '../../lib/periodic-task.ts';
import { HEARTBEAT_EVERY_MS } from '../../protocol/limits.ts';
import type { Challenges } from '../auth/challenges.ts';
import { StoreFailed } from '../engine/committer.ts';
import type { Engine } from '../engine/engine.ts';
import { isRowFault } from '../engine/queues.ts';
import { ClockGuard } from '../../lib/clock-guard.ts';

interface SweepOptions {
  engine: Engine;
  challenges: Challenges;
  clock: Clock;
  timers: Timers;
  everyMs: number;
  /** True when the start found that the stored heartbeat contradicts the clock. */
  isClockSuspect: boolean;
  onError: (error: unknown) => void;
}

export class Sweeps {
  readonly #options: SweepOptions;
  readonly #guard: ClockGuard;
  readonly #heartbeat: PeriodicTask;
  readonly #task: PeriodicTask;

  /** Starts the heartbeat and the sweep. */
  constructor(options: SweepOptions) {
    const { engine, clock, timers, everyMs, isClockSuspect, onError } = options;
    this.#options = options;
    this.#guard = new ClockGuard(clock, { isDoubted: isClockSuspect });
    const beat = (): void => {
      // Also looks at the clock, so that a jump is seen soon.
      void this.#guard.isTrusted;
      // Not waited for: a heartbeat that fails is a failed batch, which ends the process by itself.
      engine.heartbeat(clock.nowMs()).catch(() => undefined);
    };
    this.#heartbeat = new PeriodicTask({ timers, everyMs: HEARTBEAT_EVERY_MS, work: beat, onError });
    this.#task = new PeriodicTask({ timers, everyMs, work: (signal) => this.#sweep(signal), onError });
  }

  /** True when work that deletes for good may trust the clock. */
  get isClockTrusted(): boolean {
    return this.#guard.isTrusted;
  }

  /** Sweeps now, or joins the sweep under way: expires, forgets, drops old challenges, invites and deny entries. */
  sweep(): Promise<void> {
    return this.#task.run();
  }

  async stop(): Promise<void> {
    await Promise.all([this.#heartbeat.stop(), this.#task.stop()]);
  }

  async #sweep(stopped: AbortSignal): Promise<void> {
    const { engine, challenges, clock, onError } = this.#options;
    challenges.forgetEnded();
    const nowMs = (): number => clock.nowMs();
    const signal = stopSignal(stopped, () => !this.#guard.isTrusted);
    const works = [
      async () => {
        await engine.expiry.expire(nowMs, signal);
        // Only items that expired or were acked are forgotten.
        await engine.expiry.purgeDedup(nowMs, signal);
      },
      () => (signal.aborted ? Promise.resolve() : engine.admissions.lapse(nowMs())),
    ];
    // An error in one of them must not keep the other from its turn.
    for (const work of works) {
      try {
        await work();
      } catch (error) {
        if (error instanceof StoreFailed) return;
        if (!isRowFault(error)) onError(error);
      }
    }
  }
}
