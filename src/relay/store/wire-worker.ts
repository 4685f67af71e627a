/** The thread that reads wire bytes and writes them between texts, for wire-thread.ts. */
import { parentPort, workerData } from 'node:worker_threads';
import { type Sha256Hex, hasHash } from '../../protocol/encodings.ts';
import { KEY_BYTES, PREFIX } from './keys.ts';
import { levelAt } from './level.ts';
import { ReadWires } from './queue-runs.ts';

/** The task that the thread is given: the place of the database, which is open and shared. */
export interface WireTask {
  location: string;
}

/** Texts cross between threads as one string: that costs less than their parts would. */
export interface WireWork {
  id: number;
  /** The keys under which the payloads lie, one behind the other; and of each payload, which of them. */
  keys: Uint8Array;
  places: number[];
  seqs: number[];
  lengths: number[];
  /** The hash of each payload that lies alone. */
  hashes: (Sha256Hex | undefined)[];
  /** The texts in front of each, one behind the other, and their ends; and what stands behind every one. Latin-1. */
  before: string;
  ends: number[];
  after: string;
  isBase64: boolean;
  /** The memory for the bytes, which both threads see. */
  into: SharedArrayBuffer;
}

export interface WireAnswer {
  id: number;
  /** The number of bytes that were written; `undefined` when not every payload is what was stored. */
  size: number | undefined;
}

const PAYLOAD_KEY_BYTES = KEY_BYTES[PREFIX.payload] as number;

const port = parentPort;
const level = levelAt((workerData as WireTask).location, { isShared: true });

async function written(work: WireWork): Promise<number | undefined> {
  const { places, seqs, lengths, hashes, before, ends, after, isBase64, into } = work;
  const keys: Buffer[] = [];
  for (let at = 0; at < work.keys.length; at += PAYLOAD_KEY_BYTES)
    keys.push(Buffer.from(work.keys.subarray(at, at + PAYLOAD_KEY_BYTES)));
  const read = new ReadWires(keys, await level.getMany(keys, { fillCache: false }));
  const bytes = Buffer.from(into);
  let size = 0;
  for (const [at, place] of places.entries()) {
    const hash = hashes[at];
    const wire = hash === undefined ? read.whole(place, seqs[at] ?? 0, lengths[at] ?? 0) : read.raw(place);
    if (!wire || wire.length !== lengths[at] || (hash !== undefined && !hasHash(wire, hash))) return undefined;
    size += bytes.write(before.slice(ends[at - 1] ?? 0, ends[at]), size, 'latin1');
    size += isBase64 ? bytes.write(wire.toString('base64'), size, 'latin1') : wire.copy(bytes, size);
    size += bytes.write(after, size, 'latin1');
  }
  return size;
}

async function answer(work: WireWork): Promise<void> {
  // Whatever the reason is, the caller reads for itself, and meets it again.
  const size = await written(work).catch(() => undefined);
  say({ id: work.id, size });
}

function say(message: WireAnswer | 'ready'): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that of a window, and this is a thread
  port?.postMessage(message);
}

/** Nothing more is asked: the thread ends when it has left the database. */
async function leave(): Promise<void> {
  await level.close();
  port?.close();
}

await level.open({ createIfMissing: false });
port?.on('message', (work: WireWork | 'end') => void (work === 'end' ? leave() : answer(work)));
say('ready');
