/**
 * A thread that reads the stored bytes and verifies them while this one replays the log (audit-worker.ts): a pair that crosses out
 * of LevelDB costs as much as a replayed event. It hands over walks in blocks of many pairs, and answers for the wire bytes.
 *
 * Where there is none to be had, or it ends before its time, the caller does that work itself: `answer` comes to `undefined`,
 * and a walk goes on in this thread.
 */
import { extname } from 'node:path';
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { type Pair, unpackedPairs } from '../../lib/pair-block.ts';
import type { Level } from '../store/level.ts';
import { type KeyRange, runsOf } from '../store/scan.ts';
import type { HelperMessage, HelperRequest, HelperTask } from './audit-worker.ts';
import type { Progress } from './finding.ts';
import { type LeafedRecord, leafedRecord, leafedRecords } from './walks.ts';

/** Beside this file, in the sources and in the bundle. */
const WORKER = new URL(`./audit-worker${extname(import.meta.url)}`, import.meta.url);

/** What the thread found: that the wire bytes are sound, and so many, or that something is not. */
export type HelperAnswer = Extract<HelperMessage, { type: 'sound' | 'unsound' }>;

interface Walk {
  /** Those that came and were not taken yet. */
  blocks: Buffer[];
  /** Absent while more may come. */
  end?: 'whole' | 'cut';
}

export class Helper {
  readonly #level: Level;
  readonly #worker: Worker;
  readonly #stop: Int32Array;
  readonly #ended: Promise<void>;
  readonly #walks = new Map<number, Walk>();
  #begun = 0;
  #answer: Exclude<HelperMessage, { walk: number }> = { type: 'progress', stage: 'payloads', done: 0 };
  #isEnded = false;
  #areLookUpsSound = true;
  #told: () => void = () => undefined;

  private constructor(level: Level, worker: Worker, stop: Int32Array) {
    this.#level = level;
    this.#worker = worker;
    this.#stop = stop;
    worker.on('message', (message: HelperMessage) => {
      if ('walk' in message) this.#hear(message);
      else this.#answer = message;
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
  static start(level: Level, file: URL = WORKER): Helper | undefined {
    if (availableParallelism() < 2) return undefined;
    const stop = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    const task: HelperTask = { location: level.location, stop };
    try {
      return new Helper(level, new Worker(file, { workerData: task, name: 'poste-audit' }), stop);
    } catch {
      return undefined;
    }
  }

  /** Whether the thread looked up every pair that it handed over in `rows`, and was answered rightly. */
  get areLookUpsSound(): boolean {
    return this.#areLookUpsSound;
  }

  /** What the thread says of the wire bytes, when it has. */
  async *answer(): AsyncGenerator<Progress, HelperAnswer | undefined> {
    for (;;) {
      const answer = this.#answer;
      if (answer.type !== 'progress') return answer;
      if (this.#isEnded) return undefined;
      yield { stage: answer.stage, done: answer.done, of: undefined };
      await this.#news();
    }
  }

  /** The pairs of the range, ascending, which the thread also looks up. */
  async *rows(range: KeyRange): AsyncGenerator<Pair[]> {
    const rest = yield* this.#fed('rows', range, (pair) => pair);
    if (!rest) return;
    this.#areLookUpsSound = false;
    yield* runsOf(this.#level, rest);
  }

  /** The records of the range, those that are whole with their hashes in the tree. */
  async *records(range: KeyRange): AsyncGenerator<LeafedRecord[]> {
    const rest = yield* this.#fed('records', range, leafedRecord);
    if (rest) yield* leafedRecords(this.#level, rest, false);
  }

  /** Ends the thread, which has left the database when this resolves. */
  async close(): Promise<void> {
    Atomics.store(this.#stop, 0, 1);
    this.#say({ type: 'end' });
    await this.#ended;
  }

  /** A walk of the thread. Answers what of the range is left to the caller. */
  async *#fed<T>(
    of: 'rows' | 'records',
    range: KeyRange,
    read: (pair: Pair) => T,
  ): AsyncGenerator<T[], KeyRange | undefined> {
    const walk = ++this.#begun;
    const state: Walk = { blocks: [] };
    this.#walks.set(walk, state);
    this.#say({ type: 'walk', walk, of, range });
    let last: Buffer | undefined;
    try {
      while (state.end === undefined || state.blocks.length > 0) {
        const block = state.blocks.shift();
        if (block) {
          this.#say({ type: 'taken', walk });
          const pairs = unpackedPairs(block) ?? [];
          last = pairs.at(-1)?.[0] ?? last;
          yield pairs.map(read);
        } else if (this.#isEnded) state.end = 'cut';
        else await this.#news();
      }
      if (state.end === 'whole') return undefined;
      const { gte: _gte, ...below } = range;
      return last ? { ...below, gt: last } : range;
    } finally {
      this.#walks.delete(walk);
      if (state.end === undefined) this.#say({ type: 'left', walk });
    }
  }

  #hear(message: Extract<HelperMessage, { walk: number }>): void {
    const state = this.#walks.get(message.walk);
    if (message.type === 'block') state?.blocks.push(Buffer.from(message.block, 0, message.size));
    else {
      if (message.type === 'walked' && !message.isSound) this.#areLookUpsSound = false;
      if (state) state.end = message.type === 'walked' ? 'whole' : 'cut';
    }
  }

  #news(): Promise<void> {
    return new Promise<void>((resolve) => {
      this.#told = resolve;
      if (this.#isEnded) resolve();
    });
  }

  #say(request: HelperRequest): void {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that of a window, and this is a thread
    this.#worker.postMessage(request);
  }
}
