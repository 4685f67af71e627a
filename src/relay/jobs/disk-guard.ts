/**
 * Watches whether the disk has room for more mail.
 *
 * A full disk ends the relay, since nothing is written after a failed write; so pushes are refused before it is full,
 * while acks, expiry and pulls continue and make room. The file system is asked on a timer, and again when much was
 * written in between.
 */
import { statfs } from 'node:fs/promises';
import type { Timers } from '../../lib/clock.ts';
import { PeriodicTask } from '../../lib/periodic-task.ts';

const ASK_EVERY_MS = 5_000;
/** The file system is asked at once when this share of the floor was written since the last answer. */
const TAKEN_SHARE = 1 / 8;

export interface DiskGuardOptions {
  /** Bytes that an unprivileged process may still write. */
  freeBytes: () => Promise<number>;
  /** Pushes are refused below this. */
  floorBytes: number;
  timers: Timers;
  /** Gets the answer each time that the file system was asked. */
  onFound?: (freeBytes: number) => void;
  /** Hears when the room became low, and when it is no longer low. */
  onChange?: (isLow: boolean, freeBytes: number) => void;
  onError: (error: unknown) => void;
}

/** A run asks the file system. */
export class DiskGuard extends PeriodicTask {
  readonly #options: DiskGuardOptions;
  #isLow = false;
  #freeBytes = Number.POSITIVE_INFINITY;
  #takenBytes = 0;

  private constructor(options: DiskGuardOptions) {
    const { timers, onError } = options;
    super({ timers, everyMs: ASK_EVERY_MS, work: () => this.#ask(), onError });
    this.#options = options;
  }

  /** A guard that has asked once. */
  static async start(options: DiskGuardOptions): Promise<DiskGuard> {
    const guard = new DiskGuard(options);
    await guard.run();
    return guard;
  }

  get isLow(): boolean {
    return this.#isLow;
  }

  get freeBytes(): number {
    return this.#freeBytes;
  }

  /** Returns true when pushes would still be taken with so many bytes more on the disk. Asks the file system. */
  async hasRoomFor(bytes: number): Promise<boolean> {
    await this.run();
    return this.#freeBytes - bytes >= this.#options.floorBytes;
  }

  /** Notes that so many bytes come onto the disk. Returns true when there is room. */
  readonly takeRoom = (bytes: number): boolean => {
    this.#takenBytes += bytes;
    const { floorBytes } = this.#options;
    if (floorBytes > 0 && this.#takenBytes >= floorBytes * TAKEN_SHARE) void this.run();
    return !this.#isLow;
  };

  async #ask(): Promise<void> {
    this.#takenBytes = 0;
    const { freeBytes, floorBytes, onChange, onFound } = this.#options;
    // An error here must not refuse mail: a write that fails is noticed all the same.
    const free = await freeBytes().catch(() => this.#freeBytes);
    const isLow = free < floorBytes;
    this.#freeBytes = free;
    onFound?.(free);
    if (isLow === this.#isLow) return;
    this.#isLow = isLow;
    onChange?.(isLow, free);
  }
}

/** The free bytes of the file system that holds `folder`. */
export async function freeBytesOf(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}
