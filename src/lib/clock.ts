/** Clock, timers and randomness as parameters, so that a test of many days takes no time; and the real ones. */
import { randomBytes } from 'node:crypto';

export interface Clock {
  /** Milliseconds since the Unix epoch; may jump. */
  nowMs(): number;
  /** Milliseconds that never go back: for rates, challenges and durations. */
  monotonicMs(): number;
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
