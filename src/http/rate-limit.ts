/**
 * Rates per minute or another period, each caller alone, in a table that never grows beyond its bound.
 *
 * The generic cell rate algorithm: one number a caller, the time at which it would be even again. A caller may use a
 * period's worth at once; after that it waits its turn.
 */

const MINUTE_MS = 60_000;
const RATE_TABLE_MAX = 10_000;
/** Sums of fractions of a millisecond are never exact. */
const ROUNDING_MS = 0.01;

export class RateLimiter {
  readonly #count: number;
  readonly #periodMs: number;
  readonly #monotonicMs: () => number;
  /** When each caller is even again, least recent first. */
  readonly #evenAtMs = new Map<string, number>();

  constructor(count: number, monotonicMs: () => number, periodMs: number = MINUTE_MS) {
    this.#count = count;
    this.#periodMs = periodMs;
    this.#monotonicMs = monotonicMs;
  }

  /** Counts one request. 0 when it may pass, else the whole seconds to wait. */
  take(caller: string): number {
    const nowMs = this.#monotonicMs();
    const intervalMs = this.#periodMs / this.#count;
    const evenAtMs = Math.max(this.#evenAtMs.get(caller) ?? nowMs, nowMs);
    const waitMs = evenAtMs + intervalMs - this.#periodMs - nowMs;
    this.#evenAtMs.delete(caller);
    if (waitMs > ROUNDING_MS) {
      this.#evenAtMs.set(caller, evenAtMs);
      return Math.ceil(waitMs / 1000);
    }
    if (this.#evenAtMs.size >= RATE_TABLE_MAX) this.#forgetLeastRecent();
    this.#evenAtMs.set(caller, evenAtMs + intervalMs);
    return 0;
  }

  #forgetLeastRecent(): void {
    const least = this.#evenAtMs.keys().next();
    if (!least.done) this.#evenAtMs.delete(least.value);
  }
}
