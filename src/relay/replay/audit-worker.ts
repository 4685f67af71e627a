/**
 * The thread of audit-thread.ts, on the same open database. It says how far it is, and what it found. Of one half of a
 * verification it only says that nothing is wrong.
 */
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { paceWork } from '../../lib/pace.ts';
import type { QueueRow } from '../core/rows.ts';
import { countDedupRows } from '../store/dedup-counts.ts';
import { type AuditMessage, type AuditResults, type AuditTask, type HalfDone, SHARED } from './audit-thread.ts';
import type { Progress } from './finding.ts';
import { openServed } from './offline.ts';
import { rebuildKnown } from './rebuild.ts';
import type { MovedRows, ReplayHalf } from './replay.ts';
import { verifyHalf, verifyServed } from './verify.ts';

const { type, location, share, half: { fresh, ...bounds } = {}, shared } = workerData as AuditTask;
const port = parentPort;
const isStopped = (): boolean => Atomics.load(shared, SHARED.stop) !== 0;
const say = (message: AuditMessage): void => {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that of a window, and this is a thread
  port?.postMessage(message);
};

let moved: MovedRows = new Map();

/** The rows of one event come together, and this thread comes by it before or after the other. */
function take(key: string): QueueRow | undefined {
  if (moved.has(key) || isStopped()) return moved.get(key);
  Atomics.wait(shared, SHARED.given, Atomics.load(shared, SHARED.taken));
  const given = port && receiveMessageOnPort(port);
  moved = (given?.message ?? new Map()) as MovedRows;
  Atomics.add(shared, SHARED.taken, 1);
  Atomics.notify(shared, SHARED.taken);
  return moved.get(key);
}

const half: ReplayHalf = { of: 'known', take };
const offline = await openServed(location);

async function* verifyKnown(): AsyncGenerator<Progress, HalfDone | undefined> {
  const { found, rows, bytes } = yield* verifyHalf(offline, half, bounds);
  return found > 0 ? undefined : { rows, bytes, checkpoints: [] };
}

function work(): AsyncGenerator<Progress | number, AuditResults[typeof type] | undefined> {
  if (type === 'rows') return verifyServed(offline);
  if (type === 'dedup rows') return countDedupRows(offline.level, offline.store.lastLsn);
  return fresh === undefined ? verifyKnown() : rebuildKnown(offline, fresh, half, bounds.memoryBytes);
}

try {
  const pace = {
    share,
    monotonicMs: () => performance.now(),
    // Woken by the one who stops it.
    rest: (ms: number) => !isStopped() && Atomics.wait(shared, SHARED.stop, 0, ms) !== 'ok',
  };
  const ended = await paceWork(work(), pace, (progress) => {
    if (typeof progress !== 'number') say({ type: 'progress', progress });
  });
  if (ended?.result) say({ type: 'done', done: { ...ended.result, busyMs: ended.busyMs } });
} finally {
  await offline.close();
}
