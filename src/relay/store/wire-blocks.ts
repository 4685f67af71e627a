/** The memory into which pages are written, which is used again: fresh memory costs as much as writing to it ten times. */
import { type TextsAround, lengthBetween, writeBetween } from '../../protocol/base64.ts';

const BLOCK_BYTES = 800 << 10;
const FREE_BLOCKS_MAX = 8;
/** Less has memory of its own. */
const SMALL_BYTES = 256 << 10;

export interface EncodedWires {
  bytes: Buffer;
  /** To be called when the bytes are not read any more. */
  release(this: void): void;
}

export class WireBlocks {
  readonly #free: SharedArrayBuffer[] = [];

  /** Of at least `size` bytes. */
  take(size: number): SharedArrayBuffer {
    return (size <= BLOCK_BYTES && this.#free.pop()) || new SharedArrayBuffer(Math.max(size, BLOCK_BYTES));
  }

  giveBack(block: SharedArrayBuffer): void {
    if (block.byteLength === BLOCK_BYTES && this.#free.length < FREE_BLOCKS_MAX) this.#free.push(block);
  }
}

/** The wire bytes as base64 between their texts, written on this thread. */
export function encodedWires(wires: readonly Buffer[], texts: TextsAround, blocks: WireBlocks): EncodedWires {
  const lengths = wires.map(({ length }) => length);
  const size = lengthBetween(lengths, texts);
  const block = size < SMALL_BYTES ? undefined : blocks.take(size);
  const bytes = block ? Buffer.from(block, 0, size) : Buffer.allocUnsafeSlow(size);
  writeBetween(bytes, wires, texts);
  return { bytes, release: () => block && blocks.giveBack(block) };
}
