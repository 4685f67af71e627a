/**
 * The files that a worker runs share `setTimeout`: a file that leaves another in its place stops every later one that
 * waits, which then fails far from the cause. So it fails itself.
 */
import { setTimeout as realSetTimeout } from 'node:timers';
import { afterAll, vi } from 'vitest';
import './equal-bytes.ts';

afterAll(() => {
  vi.restoreAllMocks();
  const isReal = globalThis.setTimeout === realSetTimeout;
  globalThis.setTimeout = realSetTimeout;
  if (!isReal) throw new Error('This file left a setTimeout that is not the real one.');
});
