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
    const waitS = this.waitS(caller, 1);
    this.add(caller, waitS === 0 ? 1 : 0);
    return waitS;
  }

  /** Returns how many whole seconds it takes until so much may pass; 0 when it may now. */
  waitS(caller: string, count: number): number {
    const nowMs = this.#monotonicMs();
    const waitMs = this.#evenAt(caller, nowMs) + (count * this.#periodMs) / this.#count - this.#periodMs - nowMs;
    return waitMs > ROUNDING_MS ? Math.ceil(waitMs / 1000) : 0;
  }

  /** Counts so much, whether or not it may pass; what is below zero is given back. */
  add(caller: string, count: number): void {
    const evenAtMs = this.#evenAt(caller, this.#monotonicMs());
    if (!this.#evenAtMs.delete(caller) && this.#evenAtMs.size >= RATE_TABLE_MAX) this.#forgetLeastRecent();
    this.#evenAtMs.set(caller, evenAtMs + (count * this.#periodMs) / this.#count);
  }

  #evenAt(caller: string, nowMs: number): number {
    return Math.max(this.#evenAtMs.get(caller) ?? nowMs, nowMs);
  }

  #forgetLeastRecent(): void {
    const least = this.#evenAtMs.keys().next();
    if (!least.done) this.#evenAtMs.delete(least.value);
  }
}
