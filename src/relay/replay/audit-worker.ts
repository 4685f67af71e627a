/**
 * What a verification asks of the stored bytes alone, whatever the replay gives: whether the wire bytes are what was
 * accepted, and whether a look-up of every key answers as a walk does. Runs as a thread beside the replay (helper.ts),
 * on the same open database.
 *
 * It says that all is well, or that it is not: then the verification looks itself, and names what is wrong.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { levelAt } from '../store/level.ts';
import { openScratch } from '../store/scratch.ts';
import { Findings } from './finding.ts';
import { verifyPayloads } from './verify-store.ts';
import { verifyLookUps } from './walks.ts';

/** What the thread is given. */
export interface HelperTask {
  /** Of the database, which is open and shared. */
  location: string;
  /** Its first number becomes 1 when nobody wants an answer any more. */
  stop: Int32Array;
}

export type HelperMessage =
  | { type: 'progress'; stage: string; done: number }
  | { type: 'sound'; payloads: number; bytes: number }
  | { type: 'unsound' };

async function answer({ location, stop }: HelperTask, say: (message: HelperMessage) => void): Promise<void> {
  const level = levelAt(location, { isShared: true });
  await level.open({ createIfMissing: false });
  try {
    const scratch = await openScratch();
    try {
      const findings = new Findings();
      const payloads = verifyPayloads(level, scratch.pairs, findings);
      let step = await payloads.next();
      for (; !step.done; step = await payloads.next()) {
        say({ type: 'progress', ...step.value });
        if (Atomics.load(stop, 0) === 1) return;
      }
      for await (const { stage, done } of verifyLookUps(level, findings)) {
        say({ type: 'progress', stage, done });
        if (Atomics.load(stop, 0) === 1) return;
      }
      say(findings.total > 0 ? { type: 'unsound' } : { type: 'sound', ...step.value });
    } finally {
      await scratch.close();
    }
  } finally {
    await level.close();
  }
}

const port = parentPort;
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- that of a window, and this is a thread
await answer(workerData as HelperTask, (message) => port?.postMessage(message));
