/**
 * Varies how slow the machine seems to be to an engine, which pauses for others when a stretch of its work took too
 * long.
 *
 * By the clock of the process it would depend on the load of the machine where it pauses, and a seed would not repeat.
 */
import * as fc from 'fast-check';

/**
 * This time passes whenever somebody looks at the clock: no pause at all, one now and then, one wherever there may be
 * one.
 */
export const anyPassingMs = fc.constantFrom(0, 2, 10);

/** A clock for `monotonicMs` by which `passingMs` pass whenever somebody looks at it. */
export function lookedAtClock(passingMs: number): () => number {
  let nowMs = 0;
  return () => (nowMs += passingMs);
}
