/**
 * Guards against a wall clock that jumps: it may decide nothing. For relay and host.
 *
 * Wall clock and monotonic clock are compared at each reading. When they disagree by more than a minute the wall clock
 * jumped: it was set, it had no time at boot, or the machine was suspended. From then on they are compared with their
 * new distance, as after a suspend the two never agree again by themselves.
 *   - `isTrusted`: whether work that deletes for good may go by dates. Not after a jump, until both have agreed for an
 *     hour.
 *   - `momentMs`: deadlines count the time that passed, so each stored date is taken as the clock of now would have
 *     dated it.
 */
import type { Clock } from './clock.ts';

/** The wall clock went from `beforeMs` to `afterMs` in no time. */
export interface ClockJump {
  beforeMs: number;
  afterMs: number;
}

interface ClockGuardOptions {
  /** The stored heartbeat contradicts the clock, so the hour of agreement begins at the start. */
  isDoubted?: boolean;
  /** The jumps that former processes saw, oldest first. */
  jumps?: readonly ClockJump[];
  /** It is called at the reading that notices a jump, which may be any, and must not throw. */
  onJump?: (jump: ClockJump) => void;
}

const DISAGREE_MS = 60_000;
const AGREEMENT_MS = 3_600_000;
/** A laptop suspended five times a day makes as many in three months. A jump that is forgotten counts as time. */
const JUMPS_MAX = 512;

export class ClockGuard implements Clock {
  readonly monotonicMs: Clock['monotonicMs'];
  readonly #clock: Clock;
  readonly #onJump: (jump: ClockJump) => void;
  #distanceMs: number;
  #trustedFromMonotonicMs: number;
  #jumps: readonly ClockJump[];

  readonly nowMs = (): number => {
    this.#compare();
    return this.#clock.nowMs();
  };

  /** A moment of the past that was dated by this clock, as the clock that runs now would have dated it. */
  readonly momentMs = (datedMs: number): number => momentOf(datedMs, this.#jumps, this.nowMs());

  constructor(clock: Clock, { isDoubted = false, jumps = [], onJump = () => {} }: ClockGuardOptions = {}) {
    this.#clock = clock;
    this.monotonicMs = clock.monotonicMs;
    this.#onJump = onJump;
    this.#distanceMs = clock.nowMs() - clock.monotonicMs();
    this.#trustedFromMonotonicMs = clock.monotonicMs() + (isDoubted ? AGREEMENT_MS : 0);
    this.#jumps = jumps;
  }

  get isTrusted(): boolean {
    return this.#compare() >= this.#trustedFromMonotonicMs;
  }

  /** The jumps that are remembered, oldest first. */
  get jumps(): readonly ClockJump[] {
    return this.#jumps;
  }

  /** Answers the monotonic time. */
  #compare(): number {
    const monotonicMs = this.#clock.monotonicMs();
    const nowMs = this.#clock.nowMs();
    const beforeMs = monotonicMs + this.#distanceMs;
    if (Math.abs(nowMs - beforeMs) <= DISAGREE_MS) return monotonicMs;
    this.#distanceMs = nowMs - monotonicMs;
    this.#trustedFromMonotonicMs = monotonicMs + AGREEMENT_MS;
    const jump = { beforeMs: Math.round(beforeMs), afterMs: nowMs };
    this.#jumps = [...this.#jumps, jump].slice(-JUMPS_MAX);
    this.#onJump(jump);
    return monotonicMs;
  }
}

/**
 * `datedMs` was shown in one of the stretches between jumps: in the newest that has it, as a clock that was set back
 * shows times twice, and a deadline had better come late than early. A date of no stretch is that of the jump over it.
 */
function momentOf(datedMs: number, jumps: readonly ClockJump[], nowMs: number): number {
  let endMs = nowMs;
  let laterMs = 0;
  let jumpedOver: number | undefined;
  for (const { beforeMs, afterMs } of jumps.toReversed()) {
    if (afterMs <= datedMs && datedMs <= endMs) return datedMs + laterMs;
    if (beforeMs < datedMs && datedMs < afterMs) jumpedOver ??= afterMs + laterMs;
    laterMs += afterMs - beforeMs;
    endMs = beforeMs;
  }
  if (jumps.length === 0 || datedMs <= endMs) return datedMs + laterMs;
  return jumpedOver ?? datedMs;
}
