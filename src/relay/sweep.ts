/** The timers that submit commands: time is input, and this is where it comes in. */
import { HEARTBEAT_EVERY_MS } from '../protocol/limits.ts';
import type { Challenges } from './auth/challenges.ts';
import type { Cancel, Clock, Timers } from './engine/ambient.ts';
import type { Engine } from './engine/engine.ts';

export interface SweepOptions {
  engine: Engine;
  challenges: Challenges;
  clock: Clock;
  timers: Timers;
  everyMs: number;
}

/** Starts the heartbeat and the sweep. Answers how to stop both. */
export function startSweeps({ engine, challenges, clock, timers, everyMs }: SweepOptions): Cancel {
  const stopHeartbeat = timers.every(HEARTBEAT_EVERY_MS, () => {
    // A failed heartbeat is a failed batch, and that ends the process by itself.
    engine.heartbeat(clock.nowMs()).catch(() => undefined);
  });
  const stopSweep = timers.every(everyMs, () => challenges.forgetEnded());
  return () => {
    stopHeartbeat();
    stopSweep();
  };
}
