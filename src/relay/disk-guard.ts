/**
 * Whether there is room for more mail.
 *
 * A full disk ends the relay, since nothing is written after a failed write; so pushes are refused before it is full,
 * while acks, expiry and pulls go on and make room. Asked on a timer, and again when much was taken in between.
 */
import { statfs } from 'node:fs/promises';
import type { Timers } from './engine/ambient.ts';

const ASK_EVERY_MS = 5_000;
/** Asked at once when this share of the floor was taken since the last answer. */
const TAKEN_SHARE = 1 / 8;

export interface DiskGuardOptions {
  /** Bytes that an unprivileged process may still write. */
  freeBytes: () => Promise<number>;
  /** Pushes are refused below this. */
  floorBytes: number;
  timers: Timers;
  /** Told when it became low, and when it is no longer. */
  changed: (isLow: boolean, freeBytes: number) => void;
}

export class DiskGuard {
  readonly #options: DiskGuardOptions;
  readonly #cancel: () => void;
  #isLow = false;
  #freeBytes = Number.POSITIVE_INFINITY;
  #takenBytes = 0;
  #asking: Promise<void> | undefined;

  private constructor(options: DiskGuardOptions) {
    this.#options = options;
    this.#cancel = options.timers.every(ASK_EVERY_MS, () => void this.#ask());
  }

  /** A guard that has asked once. */
  static async start(options: DiskGuardOptions): Promise<DiskGuard> {
    const guard = new DiskGuard(options);
    await guard.#ask();
    return guard;
  }

  get isLow(): boolean {
    return this.#isLow;
  }

  /** The last answer. */
  get freeBytes(): number {
    return this.#freeBytes;
  }

  /** Tells of bytes that are about to be written. */
  taken(bytes: number): void {
    this.#takenBytes += bytes;
    const { floorBytes } = this.#options;
    if (floorBytes > 0 && this.#takenBytes >= floorBytes * TAKEN_SHARE) void this.#ask();
  }

  async close(): Promise<void> {
    this.#cancel();
    await this.#asking;
  }

  #ask(): Promise<void> {
    this.#asking ??= this.#answer().finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  async #answer(): Promise<void> {
    this.#takenBytes = 0;
    const { freeBytes, floorBytes, changed } = this.#options;
    // What cannot be asked is not held against the mail: a write that fails is seen all the same.
    const free = await freeBytes().catch(() => this.#freeBytes);
    const isLow = free < floorBytes;
    this.#freeBytes = free;
    if (isLow === this.#isLow) return;
    this.#isLow = isLow;
    changed(isLow, free);
  }
}

/** The free bytes of the file system that holds `folder`. */
export async function freeBytesOf(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}
