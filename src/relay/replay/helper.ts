/**
 * A thread that reads the stored bytes and verifies them while this one replays the log (audit-worker.ts): a pair that
 * crosses out of LevelDB costs as much as a replayed event. It hands over walks in blocks of many pairs, and answers
 * for the wire bytes.
 *
 * Where there is none to be had, or it ends before its time, the caller does that work itself: `answer` comes to
 * `undefined`, and a walk goes on in this thread.
 */
import { extname } from 'node:path';
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { type Pair, unpackedPairs } from '../../lib/pair-block.ts';
import { logKey } from '../store/keys.ts';
import type { Level } from '../store/level.ts';
import { type KeyRange, runsOf } from '../store/scan.ts';
import type { HelperMessage, HelperRequest, HelperTask } from './audit-worker.ts';
import type { Progress } from './finding.ts';
import { type LeafedPair, type RecordRange, unpackLeafed, readRecords } from './walks.ts';

/** Beside this file, in the sources and in the bundle. */
const WORKER = new URL(`./audit-worker${extname(import.meta.url)}`, import.meta.url);

/** The thread takes a tenth of a second to begin, in which so many records are replayed. */
const HELPED_FROM = 20_000;
const FIRST_RECORDS = 5_000;

export interface HelperOptions {
  /** Records from which on there is a thread, and the file that it runs. */
  helpedFrom?: number | undefined;
  helper?: URL | undefined;
  /** Records that this thread reads before. */
  firstRecords?: number | undefined;
  verifiesWires?: boolean;
}

/** The answer of the thread: that the wire bytes are sound, and so many, or that something is not. */
export type HelperAnswer = Extract<HelperMessage, { type: 'sound' | 'unsound' }>;

interface Walk {
  id: number;
  range: KeyRange;
  /** Those that came and were not taken yet. */
  blocks: Buffer[];
  /** `undefined` while more may come. */
  end: 'whole' | 'cut' | undefined;
}

export class Helper {
  readonly #level: Level;
  readonly #worker: Worker;
  readonly #stop: Int32Array;
  readonly #ended: Promise<void>;
  readonly #firstRecords: number;
  readonly #walks = new Map<number, Walk>();
  #begun = 0;
  #answer: Exclude<HelperMessage, { walk: number }> = { type: 'progress', stage: 'payloads', done: 0 };
  #isEnded = false;
  #told: () => void = () => undefined;

  private constructor(level: Level, worker: Worker, stop: Int32Array, firstRecords: number) {
    this.#level = level;
    this.#firstRecords = firstRecords;
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

  /**
   * On the open database, which must be shared, where a log of `records` is worth it; `undefined` where it is not, on
   * one core, or where threads cannot be had.
   */
  static start(
    level: Level,
    records: number,
    {
      helpedFrom = HELPED_FROM,
      helper: file = WORKER,
      firstRecords = FIRST_RECORDS,
      verifiesWires = false,
    }: HelperOptions,
  ): Helper | undefined {
    if (records < helpedFrom) return undefined;
    if (availableParallelism() < 2) return undefined;
    const stop = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    const task: HelperTask = { location: level.location, verifiesWires, stop };
    try {
      return new Helper(level, new Worker(file, { workerData: task, name: 'poste-audit' }), stop, firstRecords);
    } catch {
      return undefined;
    }
  }

  /** Yields what the thread says of the wire bytes, when it has. */
  async *answer(): AsyncGenerator<Progress, HelperAnswer | undefined> {
    for (;;) {
      const answer = this.#answer;
      if (answer.type !== 'progress') return answer;
      if (this.#isEnded) return undefined;
      // Asked for before the caller has its turn, so that nothing comes unheard meanwhile.
      const news = this.#news();
      yield { stage: answer.stage, done: answer.done, of: undefined };
      await news;
    }
  }

  /** The pairs of the range, ascending, which the cache of LevelDB keeps for a while. */
  async *rows(range: KeyRange): AsyncGenerator<Pair[]> {
    const rest = yield* this.#fed(this.#begin('rows', range), (pair) => pair);
    if (rest) yield* runsOf(this.#level, rest, { fillCache: true });
  }

  /** The records of the range, which begins with `firstLsn`; those that are whole with their hashes in the tree. */
  async *records(range: RecordRange, firstLsn: number): AsyncGenerator<LeafedPair[]> {
    const handover = logKey(firstLsn + this.#firstRecords);
    const { lt } = range;
    const begun = this.#begin('records', { gte: handover, lt });
    const first = { ...range, lt: Buffer.compare(handover, lt) < 0 ? handover : lt };
    yield* readRecords(this.#level, first, false);
    const rest = yield* this.#fed(begun, unpackLeafed);
    if (rest) yield* readRecords(this.#level, rest, false);
  }

  /** Ends the thread, which has left the database when this resolves. */
  async close(): Promise<void> {
    Atomics.store(this.#stop, 0, 1);
    this.#say({ type: 'end' });
    await this.#ended;
  }

  #begin(of: 'rows' | 'records', range: KeyRange): Walk {
    const walk: Walk = { id: ++this.#begun, range, blocks: [], end: undefined };
    this.#walks.set(walk.id, walk);
    this.#say({ type: 'walk', walk: walk.id, of, range });
    return walk;
  }

  /** A walk of the thread. Answers what of its range is left to the caller. */
  async *#fed<T>(walk: Walk, read: (pair: Pair) => T): AsyncGenerator<T[], KeyRange | undefined> {
    const { id, range, blocks } = walk;
    let last: Buffer | undefined;
    try {
      while (walk.end === undefined || blocks.length > 0) {
        const block = blocks.shift();
        if (block) {
          this.#say({ type: 'taken', walk: id });
          const pairs = unpackedPairs(block) ?? [];
          last = pairs.at(-1)?.[0] ?? last;
          yield pairs.map(read);
        } else if (this.#isEnded) walk.end = 'cut';
        else await this.#news();
      }
      if (walk.end === 'whole') return undefined;
      const { gte: _gte, ...below } = range;
      return last ? { ...below, gt: last } : range;
    } finally {
      this.#walks.delete(id);
      if (walk.end === undefined) this.#say({ type: 'left', walk: id });
    }
  }

  #hear(message: Extract<HelperMessage, { walk: number }>): void {
    const walk = this.#walks.get(message.walk);
    if (message.type === 'block') walk?.blocks.push(Buffer.from(message.block, 0, message.size));
    else if (walk) walk.end = message.type === 'walked' ? 'whole' : 'cut';
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
