/**
 * The bytes of a block of key-value pairs: for each u32 key length, u32 value length, key, value. Big-endian. Wherever
 * pairs are kept or sent together they are cut into such blocks, and a block that is stored is compressed.
 */
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';

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
const GZIP_LEVEL = 1;

/**
 * Cuts pairs into blocks of about `blockBytes`, compressed; `undefined` where a run fills none. `seen` is called with
 * each run when it is in its block.
 */
export async function* packedBlocks(
  runs: AsyncIterable<readonly Pair[]>,
  blockBytes: number,
  seen: (run: readonly Pair[]) => void,
): AsyncGenerator<Buffer | undefined> {
  const block = new PairBlock();
  const packed = (): Promise<Buffer> => promisify(gzip)(block.taken().block, { level: GZIP_LEVEL });
  for await (const run of runs) {
    for (const pair of run) block.add(pair);
    seen(run);
    yield block.bytes < blockBytes ? undefined : await packed();
  }
  if (block.pairs > 0) yield await packed();
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
