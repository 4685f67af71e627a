/** What the outside world gives the relay: parameters of the composition root, so that tests of days run at once. */

export interface Clock {
  /** Milliseconds since the Unix epoch; may jump. */
  nowMs(): number;
  /** Milliseconds that never go back: rates, challenges, stretches. */
  monotonicMs(): number;
}

/** Ends a timer; harmless when it has fired. */
export type Cancel = () => void;

export interface Timers {
  after(ms: number, run: () => void): Cancel;
  every(ms: number, run: () => void): Cancel;
}

/** `count` bytes from a cryptographic source. */
export type RandomBytes = (count: number) => Buffer;
