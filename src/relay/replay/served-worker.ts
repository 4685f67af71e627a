/** The thread of served-check.ts: a replay of the log against the rows, which rests much longer than it works. */
import { parentPort, workerData } from 'node:worker_threads';
import { openServed } from './offline.ts';
import type { Progress } from './finding.ts';
import { type ServedReport, verifyServed } from './verify.ts';

/** What the thread is given. */
export interface ServedTask {
  /** Of the database, which is open and shared. */
  location: string;
  /** Of the time, what the work may take: 0.02 is two hundredths of one processor. */
  share: number;
  /** Its first number becomes 1 when nobody wants an answer any more. */
  stop: Int32Array;
}

export type ServedMessage =
  | { type: 'progress'; progress: Progress }
  | { type: 'report'; report: ServedReport; busyMs: number };

const { location, share, stop } = workerData as ServedTask;
const port = parentPort;
const say = (message: ServedMessage): void => {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that of a window, and this is a thread
  port?.postMessage(message);
};

const offline = await openServed(location);
try {
  const steps = verifyServed(offline);
  let busyMs = 0;
  for (;;) {
    const startedMs = performance.now();
    const step = await steps.next();
    const tookMs = performance.now() - startedMs;
    busyMs += tookMs;
    if (step.done) {
      say({ type: 'report', report: step.value, busyMs });
      break;
    }
    say({ type: 'progress', progress: step.value });
    // Ends at once when it is woken by the one who stops it.
    if (Atomics.load(stop, 0) === 1 || Atomics.wait(stop, 0, 0, tookMs / share - tookMs) === 'ok') {
      await steps.return(undefined as never);
      break;
    }
  }
} finally {
  await offline.close();
}
