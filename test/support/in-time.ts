/** Properties that end before their test does. */
import * as fc from 'fast-check';
import { TIMES } from './thorough.ts';

/** This time is left for the run under way and for the report. */
const REPORT_MS = 5000;

/**
 * Options for `fc.assert` in a test that may take `testMs`, times as much as it tries more. A test that meets its own
 * time limit in the middle of a search for the smallest counterexample tells nothing of it; interrupted before, it
 * tells seed, path and what it has.
 */
export function inTime(testMs: number): { plugins: fc.Plugin<unknown>[] } {
  return { plugins: [fc.interruptAfterTimeLimit(TIMES * testMs - REPORT_MS, { failOnInterrupt: true })] };
}
