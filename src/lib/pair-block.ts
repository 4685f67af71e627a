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

/** Collects pairs for a block. */
export class PairBlock {
  #parts: Buffer[] = [];
  /** The size of the keys and values. */
  bytes = 0;
  pairs = 0;

  add(pair: Pair): void {
    const [key, value] = pair;
    this.#parts.push(pairLengths(pair), key, value);
    this.bytes += key.length + value.length;
    this.pairs++;
  }

  /** The block of the pairs so far, in `memory` where it fits; the next pair begins another block. */
  taken(memory?: Buffer): Buffer {
    const block = this.#into(memory) ?? Buffer.concat(this.#parts);
    this.#parts = [];
    this.bytes = 0;
    this.pairs = 0;
    return block;
  }

  #into(memory: Buffer | undefined): Buffer | undefined {
    const size = this.bytes + 2 * LENGTH * this.pairs;
    if (!memory || memory.length < size) return undefined;
    let at = 0;
    for (const part of this.#parts) at += part.copy(memory, at);
    return memory.subarray(0, size);
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
