/**
 * Whether the wall clock may be believed by what deletes for good.
 *
 * A clock that jumps forward would expire everything. So while wall and monotonic clock disagree by more than a minute
 * nothing expires, and for an hour of agreement afterwards. After a suspend the two never agree again by themselves:
 * the new distance is what they are compared with from then on.
 */
import type { Clock } from './engine/ambient.ts';

const DISAGREE_MS = 60_000;
const AGREEMENT_MS = 3_600_000;

export class ClockGuard {
  readonly #clock: Clock;
  #distanceMs: number;
  #trustedFromMonotonicMs: number;

  /** `isDoubted`: the stored heartbeat contradicts the clock, so the hour of agreement is waited for from the start. */
  constructor(clock: Clock, isDoubted: boolean) {
    this.#clock = clock;
    this.#distanceMs = clock.nowMs() - clock.monotonicMs();
    this.#trustedFromMonotonicMs = clock.monotonicMs() + (isDoubted ? AGREEMENT_MS : 0);
  }

  /** To be asked often: a jump is seen at the next question. */
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
