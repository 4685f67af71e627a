/**
 * The image of a store at one moment, or of a part of it: pairs in order, with a header and an end that proves them.
 * These are the bytes of a backup, and of an archive of a relay's log:
 *
 *   magic      a line that names the kind of contents, and the version of the layout
 *   header     u32 length, JSON
 *   block      u32 length, gzip of pairs (pair-block.ts)
 *   …
 *   end        u32 0
 *   trailer    u32 length, JSON: `ImageTrailer`; its hash covers every byte before it, and what it tells of damage
 *
 * Numbers are big-endian. The pairs are in the order of their keys. A reader refuses an image that is cut, has a byte
 * too many, or has an altered byte.
 */
import { type Hash, createHash } from 'node:crypto';
import Type, { type Static } from 'typebox';
import { jsonIn } from '../protocol/json.ts';
import { parserOf } from '../protocol/schemas.ts';
import { Count, HashText } from '../protocol/shapes.ts';
import type { Sha256Hex } from '../protocol/encodings.ts';
import { BLOCKS_AHEAD, BLOCK_BYTES_MAX, type Pair, packedBlocks, unpackedBlock } from './pair-block.ts';
import { releaseMemory } from './released-memory.ts';

const LENGTH = 4;
/** Bytes of pairs that are compressed together. */
const BLOCK_BYTES = 2 << 20;

/** A kind of images: how they are told from others, and what is checked of them besides their bytes. */
export interface ImageKind<Header, Contents extends object> {
  /** The first line, with its line feed. */
  magic: string;
  parseHeader: (value: unknown) => Header | undefined;
  /** Messages name it by this. */
  noun: ImageNoun;
  /** Completes the sentence "it is …" about an image of another kind. */
  isNone: string;
  /** Begins the check of the contents of one. */
  check: () => ContentCheck<Header, Contents>;
}

export type ImageNoun = 'backup' | 'archive';

/** The check of the contents of one image. An error that it throws ends the reading. */
interface ContentCheck<Header, Contents> {
  /** Sees each run; its bytes are gone afterwards. */
  see: (run: readonly Pair[], header: Header) => void;
  /** Returns what is in the image, when all of it was read and is unaltered. */
  end: (header: Header, damage: ContentDamage) => Contents;
}

const ImageTrailer = Type.Object({
  pairs: Count,
  /** The size of all keys and values before compression. */
  bytes: Count,
  /** The hash of everything before the trailer, and of `damageText`. */
  sha256: HashText,
  /** The waiting items whose bytes were missing or altered already when it was written; absent where nobody looked. */
  damaged_items: Type.Optional(Count),
  /** Rows that could not be read; absent where nobody looked. */
  unreadable_rows: Type.Optional(Count),
});
type ImageTrailer = Static<typeof ImageTrailer>;

/** The damage that the writer of an image found in its contents. */
type ContentDamage = Pick<ImageTrailer, 'damaged_items' | 'unreadable_rows'>;

const parseTrailer = parserOf(ImageTrailer);

/** It is no image of the kind, is incomplete or was altered. The message completes a sentence. */
export class ImageDamaged extends Error {}

/** The bytes of an image of these pairs, which ascend. `judged` is asked for their damage after the last one. */
export async function* writeImage(
  magic: string,
  header: object,
  runs: AsyncIterable<readonly Pair[]>,
  judged: () => Promise<ContentDamage> = () => Promise.resolve({}),
): AsyncGenerator<Buffer> {
  const hash = createHash('sha256');
  const covered = (part: Buffer): Buffer => {
    hash.update(part);
    return part;
  };
  yield covered(Buffer.concat([Buffer.from(magic), withLength(Buffer.from(JSON.stringify(header)))]));
  const totals = { pairs: 0, bytes: 0 };
  for await (const block of packedBlocks(runs, BLOCK_BYTES, totals)) {
    yield covered(lengthOf(block));
    yield covered(block);
  }
  const damage = await judged();
  yield covered(Buffer.alloc(LENGTH));
  hash.update(damageText(damage));
  const trailer: ImageTrailer = { ...totals, sha256: hash.digest('hex'), ...damage };
  yield withLength(Buffer.from(JSON.stringify(trailer)));
}

/** An image as it is read. Believe nothing of it before `pairs` has ended without throwing. */
export interface ImageReader<Header> {
  header: Header;
  /** The pairs, ascending, in runs. Throws `ImageDamaged`. */
  pairs: AsyncGenerator<Pair[], ImageTrailer>;
  /** The SHA-256 of all its bytes, when `pairs` has ended. */
  fileHash: () => Sha256Hex;
}

/** Gives back the memory of a run of `pairs` at once: its keys and values are empty then. */
export function releaseRun([first]: readonly Pair[]): void {
  // The pairs of a run are parts of one block.
  if (first) releaseMemory([first[0].buffer]);
}

/** Reads the beginning of an image. Throws `ImageDamaged`. */
export async function readImage<Header>(
  source: AsyncIterable<Buffer>,
  { magic, parseHeader, isNone }: Pick<ImageKind<Header, object>, 'magic' | 'parseHeader' | 'isNone'>,
): Promise<ImageReader<Header>> {
  const bytes = new ByteReader(source);
  const expected = Buffer.from(magic);
  const found = await bytes.take(expected.length);
  if (!found?.equals(expected)) throw new ImageDamaged(`it is ${isNone}, or of a newer kind`);
  const header = parseJson(await block(bytes), parseHeader);
  return { header, pairs: pairsOf(bytes), fileHash: () => bytes.hash().digest('hex') as Sha256Hex };
}

/** An image that was read to its end and found complete and unaltered, and what the check of its contents says. */
export type CheckedImage<Header, Contents> = Contents & {
  header: Header;
  /** The size of the whole image. */
  bytes: number;
  /** The size of the contents before compression. */
  contentBytes: number;
  /** The hash of the whole image. */
  sha256: string;
};

export interface CheckOptions {
  /** Gets the bytes that were read so far. */
  progress?: ((bytes: number) => void) | undefined;
  /** Takes each run that the check has seen; its bytes are gone when it has ended. */
  take?: (run: readonly Pair[]) => Promise<void>;
}

/** Reads an image to its end and checks it. Throws `ImageDamaged`, and what `source`, the check or `take` throws. */
export async function checkImage<Header, Contents extends object>(
  source: AsyncIterable<Buffer>,
  kind: ImageKind<Header, Contents>,
  { progress, take }: CheckOptions = {},
): Promise<CheckedImage<Header, Contents>> {
  let bytes = 0;
  const counted = async function* (): AsyncGenerator<Buffer> {
    for await (const chunk of source) {
      bytes += chunk.length;
      progress?.(bytes);
      yield chunk;
    }
  };
  const { header, pairs, fileHash } = await readImage(counted(), kind);
  const check = kind.check();
  for (;;) {
    const next = await pairs.next();
    if (next.done) {
      const { bytes: contentBytes, ...damage } = next.value;
      return { ...check.end(header, damage), header, bytes, contentBytes, sha256: fileHash() };
    }
    check.see(next.value, header);
    await take?.(next.value);
    releaseRun(next.value);
  }
}

async function* pairsOf(bytes: ByteReader): AsyncGenerator<Pair[], ImageTrailer> {
  const totals = { pairs: 0, bytes: 0 };
  for await (const run of unpackedBlocks(bytes)) {
    if (!run) throw new ImageDamaged('a block of it is altered');
    totals.pairs += run.length;
    for (const [key, value] of run) totals.bytes += key.length + value.length;
    yield run;
  }
  const covered = bytes.hash();
  const trailer = parseJson(await block(bytes), parseTrailer);
  if ((await bytes.take(1)) !== undefined) throw new ImageDamaged('something follows its end');
  if (trailer.sha256 !== covered.update(damageText(trailer)).digest('hex')) {
    throw new ImageDamaged('its SHA-256 does not match');
  }
  if (trailer.pairs !== totals.pairs || trailer.bytes !== totals.bytes) {
    throw new ImageDamaged('its counts do not match');
  }
  return trailer;
}

/** The blocks up to the end, in order, some of them unpacked ahead; `undefined` for one that cannot be. */
async function* unpackedBlocks(bytes: ByteReader): AsyncGenerator<Pair[] | undefined> {
  const unpacking: Promise<Pair[] | undefined>[] = [];
  let failure: unknown;
  try {
    for (let packed = await block(bytes); packed.length > 0; packed = await block(bytes)) {
      unpacking.push(unpackedBlock(packed));
      if (unpacking.length > BLOCKS_AHEAD) yield unpacking.shift();
    }
  } catch (error) {
    // Said of the first fault, which may be a block before this one.
    failure = error;
  }
  yield* unpacking;
  if (failure !== undefined) throw failure;
}

/** Returns what a trailer says of damage, as its hash covers it: nothing where nobody looked. */
function damageText({ damaged_items, unreadable_rows }: ContentDamage): string {
  if (damaged_items === undefined && unreadable_rows === undefined) return '';
  return JSON.stringify({ damaged_items, unreadable_rows });
}

function parseJson<T>(text: Buffer, parse: (value: unknown) => T | undefined): T {
  const document = parse(jsonIn(text.toString()));
  if (!document) throw new ImageDamaged('its header or trailer is altered');
  return document;
}

async function block(bytes: ByteReader): Promise<Buffer> {
  const length = await bytes.take(LENGTH);
  if (!length) throw new ImageDamaged('it ends before its end');
  const size = length.readUInt32BE(0);
  if (size > BLOCK_BYTES_MAX) throw new ImageDamaged('a block of it is altered');
  const content = await bytes.take(size);
  if (!content) throw new ImageDamaged('it ends before its end');
  return content;
}

function withLength(content: Buffer): Buffer {
  return Buffer.concat([lengthOf(content), content]);
}

function lengthOf(content: Buffer): Buffer {
  const length = Buffer.allocUnsafe(LENGTH);
  length.writeUInt32BE(content.length);
  return length;
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
    if (this.#rest.length < count && !(await this.#gather(count))) return undefined;
    const taken = this.#rest.subarray(0, count);
    this.#rest = this.#rest.subarray(count);
    this.#hash.update(taken);
    return taken;
  }

  /**
   * Says whether the stream has so many bytes, which are at hand then. A piece that came as one chunk is not copied.
   */
  async #gather(count: number): Promise<boolean> {
    const parts = this.#rest.length > 0 ? [this.#rest] : [];
    let held = this.#rest.length;
    while (held < count) {
      const next = await this.#chunks.next();
      if (next.done) return false;
      parts.push(next.value);
      held += next.value.length;
    }
    const [only] = parts;
    this.#rest = only && parts.length === 1 ? only : Buffer.concat(parts);
    return true;
  }

  /** SHA-256 of everything that was taken so far. */
  hash(): Hash {
    return this.#hash.copy();
  }
}
