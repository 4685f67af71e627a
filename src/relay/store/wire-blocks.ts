/** The memory into which pages are written, which is used again: fresh memory costs as much as writing to it ten times. */
const BLOCK_BYTES = 800 << 10;
const FREE_BLOCKS_MAX = 8;

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
