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

  /** Lets everything that is ready run first. */
  async pause(): Promise<void> {
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
    this.#endsMs = this.#monotonicMs() + STRETCH_MS;
  }
}
