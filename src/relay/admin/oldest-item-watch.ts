/**
 * The age of the oldest waiting item, asked for on a timer: whoever looks gets the last answer and waits for none. The
 * first one after a start may take long.
 */
import type { Clock, Timers } from '../engine/ambient.ts';
import type { Engine } from '../engine/engine.ts';

const ASK_EVERY_MS = 5_000;

export interface OldestItemWatchOptions {
  engine: Engine;
  clock: Clock;
  timers: Timers;
}

export class OldestItemWatch {
  readonly #options: OldestItemWatchOptions;
  readonly #cancel: () => void;
  /** `null` when nothing waits; `undefined` while nothing is known. */
  #acceptedAtMs: number | null | undefined;
  #asking: Promise<void> | undefined;
  #isClosed = false;

  constructor(options: OldestItemWatchOptions) {
    this.#options = options;
    this.#cancel = options.timers.every(ASK_EVERY_MS, () => void this.ask());
    void this.ask();
  }

  /** 0 when nothing waits; `undefined` while nothing is known. */
  get ageMs(): number | undefined {
    if (this.#acceptedAtMs === undefined) return undefined;
    return this.#acceptedAtMs === null ? 0 : Math.max(0, this.#options.clock.nowMs() - this.#acceptedAtMs);
  }

  /** Asks now, or joins whoever asks. Never rejects. */
  ask(): Promise<void> {
    this.#asking ??= this.#answer().finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  /** Asks no more; resolves when the store may be closed. */
  async close(): Promise<void> {
    this.#cancel();
    this.#isClosed = true;
    await this.#asking;
  }

  async #answer(): Promise<void> {
    // What cannot be read is not known; a store that fails says so by itself.
    const row = await this.#options.engine.oldestWaiting(() => !this.#isClosed).catch(() => 'unknown' as const);
    this.#acceptedAtMs = row === 'unknown' ? undefined : (row?.acceptedAtMs ?? null);
  }
}
