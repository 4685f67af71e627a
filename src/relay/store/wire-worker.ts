/** The thread that reads wire bytes and writes them as base64, for wire-thread.ts. */
import { parentPort, workerData } from 'node:worker_threads';
import { type Sha256Hex, hasHash } from '../../protocol/digest.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { payloadKey } from './keys.ts';
import { levelAt } from './level.ts';

/** What the thread is given: the place of the database, which is open and shared. */
export interface WireTask {
  location: string;
}

/** Texts cross between threads as one string: that costs less than their parts would. */
export interface WireWork {
  id: number;
  /** Where the payloads lie, and how long each is. */
  target: PublicKey;
  seqs: number[];
  lengths: number[];
  /** Their hashes, one behind the other. */
  hashes: string;
  /** The text in front of each, with line breaks between them; and what stands behind every one. Latin-1. */
  before: string;
  after: string;
  /** Where the bytes are to stand, which both threads see. */
  into: SharedArrayBuffer;
}

export interface WireAnswer {
  id: number;
  /** How many bytes were written; `undefined` when not every payload is what was stored. */
  size: number | undefined;
}

const HASH_CHARACTERS = 64;

const port = parentPort;
const level = levelAt((workerData as WireTask).location, { isShared: true });
let scratch = Buffer.alloc(0);

/**
 * The wire bytes, which are read as a string: that is short-lived memory of V8, while to make and collect a buffer for each
 * takes as long as its hash. They are valid until the next call. Bytes that are no UTF-8 come out changed, so their hash is
 * not the one that is expected.
 */
function wireOf(text: string, length: number): Buffer {
  if (scratch.length < length) scratch = Buffer.allocUnsafeSlow(length);
  return scratch.subarray(0, scratch.write(text, 0, text.length === length ? 'latin1' : 'utf8'));
}

function written({ target, seqs, lengths, hashes, before, after, into }: WireWork): number | undefined {
  const bytes = Buffer.from(into);
  const texts = before.split('\n');
  let size = 0;
  for (const [at, seq] of seqs.entries()) {
    // Nobody else waits in this thread, and without a promise for each a page takes a fifth less.
    const text = level.getSync<Buffer, string>(payloadKey(target, seq), { fillCache: false, valueEncoding: 'utf8' });
    const wire = text === undefined ? undefined : wireOf(text, lengths[at] ?? 0);
    if (!hasHash(wire, hashes.slice(at * HASH_CHARACTERS, (at + 1) * HASH_CHARACTERS) as Sha256Hex)) return undefined;
    size += bytes.write(texts[at] ?? '', size, 'latin1');
    size += bytes.write(wire.toString('base64'), size, 'latin1');
    size += bytes.write(after, size, 'latin1');
  }
  return size;
}

function answer(work: WireWork): void {
  let size: number | undefined;
  try {
    size = written(work);
  } catch {
    // Whatever it was, the caller reads for itself, and meets it again.
  }
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
port?.on('message', (work: WireWork | 'end') => {
  if (work === 'end') void leave();
  else answer(work);
});
say('ready');
