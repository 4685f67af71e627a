/**
 * A thread beside this one that audits an open database (audit-worker.ts): one half of a verification or of a rebuild,
 * and checks of the rows that a relay serves from, against its log (verify.ts) or of how many dedup rows there are. It
 * reads the database as it was at one moment, and the relay goes on meanwhile.
 */
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { DedupPurged } from '../core/event.ts';
import type { DedupCount } from '../store/dedup-counts.ts';
import type { Progress } from './finding.ts';
import type { ChecksBounds, ServedReport } from './verification.ts';

/** It lies beside this file, in the sources and in the bundle. */
const WORKER = new URL(`./audit-worker${extname(import.meta.url)}`, import.meta.url);

/** The result of one half of an audit. */
export interface HalfDone {
  rows: number;
  bytes: number;
  /** The records of the checkpoints that a rebuild came by. */
  checkpoints: readonly number[];
  /** A rebuild has the senders that are charged for dedup rows that time forgot, and for how many. */
  forgotten?: DedupPurged['senders'];
}

/** The kinds of audits, and what each gives. */
export interface AuditResults {
  half: HalfDone;
  rows: ServedReport;
  'dedup rows': DedupCount;
}

/** `busyMs`: the time that the thread worked; it rested between. */
type Done<Type extends keyof AuditResults> = AuditResults[Type] & { busyMs: number };

/** The result of a check of the rows. A message names rows, and so hosts: it is for the operator's eyes. */
export type CheckedRows = Pick<
  Done<'rows'>,
  'findings' | 'found' | 'lsn' | 'replayedFrom' | 'records' | 'rows' | 'busyMs'
>;

/** The task of the thread. */
export interface AuditTask<Type extends keyof AuditResults = keyof AuditResults> {
  type: Type;
  /** The folder of the database, which is open and shared. */
  location: string;
  /** The part of the time that the work may take: 0.02 is two hundredths of one processor. */
  share: number;
  /** The bounds of a half, and the folder of the database that is made anew, open and shared too; absent: to verify. */
  half?: ChecksBounds & { fresh?: string };
  /** Numbers that both threads see, by `SHARED`. */
  shared: Int32Array;
}

export type AuditMessage<Type extends keyof AuditResults = keyof AuditResults> =
  | { type: 'progress'; progress: Progress }
  | { type: 'done'; done: Done<Type> };

/** The numbers that both threads see: whether nobody wants an answer any more, and the moved rows given and taken. */
export const SHARED = { stop: 0, given: 1, taken: 2 } as const;

export class AuditThread<Type extends keyof AuditResults> {
  /** A thread does not run what is in the sources. */
  static readonly isToBeHad: boolean = extname(import.meta.url) === '.js';
  /** `undefined` when it was stopped before, or has nothing to say. Rejects when the thread could not do its work. */
  readonly done: Promise<Done<Type> | undefined>;
  protected readonly shared = new Int32Array(
    new SharedArrayBuffer(Object.keys(SHARED).length * Int32Array.BYTES_PER_ELEMENT),
  );
  protected readonly worker: Worker;
  #progress: Progress = { stage: 'checkpoints', done: 0, of: undefined };
  #result: Done<Type> | undefined;
  #isEnded = false;
  #told: () => void = () => undefined;

  /** Throws where threads cannot be had. */
  constructor(task: Omit<AuditTask<Type>, 'shared'>, file: URL = WORKER) {
    const workerData: AuditTask = { ...task, shared: this.shared };
    this.worker = new Worker(file, { workerData, name: 'poste-audit' });
    this.done = new Promise((resolve, reject) => {
      this.worker.on('message', (message: AuditMessage<Type>) => {
        if (message.type === 'progress') this.#progress = message.progress;
        else this.#result = message.done;
        this.#told();
      });
      let failure: Error | undefined;
      this.worker.on('error', (error) => (failure = error));
      // An error is followed by the exit.
      this.worker.on('exit', () => {
        this.#isEnded = true;
        this.#told();
        if (failure) reject(failure);
        else resolve(this.#result);
      });
    });
    // A caller that awaits it gets its error; where none does, the process goes on.
    this.done.catch(() => undefined);
  }

  get progress(): Progress {
    return this.#progress;
  }

  protected get result(): Done<Type> | undefined {
    return this.#result;
  }

  protected get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Resolves when the thread has told anything more, or has ended. */
  protected news(): Promise<void> {
    return new Promise((resolve) => {
      this.#told = resolve;
    });
  }

  /** Ends the thread, which has left the database when this resolves. */
  async stop(): Promise<void> {
    Atomics.store(this.shared, SHARED.stop, 1);
    // It may rest, or wait for rows.
    Atomics.notify(this.shared, SHARED.stop);
    Atomics.add(this.shared, SHARED.given, 1);
    Atomics.notify(this.shared, SHARED.given);
    await this.done.catch(() => undefined);
  }
}
