/**
 * Reads wire bytes, compares each with its checksum or hash and writes it between texts, in a thread of its own
 * (wire-worker.ts): two thirds of what a large page costs. So the event loop only hands over what is finished.
 *
 * The thread begins when large payloads come, or when it is first asked. Until it runs, where there is none to be had,
 * after it ended, and where a payload is not what was stored, there is no answer, and the caller does that work itself.
 */
import { availableParallelism } from 'node:os';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { type TextsAround, lengthBetween } from '../../protocol/encodings.ts';
import type { QueueRow } from '../core/rows.ts';
import { wirePlacesOf } from './queue-runs.ts';
import type { WireAnswer, WireTask, WireWork } from './wire-worker.ts';

/** Beside this file in the bundle. In the sources there is none: a thread does not run TypeScript. */
const WORKER = extname(import.meta.url) === '.js' ? new URL('./wire-worker.js', import.meta.url) : undefined;
/** For the strings that it reads and writes: with a quarter of it the collector takes a tenth of the time of a page. */
const YOUNG_GENERATION_MB = 24;

export class WireThread {
  readonly #location: string;
  readonly #file: URL | undefined;
  #worker: Worker | undefined;
  #state: 'new' | 'starting' | 'running' | 'ended' = 'new';
  readonly #asked = new Map<number, (answer: WireAnswer | undefined) => void>();
  #lastId = 0;
  readonly #blocks = new WireBlocks();

  /** `location` is that of a database that is open in this process and shared. */
  constructor(location: string, file: URL | undefined = WORKER) {
    this.#location = location;
    this.#file = availableParallelism() > 1 ? file : undefined;
  }

  get isRunning(): boolean {
    return this.#state === 'running';
  }

  /** Begins the thread, which is ready some 100 ms later, unless it was begun before. */
  begin(): void {
    if (this.#state === 'new') this.#start();
  }

  /** The wire bytes of the rows between their texts. */
  async encode(rows: readonly QueueRow[], texts: TextsAround): Promise<EncodedWires | undefined> {
    this.begin();
    if (!this.isRunning || rows.length === 0) return undefined;
    const lengths = rows.map(({ bytes }) => bytes);
    const size = lengthBetween(lengths, texts);
    const into = this.#blocks.take(size);
    const answer = await this.#ask(rows, texts, into);
    const release = (): void => this.#blocks.giveBack(into);
    // A row may say another size than its bytes have.
    if (answer?.size === size) return { bytes: Buffer.from(into, 0, size), release };
    if (answer) release();
    return undefined;
  }

  /** Ends the thread, which has left the database when this resolves. */
  async close(): Promise<void> {
    const worker = this.#worker;
    if (!worker || this.#state === 'ended') {
      this.#state = 'ended';
      return;
    }
    this.#state = 'ended';
    const gone = new Promise((resolve) => {
      worker.once('exit', resolve);
    });
    worker.ref();
    send(worker, 'end');
    await gone;
  }

  #start(): void {
    this.#state = 'ended';
    if (!this.#file) return;
    const workerData: WireTask = { location: this.#location };
    const resourceLimits = { maxYoungGenerationSizeMb: YOUNG_GENERATION_MB };
    let worker: Worker;
    try {
      worker = new Worker(this.#file, { workerData, resourceLimits, name: 'poste-wires' });
    } catch {
      return;
    }
    this.#worker = worker;
    this.#state = 'starting';
    worker.unref();
    worker.on('message', (message: WireAnswer | 'ready') => this.#answered(message));
    // An error is followed by the exit.
    worker.on('error', () => undefined);
    worker.on('exit', () => this.#ended());
  }

  #ask(
    rows: readonly QueueRow[],
    { before, after, isBase64 }: TextsAround,
    into: SharedArrayBuffer,
  ): Promise<WireAnswer | undefined> {
    const id = ++this.#lastId;
    const { keys, places } = wirePlacesOf(rows);
    let end = 0;
    const work: WireWork = {
      id,
      keys: Buffer.concat(keys),
      places,
      seqs: rows.map(({ payloadSeq }) => payloadSeq),
      lengths: rows.map(({ bytes }) => bytes),
      hashes: rows.map(({ payloadBound, wireHash }) => (payloadBound === undefined ? wireHash : undefined)),
      before: before.join(''),
      ends: before.map((text) => (end += text.length)),
      after,
      isBase64,
      into,
    };
    return new Promise((resolve) => {
      this.#asked.set(id, resolve);
      if (this.#worker) send(this.#worker, work);
    });
  }

  #answered(message: WireAnswer | 'ready'): void {
    if (message !== 'ready') {
      this.#asked.get(message.id)?.(message);
      this.#asked.delete(message.id);
    } else if (this.#state === 'starting') this.#state = 'running';
  }

  #ended(): void {
    this.#state = 'ended';
    this.#worker = undefined;
    for (const resolve of this.#asked.values()) resolve(undefined);
    this.#asked.clear();
  }
}

function send(worker: Worker, message: WireWork | 'end'): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that of a window, and this is a thread
  worker.postMessage(message);
}

/** The memory into which pages are written, used again: fresh memory costs as much as writing to it ten times. */
const BLOCK_BYTES = 800 << 10;
const FREE_BLOCKS_MAX = 8;

export interface EncodedWires {
  bytes: Buffer;
  /** To be called when the bytes are not read any more. */
  release(this: void): void;
}

/** Another thread writes to them: to copy into one takes V8 three times as long. */
class WireBlocks {
  readonly #free: SharedArrayBuffer[] = [];

  /** Returns a buffer of at least `size` bytes. */
  take(size: number): SharedArrayBuffer {
    return (size <= BLOCK_BYTES && this.#free.pop()) || new SharedArrayBuffer(Math.max(size, BLOCK_BYTES));
  }

  giveBack(block: SharedArrayBuffer): void {
    if (block.byteLength === BLOCK_BYTES && this.#free.length < FREE_BLOCKS_MAX) this.#free.push(block);
  }
}
