/** The thread that reads wire bytes and writes them as base64, for wire-thread.ts. */
import { parentPort, workerData } from 'node:worker_threads';
import { type Sha256Hex, hasHash } from '../../protocol/encodings.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { payloadKey } from './keys.ts';
import { levelAt } from './level.ts';

/** The task that the thread is given: the place of the database, which is open and shared. */
export interface WireTask {
  location: string;
}

/** Texts cross between threads as one string: that costs less than their parts would. */
export interface WireWork {
  id: number;
  /** The queue in which the payloads lie, and how long each is. */
  target: PublicKey;
  seqs: number[];
  lengths: number[];
  /** Their hashes, one behind the other. */
  hashes: string;
  /** The text in front of each, with line breaks between them; and what stands behind every one. Latin-1. */
  before: string;
  after: string;
  /** The memory for the bytes, which both threads see. */
  into: SharedArrayBuffer;
}

export interface WireAnswer {
  id: number;
  /** The number of bytes that were written; `undefined` when not every payload is what was stored. */
  size: number | undefined;
}

const HASH_CHARACTERS = 64;
/** On average, of payloads that are read by many keys at once. */
const SMALL_BYTES = 8 << 10;
const AS_TEXT = { fillCache: false, valueEncoding: 'utf8' } as const;

const port = parentPort;
const level = levelAt((workerData as WireTask).location, { isShared: true });
let scratch = Buffer.alloc(0);

/**
 * The wire bytes, which are read as a string: that is short-lived memory of V8, while to make and collect a buffer for
 * each takes as long as its hash. They are valid until the next call. Bytes that are no UTF-8 come out changed, so
 * their hash is not the one that is expected.
 */
function wireOf(text: string, length: number): Buffer {
  if (scratch.length < length) scratch = Buffer.allocUnsafeSlow(length);
  return scratch.subarray(0, scratch.write(text, 0, text.length === length ? 'latin1' : 'utf8'));
}

async function written({ target, seqs, lengths, hashes, before, after, into }: WireWork): Promise<number | undefined> {
  const bytes = Buffer.from(into);
  const texts = before.split('\n');
  const keys = seqs.map((seq) => payloadKey(target, seq));
  // A look-up costs half when there are many; a large payload costs an extra copy then.
  const areSmall = lengths.reduce((sum, length) => sum + length, 0) < seqs.length * SMALL_BYTES;
  const many = areSmall ? await level.getMany<Buffer, string>(keys, AS_TEXT) : undefined;
  let size = 0;
  for (const [at, key] of keys.entries()) {
    const text = many ? many[at] : level.getSync<Buffer, string>(key, AS_TEXT);
    const wire = text === undefined ? undefined : wireOf(text, lengths[at] ?? 0);
    if (!hasHash(wire, hashes.slice(at * HASH_CHARACTERS, (at + 1) * HASH_CHARACTERS) as Sha256Hex)) return undefined;
    size += bytes.write(texts[at] ?? '', size, 'latin1');
    size += bytes.write(wire.toString('base64'), size, 'latin1');
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
