/**
 * One check of the rows that a relay serves from, in a thread of its own: against its log (verify.ts), or of how many
 * dedup rows there are. The thread reads the open database as it was at one moment, and the relay goes on meanwhile.
 */
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Progress } from './finding.ts';
import type { ServedMessage, ServedResults, ServedTask } from './served-worker.ts';
import type { ServedReport } from './verify.ts';

/** It lies beside this file in the bundle. A thread does not run what is in the sources. */
const WORKER = new URL('./served-worker.js', import.meta.url);

/** The result of a check of the rows. A message names rows, and so hosts: it is for the operator's eyes. */
export interface CheckedRows
  extends Pick<ServedReport, 'findings' | 'found' | 'lsn' | 'replayedFrom' | 'records' | 'rows'> {
  /** The time that the thread worked; it rested between. */
  busyMs: number;
}

type Result<Check extends keyof ServedResults> = ServedResults[Check] & { busyMs: number };

interface ServedCheckOptions<Check> {
  check: Check;
  /** That of an open database which threads share. */
  location: string;
  /** The part of one processor that the work may take. */
  share: number;
}

export class ServedCheck<Check extends keyof ServedResults> {
  static readonly isToBeHad: boolean = extname(import.meta.url) === '.js';
  /** `undefined` when it was stopped before. Rejects when the thread could not do its work. */
  readonly done: Promise<Result<Check> | undefined>;
  readonly #stop = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  readonly #worker: Worker;
  #progress: Progress = { stage: 'checkpoints', done: 0, of: undefined };

  constructor(options: ServedCheckOptions<Check>, file: URL = WORKER) {
    const workerData: ServedTask = { ...options, stop: this.#stop };
    this.#worker = new Worker(file, { workerData, name: 'poste-rows' });
    this.done = new Promise((resolve, reject) => {
      let found: Result<Check> | undefined;
      this.#worker.on('message', (message: ServedMessage) => {
        if (message.type === 'progress') this.#progress = message.progress;
        else found = { ...(message.result as ServedResults[Check]), busyMs: message.busyMs };
      });
      // The first that happens counts: an error is followed by the exit.
      this.#worker.on('error', reject);
      this.#worker.on('exit', () => resolve(found));
    });
  }

  get progress(): Progress {
    return this.#progress;
  }

  /** Ends the thread, which has left the database when this resolves. */
  async stop(): Promise<void> {
    Atomics.store(this.#stop, 0, 1);
    Atomics.notify(this.#stop, 0);
    await this.done.catch(() => undefined);
  }
}
