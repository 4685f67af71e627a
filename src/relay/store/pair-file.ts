/**
 * A file of pairs, to the byte, of which a backup and an archive of the log are two kinds:
 *
 *   the kind   ASCII, ended by a line feed
 *   header     u32 length, JSON
 *   block      u32 length, gzip of pairs (pair-block.ts)
 *   …
 *   end        u32 0
 *   trailer    u32 length, JSON: `PairFileTrailer`; its hash covers every byte before it, and what it says of damage
 *
 * Numbers are big-endian. A file that ends early, holds a byte more, or differs in one from what was written is refused.
 */
import { type Hash, createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import Type, { type Static } from 'typebox';
import { parserOf } from '../../protocol/schemas.ts';
import { Count, HashText } from '../../protocol/shapes.ts';
import { type Pair, PairBlock, unpackedPairs } from './pair-block.ts';

const LENGTH = 4;
/** Bytes of pairs that are compressed together. */
export const BLOCK_BYTES = 1 << 20;
/** More than any block or trailer of ours, and little enough to hold. */
const BLOCK_BYTES_MAX = 64 << 20;
/** Compressing is to keep up with the disk. */
const GZIP_LEVEL = 1;
/** Blocks that are being compressed while others are written. */
const GZIPS_AHEAD = 3;

export interface PairFileKind<H> {
  /** What every file of the kind begins with. */
  magic: Buffer;
  parseHeader: (value: unknown) => H | undefined;
  /** What a file of no such kind is not, in words that complete "it is …". */
  isNone: string;
}

const PairFileTrailer = Type.Object({
  pairs: Count,
  /** Of all keys and values, before they were compressed. */
  bytes: Count,
  /** Of everything before the trailer, and of `damageText`. */
  sha256: HashText,
  /** Waiting items whose wire bytes were missing or altered already when it was written; of backups, but older ones. */
  damaged_items: Type.Optional(Count),
  /** Rows of queues that could not be read; of backups, but older ones. */
  unreadable_rows: Type.Optional(Count),
});
export type PairFileTrailer = Static<typeof PairFileTrailer>;

/** What a trailer says of damage to what the file was made of. */
export type SaidOfDamage = Pick<PairFileTrailer, 'damaged_items' | 'unreadable_rows'>;

const parseTrailer = parserOf(PairFileTrailer);

/** Thrown for a file that is none of its kind, or not whole, or not as it was written. The message completes a sentence. */
export class PairFileDamaged extends Error {}

/** The file, piece by piece. Runs may be of any size, and are packed as they come; `ended` is asked after the last. */
export async function* writePairFile<H>(
  { magic }: PairFileKind<H>,
  header: H,
  runs: AsyncIterable<readonly Pair[]>,
  ended: () => Promise<SaidOfDamage> = () => Promise.resolve({}),
): AsyncGenerator<Buffer> {
  const hash = createHash('sha256');
  const covered = (part: Buffer): Buffer => {
    hash.update(part);
    return part;
  };
  yield covered(Buffer.concat([magic, prefixed(Buffer.from(JSON.stringify(header)))]));
  const totals = { pairs: 0, bytes: 0 };
  for await (const block of blocksOf(runs, totals)) yield covered(prefixed(block));
  const said = await ended();
  yield covered(Buffer.alloc(LENGTH));
  hash.update(damageText(said));
  const trailer: PairFileTrailer = { ...totals, sha256: hash.digest('hex'), ...said };
  yield prefixed(Buffer.from(JSON.stringify(trailer)));
}

async function* blocksOf(
  runs: AsyncIterable<readonly Pair[]>,
  totals: { pairs: number; bytes: number },
): AsyncGenerator<Buffer> {
  const compressing: Promise<Buffer>[] = [];
  const block = new PairBlock();
  const compress = (): void => {
    totals.bytes += block.bytes;
    totals.pairs += block.pairs;
    const compressed = promisify(gzip)(block.taken(), { level: GZIP_LEVEL });
    // One that fails when its reader has gone must not end the process.
    compressed.catch(() => undefined);
    compressing.push(compressed);
  };
  for await (const run of runs) {
    for (const pair of run) block.add(pair);
    if (block.bytes >= BLOCK_BYTES) compress();
    for (; compressing.length > GZIPS_AHEAD; compressing.shift()) yield await (compressing[0] as Promise<Buffer>);
  }
  if (block.bytes > 0) compress();
  for (const compressed of compressing) yield await compressed;
}

/** A file as it is read; nothing of it may be believed before `pairs` has ended without throwing. */
export interface ReadPairFile<H> {
  header: H;
  /** Runs of pairs, in the order of the file. Throws `PairFileDamaged`. */
  pairs: AsyncGenerator<Pair[], PairFileTrailer>;
}

/** Reads the beginning of a file. Throws `PairFileDamaged`. */
export async function readPairFile<H>(
  { magic, parseHeader, isNone }: PairFileKind<H>,
  source: AsyncIterable<Buffer>,
): Promise<ReadPairFile<H>> {
  const bytes = new ByteReader(source);
  const found = await bytes.take(magic.length);
  if (!found?.equals(magic)) throw new PairFileDamaged(`it is ${isNone}, or of a newer kind`);
  const header = parsed(await block(bytes), parseHeader);
  return { header, pairs: pairsOf(bytes) };
}

async function* pairsOf(bytes: ByteReader): AsyncGenerator<Pair[], PairFileTrailer> {
  const totals = { pairs: 0, bytes: 0 };
  for (let packed = await block(bytes); packed.length > 0; packed = await block(bytes)) {
    const text = await promisify(gunzip)(packed, { maxOutputLength: BLOCK_BYTES_MAX }).catch(() => undefined);
    const run = text && unpackedPairs(text);
    if (!run) throw new PairFileDamaged('a block of it is altered');
    totals.pairs += run.length;
    for (const [key, value] of run) totals.bytes += key.length + value.length;
    yield run;
  }
  const covered = bytes.hash();
  const trailer = parsed(await block(bytes), parseTrailer);
  if ((await bytes.take(1)) !== undefined) throw new PairFileDamaged('something follows its end');
  if (trailer.sha256 !== covered.update(damageText(trailer)).digest('hex'))
    throw new PairFileDamaged('its SHA-256 does not match');
  if (trailer.pairs !== totals.pairs || trailer.bytes !== totals.bytes) {
    throw new PairFileDamaged('its counts do not match');
  }
  return trailer;
}

/** What a trailer says of damage, as its hash covers it: nothing in older files and in archives. */
function damageText({ damaged_items, unreadable_rows }: SaidOfDamage): string {
  if (damaged_items === undefined && unreadable_rows === undefined) return '';
  return JSON.stringify({ damaged_items, unreadable_rows });
}

function parsed<T>(text: Buffer, parse: (value: unknown) => T | undefined): T {
  let value: unknown;
  try {
    value = JSON.parse(text.toString());
  } catch {
    // Said below.
  }
  const document = parse(value);
  if (!document) throw new PairFileDamaged('its header or trailer is altered');
  return document;
}

async function block(bytes: ByteReader): Promise<Buffer> {
  const length = await bytes.take(LENGTH);
  if (!length) throw new PairFileDamaged('it ends before its end');
  const size = length.readUInt32BE(0);
  if (size > BLOCK_BYTES_MAX) throw new PairFileDamaged('a block of it is altered');
  const content = await bytes.take(size);
  if (!content) throw new PairFileDamaged('it ends before its end');
  return content;
}

function prefixed(content: Buffer): Buffer {
  const length = Buffer.allocUnsafe(LENGTH);
  length.writeUInt32BE(content.length);
  return Buffer.concat([length, content]);
}

/** Takes exact numbers of bytes off a stream of chunks, and hashes what was taken. */
class ByteReader {
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #hash = createHash('sha256');
  #rest: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Buffer>) {
    this.#chunks = source[Symbol.asyncIterator]();
  }

  /** The next bytes; `undefined` when the stream ends before them. */
  async take(count: number): Promise<Buffer | undefined> {
    const parts = [this.#rest];
    let held = this.#rest.length;
    while (held < count) {
      const next = await this.#chunks.next();
      if (next.done) return undefined;
      parts.push(next.value);
      held += next.value.length;
    }
    const all = Buffer.concat(parts);
    const taken = all.subarray(0, count);
    this.#rest = all.subarray(count);
    this.#hash.update(taken);
    return taken;
  }

  /** SHA-256 of everything that was taken so far. */
  hash(): Hash {
    return this.#hash.copy();
  }
}
