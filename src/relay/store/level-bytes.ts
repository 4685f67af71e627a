/** Bytes of LevelDB's files, read from their beginning: numbers of seven bits a byte, and what they say follows. */

/** Where a block lies in a table. */
export interface Handle {
  offset: number;
  size: number;
}

export class LevelBytes {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#bytes.length;
  }

  varint(): number | undefined {
    let value = 0;
    for (let factor = 1; factor < 2 ** 49; factor *= 128) {
      const byte = this.#bytes[this.#at++];
      if (byte === undefined) return undefined;
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
    return undefined;
  }

  handle(): Handle | undefined {
    const [offset, size] = [this.varint(), this.varint()];
    return offset === undefined || size === undefined ? undefined : { offset, size };
  }

  /** Passes over `unread` bytes and takes `count`; `undefined` when there are not so many. */
  skip(unread: number, count: number): Buffer | undefined {
    const from = this.#at + unread;
    this.#at = from + count;
    return this.#at > this.#bytes.length ? undefined : this.#bytes.subarray(from, this.#at);
  }
}
