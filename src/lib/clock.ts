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

export const systemRandom: RandomBytes = (count) => randomBytes(count);

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
