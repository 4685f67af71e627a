/**
 * A thread that verifies the stored bytes while this one replays the log (audit-worker.ts). Where there is none to be
 * had, or it ends without an answer, `answer` comes to `undefined`, and the caller does that work itself.
 */
import { extname } from 'node:path';
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import type { Level } from '../store/level.ts';
import type { HelperMessage, HelperTask } from './audit-worker.ts';
import type { Progress } from './finding.ts';

/** Beside this file, in the sources and in the bundle. */
const WORKER = new URL(`./audit-worker${extname(import.meta.url)}`, import.meta.url);

/** What the thread found: that all is well with so much, or that something is not. */
export type HelperAnswer = Extract<HelperMessage, { type: 'sound' | 'unsound' }>;

export class Helper {
  readonly #stop: Int32Array;
  readonly #ended: Promise<void>;
  #last: HelperMessage = { type: 'progress', stage: 'payloads', done: 0 };
  #isEnded = false;
  #told: () => void = () => undefined;

  private constructor(worker: Worker, stop: Int32Array) {
    this.#stop = stop;
    worker.on('message', (message: HelperMessage) => {
      this.#last = message;
      this.#told();
    });
    this.#ended = new Promise((resolve) => {
      // An error is followed by the exit.
      worker.on('error', () => undefined);
      worker.on('exit', () => {
        this.#isEnded = true;
        this.#told();
        resolve();
      });
    });
  }

  /** On the open database, which must be shared; `undefined` on one core, or where threads cannot be had. */
  static start({ location }: Level, worker: URL = WORKER): Helper | undefined {
    if (availableParallelism() < 2) return undefined;
    const stop = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    const task: HelperTask = { location, stop };
    try {
      return new Helper(new Worker(worker, { workerData: task, name: 'poste-audit' }), stop);
    } catch {
      return undefined;
    }
  }

  /** What the thread answers, when it has. */
  async *answer(): AsyncGenerator<Progress, HelperAnswer | undefined> {
    while (!this.#isEnded) {
      const last = this.#last;
      if (last.type === 'progress') yield { stage: last.stage, done: last.done, of: undefined };
      await new Promise<void>((resolve) => {
        this.#told = resolve;
        if (this.#isEnded) resolve();
      });
    }
    return this.#last.type === 'progress' ? undefined : this.#last;
  }

  /** Ends the thread, which has left the database when this resolves. */
  async close(): Promise<void> {
    Atomics.store(this.#stop, 0, 1);
    await this.#ended;
  }
}
