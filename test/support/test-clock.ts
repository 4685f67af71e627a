/** A clock that stands still until it is told otherwise. */

/** When most tests happen: 2025-11-20T21:48:23Z. */
export const NOON_MS = 1_763_675_303_000;

export class TestClock {
  nowMs: number;

  constructor(nowMs: number = NOON_MS) {
    this.nowMs = nowMs;
  }

  /** Moves by `byMs`, also backwards, and answers the new time. */
  move(byMs: number): number {
    this.nowMs += byMs;
    return this.nowMs;
  }
}
