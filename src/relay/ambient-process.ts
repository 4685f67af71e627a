/** The real clock, timers and randomness of this process. */
import { randomBytes } from 'node:crypto';
import type { Clock, RandomBytes, Timers } from './engine/ambient.ts';

export const processClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
};

export const processTimers: Timers = {
  after: (ms, run) => {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
  every: (ms, run) => {
    const timer = setInterval(run, ms);
    return () => clearInterval(timer);
  },
};

export const processRandom: RandomBytes = (count) => randomBytes(count);
