/**
 * Cuts long work into stretches, so that no request holds the loop for more than a few milliseconds.
 */
const STRETCH_MS = 5;
const FIRST_PORTION = 8;

export class Stretch {
  readonly #monotonicMs: () => number;
  #endsMs: number;

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
    this.#endsMs = monotonicMs() + STRETCH_MS;
  }

  /** Whether others should have their turn before the work goes on. */
  get isOver(): boolean {
    return this.#monotonicMs() >= this.#endsMs;
  }

  /** Lets everything that is ready run first; of those who pause, one goes on in each turn of the loop. */
  async pause(): Promise<void> {
    await new Promise<void>((resolve) => {
      paused.push(resolve);
      if (paused.length === 1) setImmediate(resumeNext);
    });
    this.#endsMs = this.#monotonicMs() + STRETCH_MS;
  }
}

/**
 * How many things are done in one go: a few at first, while the code is cold, then as many as fit half a stretch.
 */
export class Portion {
  readonly #monotonicMs: () => number;
  readonly #max: number;
  #size = FIRST_PORTION;

  constructor(max: number, monotonicMs: () => number) {
    this.#max = max;
    this.#monotonicMs = monotonicMs;
  }

  get size(): number {
    return Math.min(this.#size, this.#max);
  }

  /** Does `work`, which is synchronous, and learns from how long it took. */
  run<T>(work: () => T): T {
    const startedMs = this.#monotonicMs();
    const result = work();
    const tookMs = this.#monotonicMs() - startedMs;
    if (tookMs > STRETCH_MS) this.#size = Math.max(FIRST_PORTION, this.#size >>> 1);
    else if (tookMs < STRETCH_MS / 2) this.#size = Math.min(this.#max, this.#size * 2);
    return result;
  }
}

/** Stretches of requests that run side by side would add up to one long one. */
const paused: (() => void)[] = [];

function resumeNext(): void {
  const resume = paused.shift();
  if (paused.length > 0) setImmediate(resumeNext);
  resume?.();
}
