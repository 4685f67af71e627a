/** Keys and values one after the other, to the byte: u32 key length, u32 value length, key, value. Big-endian. */

export type Pair = [key: Buffer, value: Buffer];

const LENGTH = 4;

/** What stands before the key and the value of a pair. */
export function pairLengths([key, value]: Pair): Buffer {
  const lengths = Buffer.allocUnsafe(2 * LENGTH);
  lengths.writeUInt32BE(key.length, 0);
  lengths.writeUInt32BE(value.length, LENGTH);
  return lengths;
}

/** Pairs on their way into a block. */
export class PairBlock {
  #parts: Buffer[] = [];
  /** Of keys and values. */
  bytes = 0;
  pairs = 0;

  add(pair: Pair): void {
    const [key, value] = pair;
    this.#parts.push(pairLengths(pair), key, value);
    this.bytes += key.length + value.length;
    this.pairs++;
  }

  /** The block; the next pairs are of another. */
  taken(): Buffer {
    const block = Buffer.concat(this.#parts);
    this.#parts = [];
    this.bytes = 0;
    this.pairs = 0;
    return block;
  }
}

/** `undefined` for bytes that are no block. */
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
