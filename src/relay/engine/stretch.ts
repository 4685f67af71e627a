/**
 * Cuts long work into stretches, so that no request holds the loop for more than a few milliseconds.
 */
const STRETCH_MS = 5;

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

/** Stretches of requests that run side by side would add up to one long one. */
const paused: (() => void)[] = [];

function resumeNext(): void {
  const resume = paused.shift();
  if (paused.length > 0) setImmediate(resumeNext);
  resume?.();
}
