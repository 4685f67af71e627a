/**
 * The age of the oldest waiting item, looked up on a timer: readers get the last answer and never wait. The first answer
 * after a start may take long.
 */
import type { Clock, Timers } from '../../lib/clock.ts';
import { PeriodicTask } from '../../lib/periodic-task.ts';
import type { Engine } from '../engine/engine.ts';

const ASK_EVERY_MS = 5_000;

interface OldestItemWatchOptions {
  engine: Engine;
  clock: Clock;
  timers: Timers;
  onError: (error: unknown) => void;
}

export class OldestItemWatch {
  readonly #options: OldestItemWatchOptions;
  readonly #task: PeriodicTask;
  /** `null` when nothing waits; `undefined` while nothing is known. */
  #acceptedAtMs: number | null | undefined;

  constructor(options: OldestItemWatchOptions) {
    const { timers, onError } = options;
    this.#options = options;
    this.#task = new PeriodicTask({ timers, everyMs: ASK_EVERY_MS, work: (signal) => this.#ask(signal), onError });
    void this.#task.run();
  }

  /** 0 when nothing waits; `undefined` while nothing is known. */
  get ageMs(): number | undefined {
    if (this.#acceptedAtMs === undefined) return undefined;
    return this.#acceptedAtMs === null ? 0 : Math.max(0, this.#options.clock.nowMs() - this.#acceptedAtMs);
  }

  /** Asks now, or joins the look-up under way. Never rejects. */
  ask(): Promise<void> {
    return this.#task.run();
  }

  /** Resolves when the store may be closed. */
  close(): Promise<void> {
    return this.#task.stop();
  }

  async #ask(signal: AbortSignal): Promise<void> {
    // A damaged row makes the age unknown; a store that fails ends the process by itself.
    const row = await this.#options.engine.oldestWaiting(signal).catch(() => 'unknown' as const);
    this.#acceptedAtMs = row === 'unknown' ? undefined : (row?.acceptedAtMs ?? null);
  }
}
