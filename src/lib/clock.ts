/**
 * Clock, timers and randomness as parameters, so that a test of many days takes no time; and the real ones. Time slices
 * of long work, too.
 */
import { randomBytes } from 'node:crypto';

/** Its functions need no `this`: each is passed on by itself. */
export interface Clock {
  /** Milliseconds since the Unix epoch; may jump. */
  nowMs: () => number;
  /** Milliseconds that never go back: for rates, challenges and durations. */
  monotonicMs: () => number;
}

/** Cancels a timer; does nothing when it has fired. */
export type Cancel = () => void;

export interface Timers {
  after(ms: number, run: () => void): Cancel;
  every(ms: number, run: () => void): Cancel;
}

/** Calls `run` once: when the time is over, or when `signal` aborts before. The returned function cancels both. */
export function afterOrAborted(timers: Timers, ms: number, signal: AbortSignal, run: () => void): Cancel {
  const end = (): void => {
    cancel();
    run();
  };
  const cancelTimer = timers.after(ms, end);
  const cancel = (): void => {
    cancelTimer();
    signal.removeEventListener('abort', end);
  };
  signal.addEventListener('abort', end);
  return cancel;
}

/** Resolves when the time is over, or when `signal` aborts before. */
export function pause(timers: Timers, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else afterOrAborted(timers, ms, signal, resolve);
  });
}

/** `count` bytes from a cryptographic source. */
export type RandomBytes = (count: number) => Buffer;

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
};

export const systemTimers: Timers = {
  after(ms, run) {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
  every(ms, run) {
    const timer = setInterval(run, ms);
    return () => clearInterval(timer);
  },
};

/** Drawn from the system at once: a call of it costs as much as a thousand bytes, and every request needs a few. */
const DRAWN_BYTES = 4096;
let drawn = Buffer.alloc(0);

export const systemRandom: RandomBytes = (count) => {
  if (count > DRAWN_BYTES) return randomBytes(count);
  if (drawn.length < count) drawn = randomBytes(DRAWN_BYTES);
  // A copy, and no trace of it where it was: some of these are secrets.
  const taken = Buffer.from(drawn.subarray(0, count));
  drawn.fill(0, 0, count);
  drawn = drawn.subarray(count);
  return taken;
};

/** Like `timers`, but what a callback throws goes to `onError` instead of ending the process. */
export function guardedTimers(timers: Timers, onError: (error: unknown) => void): Timers {
  const guarded = (run: () => void) => (): void => {
    try {
      run();
    } catch (error) {
      onError(error);
    }
  };
  return {
    after: (ms, run) => timers.after(ms, guarded(run)),
    every: (ms, run) => timers.every(ms, guarded(run)),
  };
}

/** Says whether `work` ended within `ms`. */
export function withinMs(work: Promise<unknown>, ms: number, timers: Timers): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const cancel = timers.after(ms, () => resolve(false));
    work.then(() => {
      cancel();
      resolve(true);
    }, reject);
  });
}

const SLICE_MS = 5;
const FIRST_BATCH = 8;

/** Cuts long work into time slices, so that no request holds the event loop for more than a few milliseconds. */
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

/** The same, one after another, while everything else gets its turn. */
export async function* inTurns<T>(all: AsyncIterable<T>, monotonicMs: () => number): AsyncGenerator<T> {
  const slice = new TimeSlice(monotonicMs);
  for await (const one of all) {
    yield one;
    if (slice.isOver) await slice.pause();
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
