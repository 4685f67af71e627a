/**
 * Whether work that deletes for good may trust the wall clock.
 *
 * A clock that jumps forward would expire everything. So while wall clock and monotonic clock disagree by more than a
 * minute, and until they have agreed for an hour, nothing expires. After a suspend the two never agree again by
 * themselves: from then on they are compared with their new distance.
 */
import type { Clock } from '../../lib/clock.ts';

const DISAGREE_MS = 60_000;
const AGREEMENT_MS = 3_600_000;

export class ClockGuard {
  readonly #clock: Clock;
  #distanceMs: number;
  #trustedFromMonotonicMs: number;

  /** `isDoubted`: the stored heartbeat contradicts the clock, so the hour of agreement begins at the start. */
  constructor(clock: Clock, isDoubted: boolean) {
    this.#clock = clock;
    this.#distanceMs = clock.nowMs() - clock.monotonicMs();
    this.#trustedFromMonotonicMs = clock.monotonicMs() + (isDoubted ? AGREEMENT_MS : 0);
  }

  /** To be read often: a jump is noticed at the next reading. */
  get isTrusted(): boolean {
    const monotonicMs = this.#clock.monotonicMs();
    const distanceMs = this.#clock.nowMs() - monotonicMs;
    if (Math.abs(distanceMs - this.#distanceMs) > DISAGREE_MS) {
      this.#distanceMs = distanceMs;
      this.#trustedFromMonotonicMs = monotonicMs + AGREEMENT_MS;
    }
    return monotonicMs >= this.#trustedFromMonotonicMs;
  }
}
