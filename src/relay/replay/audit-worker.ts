/**
 * The thread of helper.ts, on the same open database: it walks over the records that are replayed and the rows that the
 * replay is held against, and hands over blocks of many pairs; and it verifies the wire bytes.
 *
 * Of those it says that all is well, or that it is not: then the verification looks itself, and names what is wrong.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { type Pair, PairBlock } from '../../lib/pair-block.ts';
import { levelAt } from '../store/level.ts';
import { type KeyRange, runsOf } from '../store/scan.ts';
import { openScratch } from '../store/scratch.ts';
import { Findings } from './finding.ts';
import { verifyPayloads } from './verify-wires.ts';
import { packLeafed, readRecords } from './walks.ts';

/** The task that the thread is given. */
export interface HelperTask {
  /** The folder of the database, which is open and shared. */
  location: string;
  /** Says whether it is to verify the wire bytes, besides what it is asked for. */
  verifiesWires: boolean;
  /** Its first number becomes 1 when nobody wants an answer any more. */
  stop: Int32Array;
}

export type HelperRequest =
  /** Pairs as they are stored, or records with their hashes. */
  | { type: 'walk'; walk: number; of: 'rows' | 'records'; range: KeyRange }
  /** A block of this walk is in use. */
  | { type: 'taken'; walk: number }
  /** Nobody wants the rest of it. */
  | { type: 'left'; walk: number }
  | { type: 'end' };

export type HelperMessage =
  | { type: 'progress'; stage: string; done: number }
  | { type: 'sound'; payloads: number; bytes: number }
  | { type: 'unsound' }
  | { type: 'block'; walk: number; block: ArrayBuffer; size: number }
  /** To the end of the range. */
  | { type: 'walked'; walk: number }
  /** The database could not be read. */
  | { type: 'cut'; walk: number };

/** A block is sent with so many bytes of pairs. */
const BLOCK_BYTES = 512 << 10;
/** Blocks of one walk that wait to be used. */
const BLOCKS_MAX = 8;

const { location, verifiesWires, stop } = workerData as HelperTask;
const port = parentPort;
const level = levelAt(location, { isShared: true });
const walks = new Map<number, Blocks>();

function say(message: HelperMessage, transferred: ArrayBuffer[] = []): void {
  port?.postMessage(message, transferred);
}

function isStopped(): boolean {
  return Atomics.load(stop, 0) === 1;
}

/** The pairs of one walk on their way to the other thread (lib/pair-block.ts), a few blocks ahead of its use. */
class Blocks {
  readonly #walk: number;
  readonly #pairs = new PairBlock(Buffer.allocUnsafeSlow(2 * BLOCK_BYTES));
  #ahead = 0;
  #isLeft = false;
  #go: () => void = () => undefined;

  constructor(walk: number) {
    this.#walk = walk;
  }

  /** True when nobody wants any more. */
  get isLeft(): boolean {
    return this.#isLeft || isStopped();
  }

  taken(): void {
    this.#ahead--;
    this.#go();
  }

  left(): void {
    this.#isLeft = true;
    this.#go();
  }

  /** Returns whether the block is full, and is to be sent. */
  add(pair: Pair): boolean {
    this.#pairs.add(pair);
    return this.#pairs.bytes >= BLOCK_BYTES;
  }

  async send(): Promise<void> {
    while (this.#ahead >= BLOCKS_MAX && !this.isLeft) {
      await new Promise<void>((resolve) => {
        this.#go = resolve;
      });
    }
    if (this.#pairs.pairs === 0 || this.isLeft) return;
    this.#ahead++;
    const { block, memory } = this.#pairs.taken();
    const sent = memory.buffer as ArrayBuffer;
    say({ type: 'block', walk: this.#walk, block: sent, size: block.length }, [sent]);
  }
}

async function feed({ walk, of, range }: Extract<HelperRequest, { type: 'walk' }>, blocks: Blocks): Promise<void> {
  try {
    const runs = of === 'rows' ? runsOf(level, range, { fillCache: true }) : leafedPairs(range);
    for await (const pairs of runs) {
      for (const pair of pairs) if (blocks.add(pair)) await blocks.send();
      if (blocks.isLeft) return;
    }
    await blocks.send();
    say({ type: 'walked', walk });
  } catch {
    // Whatever the reason is, the caller reads for itself, and meets it again.
    say({ type: 'cut', walk });
  } finally {
    walks.delete(walk);
  }
}

async function* leafedPairs(range: KeyRange): AsyncGenerator<Pair[]> {
  for await (const records of readRecords(level, range, true)) yield records.map(packLeafed);
}

async function verifyWires(): Promise<void> {
  const scratch = await openScratch();
  try {
    const findings = new Findings();
    const payloads = verifyPayloads(level, scratch.pairs, findings);
    let step = await payloads.next();
    for (; !step.done; step = await payloads.next()) {
      say({ type: 'progress', stage: step.value.stage, done: step.value.done });
      if (isStopped()) return;
    }
    say(findings.total > 0 ? { type: 'unsound' } : { type: 'sound', ...step.value });
  } finally {
    await scratch.close();
  }
}

/** Buffers come out of a message as arrays of bytes. */
function rangeOf({ gt, gte, lt, lte }: KeyRange): KeyRange {
  return Object.fromEntries(
    Object.entries({ gt, gte, lt, lte }).flatMap(([name, key]) => (key ? [[name, Buffer.from(key)]] : [])),
  );
}

const tasks: Promise<void>[] = [];
await level.open({ createIfMissing: false });
const ended = new Promise<void>((resolve) => {
  port?.on('message', (request: HelperRequest) => {
    if (request.type === 'end') {
      for (const blocks of walks.values()) blocks.left();
      resolve();
    } else if (request.type === 'taken') walks.get(request.walk)?.taken();
    else if (request.type === 'left') walks.get(request.walk)?.left();
    else {
      const blocks = new Blocks(request.walk);
      walks.set(request.walk, blocks);
      tasks.push(feed({ ...request, range: rangeOf(request.range) }, blocks));
    }
  });
});
try {
  if (verifiesWires) await verifyWires();
  await ended;
  await Promise.all(tasks);
} finally {
  await level.close();
  port?.close();
}
