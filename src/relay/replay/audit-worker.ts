/**
 * The thread of helper.ts, on the same open database: one half of a verification or of a rebuild. It says how far it
 * is, and that it is done; of what it finds, and of an error, it says nothing and ends.
 */
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import type { QueueRow } from '../core/rows.ts';
import type { Progress } from './finding.ts';
import { type HalfDone, type HelperMessage, type HelperTask, SHARED } from './helper.ts';
import { openServed } from './offline.ts';
import { rebuildKnown } from './rebuild.ts';
import type { MovedRows, ReplayHalf } from './replay.ts';
import { verifyHalf } from './verify.ts';

const { location, fresh, shared, ...bounds } = workerData as HelperTask;
const isStopped = (): boolean => Atomics.load(shared, SHARED.stop) !== 0;
const say = (message: HelperMessage): void => {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that of a window, and this is a thread
  parentPort?.postMessage(message);
};

let moved: MovedRows = new Map();

/** The rows of one event come together, and this thread comes by it before or after the other. */
function take(key: string): QueueRow | undefined {
  if (moved.has(key) || isStopped()) return moved.get(key);
  Atomics.wait(shared, SHARED.given, Atomics.load(shared, SHARED.taken));
  const given = parentPort && receiveMessageOnPort(parentPort);
  moved = (given?.message ?? new Map()) as MovedRows;
  Atomics.add(shared, SHARED.taken, 1);
  Atomics.notify(shared, SHARED.taken);
  return moved.get(key);
}

const half: ReplayHalf = { of: 'known', take };
const offline = await openServed(location);
const work = fresh === undefined ? verifyKnown() : rebuildKnown(offline, fresh, half, bounds.memoryBytes);
try {
  let step = await work.next();
  for (; !step.done && !isStopped(); step = await work.next()) say({ type: 'progress', progress: step.value });
  if (step.done && step.value) say({ type: 'done', done: step.value });
} catch {
  // Whatever the reason is, the caller does all of it, and meets it again.
} finally {
  await work.return(undefined);
  await offline.close();
}

async function* verifyKnown(): AsyncGenerator<Progress, HalfDone | undefined> {
  const { found, rows, bytes } = yield* verifyHalf(offline, half, bounds);
  return found > 0 ? undefined : { rows, bytes, checkpoints: [] };
}
