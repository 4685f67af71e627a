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

const MASK = 0xa282ead8;

/** Whether the bytes have this checksum, which LevelDB masks. */
export function hasChecksum(bytes: Buffer, masked: number): boolean {
  const rotated = (masked - MASK) >>> 0;
  return ((rotated >>> 17) | (rotated << 15)) >>> 0 === crc32c(bytes);
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_none, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  return crc >>> 0;
});

/** CRC-32C (Castagnoli, RFC 3720), which zlib does not have. */
function crc32c(bytes: Buffer): number {
  let crc = 0xffff_ffff;
  // A loop over positions is three times as fast as one over the bytes.
  for (let at = 0; at < bytes.length; at++) {
    crc = (CRC_TABLE[(crc ^ (bytes[at] as number)) & 255] as number) ^ (crc >>> 8);
  }
  return (crc ^ 0xffff_ffff) >>> 0;
}
