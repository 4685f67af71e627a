/**
 * Cuts long work into time slices, so that no request holds the event loop for more than a few milliseconds.
 */
const SLICE_MS = 5;
const FIRST_BATCH = 8;

export class TimeSlice {
  readonly #monotonicMs: () => number;
  #endsMs: number;

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
    this.#endsMs = monotonicMs() + SLICE_MS;
  }

  get isOver(): boolean {
    return this.#monotonicMs() >= this.#endsMs;
  }

  /** Lets everything that is ready run first; of the work that pauses, one continues in each turn of the event loop. */
  async pause(): Promise<void> {
    await new Promise<void>((resolve) => {
      paused.push(resolve);
      if (paused.length === 1) setImmediate(resumeNext);
    });
    this.#endsMs = this.#monotonicMs() + SLICE_MS;
  }
}

/**
 * Says how many things are done at once: a few at first, while the code is cold, then as many as fit half a time slice.
 */
export class AdaptiveBatch {
  readonly #monotonicMs: () => number;
  readonly #max: number;
  #size = FIRST_BATCH;

  constructor(max: number, monotonicMs: () => number) {
    this.#max = max;
    this.#monotonicMs = monotonicMs;
  }

  get size(): number {
    return Math.min(this.#size, this.#max);
  }

  /**
   * Says how many of the first things are done at once, where neighbours of one mark belong together: these are parted
   * only where they are too many for one time.
   */
  sizeOf(marks: readonly unknown[]): number {
    if (marks.length <= this.size) return marks.length;
    let size = this.size;
    while (size > 0 && marks[size - 1] === marks[size]) size--;
    return size || this.size;
  }

  /** Does synchronous `work`, and adapts the size to the time it took. */
  run<T>(work: () => T): T {
    const startedMs = this.#monotonicMs();
    const result = work();
    const tookMs = this.#monotonicMs() - startedMs;
    if (tookMs > SLICE_MS) this.#size = Math.max(FIRST_BATCH, this.#size >>> 1);
    else if (tookMs < SLICE_MS / 2) this.#size = Math.min(this.#max, this.#size * 2);
    return result;
  }
}

/** Work that paused. Time slices that ran right after one another would add up to one long one. */
const paused: (() => void)[] = [];

function resumeNext(): void {
  const resume = paused.shift();
  if (paused.length > 0) setImmediate(resumeNext);
  resume?.();
}
