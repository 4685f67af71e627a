/** Time that the tests of a whole relay move by hand. */
import type { Cancel, Clock, Timers } from '../../src/lib/clock.ts';
import { NOON_MS } from './test-clock.ts';

/**
 * Both clocks stand still until they are moved: on a busy machine a lease would end, or a reader would have stalled.
 */
export class ManualClock implements Clock {
  wallMs = NOON_MS;
  #runMs = 1_000_000;

  readonly nowMs = (): number => this.wallMs;
  readonly monotonicMs = (): number => this.#runMs;

  /** Both clocks, forwards. */
  move(byMs: number): void {
    this.wallMs += byMs;
    this.#runMs += byMs;
  }
}

interface Timer {
  dueMs: number;
  ms: number;
  repeats: boolean;
  run: () => void;
}

/** Timers that fire when the test says that time has passed. */
export class ManualTimers implements Timers {
  #nowMs = 0;
  readonly #timers = new Set<Timer>();
  /** Those that wait for a timer, and of which length. */
  readonly #waiting = new Set<{ ms: number; found: () => void }>();

  after(ms: number, run: () => void): Cancel {
    return this.#start(ms, false, run);
  }

  every(ms: number, run: () => void): Cancel {
    return this.#start(ms, true, run);
  }

  /** Returns how many timers are under way. */
  get count(): number {
    return this.#timers.size;
  }

  /** Returns how many of this length are under way. */
  underWay(ms: number): number {
    return [...this.#timers].filter((timer) => timer.ms === ms).length;
  }

  /** Resolves when a timer of this length is under way: whoever has started it waits, and does nothing else. */
  async begun(ms: number): Promise<void> {
    if (this.underWay(ms) > 0) return;
    await new Promise<void>((resolve) => this.#waiting.add({ ms, found: resolve }));
  }

  /** Fires what falls due in the next `ms`, in its order. */
  pass(ms: number): void {
    const untilMs = this.#nowMs + ms;
    for (;;) {
      const [next] = [...this.#timers].toSorted((a, b) => a.dueMs - b.dueMs);
      if (!next || next.dueMs > untilMs) break;
      this.#nowMs = next.dueMs;
      if (next.repeats) next.dueMs += next.ms;
      else this.#timers.delete(next);
      next.run();
    }
    this.#nowMs = untilMs;
  }

  #start(ms: number, repeats: boolean, run: () => void): Cancel {
    const timer = { dueMs: this.#nowMs + ms, ms, repeats, run };
    this.#timers.add(timer);
    for (const waiting of this.#waiting) {
      if (waiting.ms !== ms) continue;
      this.#waiting.delete(waiting);
      waiting.found();
    }
    return () => void this.#timers.delete(timer);
  }
}
