/** Timers as a parameter: tests of hours run at once. */

/** Ends a timer; harmless when it has fired. */
export type Cancel = () => void;

export interface Timers {
  after(ms: number, run: () => void): Cancel;
  every(ms: number, run: () => void): Cancel;
}

export const SYSTEM_TIMERS: Timers = {
  after(ms, run) {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
  every(ms, run) {
    const timer = setInterval(run, ms);
    return () => clearInterval(timer);
  },
};
