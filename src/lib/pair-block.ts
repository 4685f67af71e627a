/**
 * The bytes of a block of key-value pairs: for each u32 key length, u32 value length, key, value. Big-endian. Wherever
 * pairs are kept or sent together they are cut into such blocks, and a block that is stored is compressed.
 */
import { finished } from 'node:stream/promises';
import { promisify } from 'node:util';
import { type ZlibOptions, constants, createGzip, gunzip } from 'node:zlib';

export type Pair = [key: Buffer, value: Buffer];

const LENGTH = 4;

/** The two lengths before the key and the value of a pair. */
export function pairLengths([key, value]: Pair): Buffer {
  const lengths = Buffer.allocUnsafe(2 * LENGTH);
  lengths.writeUInt32BE(key.length, 0);
  lengths.writeUInt32BE(value.length, LENGTH);
  return lengths;
}

/** The size with which a block begins, unless it is given memory; it grows as it must. */
const FIRST_BYTES = 64 << 10;

/** Collects pairs for a block. They are copied at once, so that nothing holds what LevelDB gave for longer. */
export class PairBlock {
  #memory: Buffer;
  #end = 0;
  /** The size of the keys and values. */
  bytes = 0;
  pairs = 0;

  constructor(memory: Buffer = Buffer.allocUnsafeSlow(FIRST_BYTES)) {
    this.#memory = memory;
  }

  add([key, value]: Pair): void {
    const keyAt = this.#end + 2 * LENGTH;
    const valueAt = keyAt + key.length;
    const end = valueAt + value.length;
    if (end > this.#memory.length) this.#grow(end);
    const memory = this.#memory;
    memory.writeUInt32BE(key.length, this.#end);
    memory.writeUInt32BE(value.length, this.#end + LENGTH);
    memory.set(key, keyAt);
    memory.set(value, valueAt);
    this.#end = end;
    this.bytes += key.length + value.length;
    this.pairs++;
  }

  /** The block of the pairs so far, and the memory in which it lies; the next pair begins another, in `memory`. */
  taken(memory: Buffer = Buffer.allocUnsafeSlow(this.#memory.length)): { block: Buffer; memory: Buffer } {
    const taken = { block: this.#memory.subarray(0, this.#end), memory: this.#memory };
    this.#memory = memory;
    this.#end = 0;
    this.bytes = 0;
    this.pairs = 0;
    return taken;
  }

  #grow(size: number): void {
    const memory = Buffer.allocUnsafeSlow(Math.max(size, 2 * this.#memory.length));
    this.#memory.copy(memory, 0, 0, this.#end);
    this.#memory = memory;
  }
}

/** The pairs of a block; `undefined` when the bytes are not one. */
export function unpackedPairs(block: Buffer): Pair[] | undefined {
  const pairs: Pair[] = [];
  let at = 0;
  while (at < block.length) {
    if (at + 2 * LENGTH > block.length) return undefined;
    const keyAt = at + 2 * LENGTH;
    const valueAt = keyAt + block.readUInt32BE(at);
    const end = valueAt + block.readUInt32BE(at + LENGTH);
    if (end > block.length) return undefined;
    pairs.push([block.subarray(keyAt, valueAt), block.subarray(valueAt, end)]);
    at = end;
  }
  return pairs;
}

/** The longest block that is unpacked: more than any writer makes, and little enough for memory. */
export const BLOCK_BYTES_MAX = 64 << 20;
/** Memory that an unpacked block gets at once; a larger one gets more as it needs it. */
const UNPACKED_AT_ONCE_MAX = 8 << 20;
/**
 * Looks for repetitions, and shortens every byte. Sealed mail is base64 of noise, in which there are none: there the
 * second alone makes the same size in a quarter of the time (bench/README.md).
 */
const REPETITIONS: ZlibOptions = { level: 1 };
const BYTES_ALONE: ZlibOptions = { level: 1, strategy: constants.Z_HUFFMAN_ONLY, memLevel: 9 };
/** So much out of the middle of a block is compressed in both ways. */
const SAMPLE_BYTES = 16 << 10;
/** Looking for repetitions is worth its time when they make a sample this much smaller. */
const WORTH_LOOKING = 0.95;
const SPARE = 1.02;
const SPARE_BYTES = 4 << 10;
/**
 * The number of blocks that are compressed, and unpacked, while earlier ones are in use: enough for two cores, and few
 * enough that the commits of a running relay do not wait long for a thread of the same pool.
 */
export const BLOCKS_AHEAD = 2;

/** Cuts pairs into blocks of about `blockBytes`, compressed in their order. Counts in `totals` what is in them. */
export async function* packedBlocks(
  runs: AsyncIterable<readonly Pair[]>,
  blockBytes: number,
  totals = { pairs: 0, bytes: 0 },
): AsyncGenerator<Buffer> {
  const compressing: Promise<Buffer>[] = [];
  // Blocks that were compressed leave their memory to later ones: what V8 collects of it costs as much as compressing.
  const memories: Buffer[] = [];
  const memoryOfBlock = (): Buffer => memories.pop() ?? Buffer.allocUnsafeSlow(2 * blockBytes);
  const pairs = new PairBlock(memoryOfBlock());
  const compress = (): void => {
    totals.bytes += pairs.bytes;
    totals.pairs += pairs.pairs;
    const { block, memory } = pairs.taken(memoryOfBlock());
    const compressed = gzipBlock(block).finally(() => memories.push(memory));
    // A failure after the reader has gone must not end the process.
    compressed.catch(() => undefined);
    compressing.push(compressed);
  };
  for await (const run of runs) {
    for (const pair of run) pairs.add(pair);
    if (pairs.bytes >= blockBytes) compress();
    while (compressing.length > BLOCKS_AHEAD) yield await (compressing.shift() as Promise<Buffer>);
  }
  if (pairs.pairs > 0) compress();
  for (const compressed of compressing) yield await compressed;
}

async function gzipBlock(block: Buffer): Promise<Buffer> {
  const middle = Math.max(0, (block.length - SAMPLE_BYTES) >> 1);
  const sample = block.subarray(middle, middle + SAMPLE_BYTES);
  const [looked, alone] = await Promise.all([gzipAs(sample, REPETITIONS), gzipAs(sample, BYTES_ALONE)]);
  const isLooked = looked.length < alone.length * WORTH_LOOKING;
  const ratio = (isLooked ? looked : alone).length / sample.length;
  return gzipAs(block, isLooked ? REPETITIONS : BYTES_ALONE, ratio);
}

/**
 * `ratio` is how large the result is expected to be: it gets so much memory at once, and more when it needs it. The
 * result of `gzip` itself is always copied, as the last bytes come apart from the others.
 */
function gzipAs(bytes: Buffer, options: ZlibOptions, ratio = 1): Promise<Buffer> {
  const packing = createGzip({ ...options, chunkSize: Math.ceil(bytes.length * ratio * SPARE) + SPARE_BYTES });
  const parts: Buffer[] = [];
  packing.on('data', (part: Buffer) => parts.push(part));
  packing.end(bytes);
  return finished(packing).then(() => joinParts(parts));
}

/** Parts that lie one behind the other in memory become one without being copied. */
function joinParts(parts: readonly Buffer[]): Buffer {
  const [first] = parts;
  if (!first) return Buffer.alloc(0);
  let end = first.byteOffset;
  for (const part of parts) {
    if (part.buffer !== first.buffer || part.byteOffset !== end) return Buffer.concat(parts);
    end += part.length;
  }
  return Buffer.from(first.buffer, first.byteOffset, end - first.byteOffset);
}

/** The pairs of a compressed block; `undefined` when the bytes are not one. */
export async function unpackedBlock(packed: Buffer): Promise<Pair[] | undefined> {
  // Gzip says at the end how long its contents are: no more than a hint of how much memory they need.
  const said = packed.length < LENGTH ? 0 : packed.readUInt32LE(packed.length - LENGTH);
  const chunkSize = Math.min(Math.max(said, 64) + 1, UNPACKED_AT_ONCE_MAX);
  const options = { maxOutputLength: BLOCK_BYTES_MAX, chunkSize };
  const block = await promisify(gunzip)(packed, options).catch(() => undefined);
  return block && unpackedPairs(block);
}
