/** The bytes of a block of key-value pairs: for each u32 key length, u32 value length, key, value. Big-endian. */

export type Pair = [key: Buffer, value: Buffer];

const LENGTH = 4;

/** The two lengths before the key and the value of a pair. */
export function pairLengths([key, value]: Pair): Buffer {
  const lengths = Buffer.allocUnsafe(2 * LENGTH);
  lengths.writeUInt32BE(key.length, 0);
  lengths.writeUInt32BE(value.length, LENGTH);
  return lengths;
}

/** What a block begins with, unless it is given memory; it grows as it must. */
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

  /** The block of the pairs so far, and the memory in which it lies; the next pair begins another block, in `memory`. */
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
