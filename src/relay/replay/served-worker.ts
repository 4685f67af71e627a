/**
 * The thread of served-check.ts: a replay of the log against the rows, which rests much longer than it works, or a
 * count of the dedup rows.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { paceWork } from '../../lib/pace.ts';
import { type DedupCount, countDedupRows } from '../store/dedup-counts.ts';
import { openServed } from './offline.ts';
import type { Progress } from './finding.ts';
import { type ServedReport, verifyServed } from './verify.ts';

/** The kinds of checks, and what each gives. */
export interface ServedResults {
  rows: ServedReport;
  'dedup rows': DedupCount;
}

/** The task that the thread is given. */
export interface ServedTask {
  check: keyof ServedResults;
  /** The folder of the database, which is open and shared. */
  location: string;
  /** The part of the time that the work may take: 0.02 is two hundredths of one processor. */
  share: number;
  /** Its first number becomes 1 when nobody wants an answer any more. */
  stop: Int32Array;
}

export type ServedMessage =
  | { type: 'progress'; progress: Progress }
  | { type: 'result'; result: ServedResults[keyof ServedResults]; busyMs: number };

const { check, location, share, stop } = workerData as ServedTask;
const port = parentPort;
const say = (message: ServedMessage): void => {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that of a window, and this is a thread
  port?.postMessage(message);
};

const offline = await openServed(location);
try {
  const pace = {
    share,
    monotonicMs: () => performance.now(),
    // Woken by the one who stops it.
    rest: (ms: number) => Atomics.load(stop, 0) === 0 && Atomics.wait(stop, 0, 0, ms) !== 'ok',
  };
  const steps = check === 'rows' ? verifyServed(offline) : countDedupRows(offline.level, offline.store.lastLsn);
  const ended = await paceWork<Progress | number, ServedResults[typeof check]>(steps, pace, (progress) => {
    if (typeof progress !== 'number') say({ type: 'progress', progress });
  });
  if (ended) say({ type: 'result', ...ended });
} finally {
  await offline.close();
}
