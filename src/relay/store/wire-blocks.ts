/** The memory into which pages are written, used again: fresh memory costs as much as writing to it ten times. */
const BLOCK_BYTES = 800 << 10;
const FREE_BLOCKS_MAX = 8;

export interface EncodedWires {
  bytes: Buffer;
  /** To be called when the bytes are not read any more. */
  release(this: void): void;
}

/** `B` is `SharedArrayBuffer` where another thread writes: to copy into one takes V8 three times as long. */
export class WireBlocks<B extends ArrayBuffer | SharedArrayBuffer> {
  readonly #free: B[] = [];
  readonly #made: (bytes: number) => B;

  constructor(made: (bytes: number) => B) {
    this.#made = made;
  }

  /** Of at least `size` bytes. */
  take(size: number): B {
    return (size <= BLOCK_BYTES && this.#free.pop()) || this.#made(Math.max(size, BLOCK_BYTES));
  }

  giveBack(block: B): void {
    if (block.byteLength === BLOCK_BYTES && this.#free.length < FREE_BLOCKS_MAX) this.#free.push(block);
  }
}
