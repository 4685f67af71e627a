/**
 * What a batch does to those keys of the view that are of the log: rows, due entries, and what is collected. Every copy of
 * the log must do the same; the hash shows whether it does. It begins with the hash of the batch before, so that two logs with
 * one hash at one batch did the same in every batch up to it.
 *
 * To the byte: SHA-256 over the hash of the batch before (nothing before the first) and the SHA-256 of, for each write in its order, 0 and the length of the key, u32, and the key; or 1, the same, and then the
 * length of the value, u32, and the value. Records and hash tiles are left out: the log holds the records, and the tiles
 * follow from them. Wire bytes are left out too: a later batch may have dropped them before a follower reads them, and
 * the queue row holds their hash.
 */
import { createHash } from 'node:crypto';
import { PREFIX } from './keys.ts';

export class BatchEffects {
  readonly #hash = createHash('sha256');
  readonly #dropped = new Map<string, Buffer>();

  put(key: Buffer, value: Buffer): void {
    this.#hash.update(framed(1, key)).update(key).update(length(value)).update(value);
  }

  del(key: Buffer): void {
    if (key[0] === PREFIX.payload) this.#dropped.set(key.toString('latin1'), key.subarray(1));
    else this.#hash.update(framed(0, key)).update(key);
  }

  /** Of everything so far, after a batch with the effects `before`; nothing can be added afterwards. */
  taken(before: Buffer): { effects: Buffer; dropped: Buffer[] } {
    const effects = createHash('sha256').update(before).update(this.#hash.digest()).digest();
    return { effects, dropped: [...this.#dropped.values()] };
  }
}

function framed(sort: number, key: Buffer): Buffer {
  const bytes = Buffer.allocUnsafe(5);
  bytes[0] = sort;
  bytes.writeUInt32BE(key.length, 1);
  return bytes;
}

function length(value: Buffer): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32BE(value.length, 0);
  return bytes;
}
