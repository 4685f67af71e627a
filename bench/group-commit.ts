/** Synced LevelDB batches, each of all that came while the one before was being synced. */
import type { ClassicLevel } from 'classic-level';

type Pairs = readonly (readonly [key: Buffer, value: Buffer])[];

export class GroupCommit {
  readonly #level: ClassicLevel<Buffer, Buffer>;
  #waiting: Pairs[] = [];
  /** The batch that takes what is waiting. */
  #next: Promise<void> | undefined;
  #current: Promise<void> = Promise.resolve();

  constructor(level: ClassicLevel<Buffer, Buffer>) {
    this.#level = level;
  }

  /** Resolves when the pairs are on disk. */
  put(pairs: Pairs): Promise<void> {
    this.#waiting.push(pairs);
    if (!this.#next) {
      this.#next = this.#current.then(() => this.#write());
      this.#current = this.#next;
    }
    return this.#next;
  }

  async #write(): Promise<void> {
    this.#next = undefined;
    const batch = this.#level.batch();
    for (const pairs of this.#waiting.splice(0)) for (const [key, value] of pairs) batch.put(key, value);
    await batch.write({ sync: true });
  }
}
