/**
 * What a batch does to those keys of the view that are of the log: rows, due entries, and what is collected. Every copy
 * of the log must do the same; the hash shows whether it does. It begins with the hash of the batch before, so that two
 * logs with one hash at one batch did the same in every batch up to it.
 *
 * To the byte: SHA-256 over the hash of the batch before (nothing before the first) and the SHA-256 of, for each write
 * in its order, 0 and the length of the key, u32, and the key; or 1, the same, and then the length of the value, u32,
 * and the value. Records and hash tiles are left out: the log holds the records, and the tiles follow from them. Wire
 * bytes are left out too: a later batch may have dropped them before a follower reads them, and the queue row holds
 * their hash.
 */
import { createHash } from 'node:crypto';
import { PREFIX } from './keys.ts';

/** Small writes are gathered: each call of the hash costs more than hashing a hundred bytes. */
const GATHERED_BYTES = 64 << 10;
const LENGTH_BYTES = 4;
const FRAMES_BYTES = 1 + 2 * LENGTH_BYTES;

export class BatchEffects {
  readonly #hash = createHash('sha256');
  readonly #dropped = new Map<string, Buffer>();
  readonly #gathered = Buffer.allocUnsafe(GATHERED_BYTES);
  #length = 0;

  put(key: Buffer, value: Buffer): void {
    this.#reserve(FRAMES_BYTES + key.length + value.length);
    this.#addSort(1);
    this.#add(key);
    this.#add(value);
  }

  del(key: Buffer): void {
    if (key[0] === PREFIX.payload) {
      this.#dropped.set(key.toString('latin1'), key.subarray(1));
      return;
    }
    this.#reserve(FRAMES_BYTES + key.length);
    this.#addSort(0);
    this.#add(key);
  }

  /** Of everything so far, after a batch with the effects `before`; nothing can be added afterwards. */
  taken(before: Buffer): { effects: Buffer; dropped: Buffer[] } {
    this.#flush();
    const effects = createHash('sha256').update(before).update(this.#hash.digest()).digest();
    return { effects, dropped: [...this.#dropped.values()] };
  }

  /** Afterwards there is room for so many bytes, if there ever is. */
  #reserve(bytes: number): void {
    if (this.#length + bytes > GATHERED_BYTES) this.#flush();
  }

  #addSort(sort: number): void {
    this.#gathered[this.#length++] = sort;
  }

  #add(bytes: Buffer): void {
    this.#length = this.#gathered.writeUInt32BE(bytes.length, this.#length);
    if (this.#length + bytes.length + FRAMES_BYTES > GATHERED_BYTES) {
      this.#flush();
      this.#hash.update(bytes);
      return;
    }
    this.#gathered.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  #flush(): void {
    this.#hash.update(this.#gathered.subarray(0, this.#length));
    this.#length = 0;
  }
}
