/**
 * A database that one writer fills with pairs, batch by batch: what an audit has no memory for, a store that is rebuilt
 * or restored, a view that is filled from a snapshot.
 */
import { syncFiles } from '../../lib/files.ts';
import type { Pair } from '../../lib/pair-block.ts';
import { type Level, levelAt, makeLevelFolder } from './level.ts';

/** Writes are handed to LevelDB when this many bytes or writes have come together. */
const BATCH_BYTES = 4 << 20;
const BATCH_WRITES = 10_000;

/** Thrown when such a database cannot be written. The message completes a sentence, and the cause is LevelDB's. */
export class BulkFailed extends Error {}

/** The error of LevelDB or the system behind that of a database that is filled. */
export function bulkCause(error: unknown): unknown {
  return error instanceof BulkFailed ? error.cause : error;
}

/**
 * One that is filled from nothing is worth nothing until it is whole: nothing of it is synced before `finish`, unless
 * `isSynced`.
 */
export class BulkDatabase {
  readonly level: Level;
  readonly #isSynced: boolean;
  #batch: ReturnType<Level['batch']>;
  #bytes = 0;
  /** Resolves with the last batch that was handed over. */
  #writing: Promise<void> = Promise.resolve();

  /** Over a database that is open. With `isSynced`, what was handed over is durable when the next batch is. */
  constructor(level: Level, { isSynced = false } = {}) {
    this.level = level;
    this.#isSynced = isSynced;
    this.#batch = level.batch();
  }

  /** A new database at `folder`, where nothing is. Other threads may `join` it. Throws `BulkFailed`. */
  static async create(folder: string): Promise<BulkDatabase> {
    try {
      await makeLevelFolder(folder);
      const level = levelAt(folder, { isShared: true });
      await level.open({ createIfMissing: true, errorIfExists: true });
      return new BulkDatabase(level);
    } catch (error) {
      const said = (error as { cause?: Error }).cause?.message ?? (error as Error).message;
      throw new BulkFailed(`the database at ${folder} cannot be made (${said})`, { cause: error });
    }
  }

  /** The one that another thread of this process created, which fills it too and closes it last. */
  static async join(folder: string): Promise<BulkDatabase> {
    const level = levelAt(folder, { isShared: true });
    await level.open({ createIfMissing: false });
    return new BulkDatabase(level);
  }

  /** To be read after the next `flush`. */
  put(key: Buffer, value: Buffer): void {
    this.#batch.put(key, value);
    this.#bytes += key.length + value.length;
  }

  /** Puts all of them, and hands over what has come together. */
  async take(pairs: Iterable<Pair>): Promise<void> {
    for (const [key, value] of pairs) {
      this.put(key, value);
      if (this.isFull) await this.handOver();
    }
  }

  del(key: Buffer): void {
    this.#batch.del(key);
    this.#bytes += key.length;
  }

  get isFull(): boolean {
    return this.#bytes >= BATCH_BYTES || this.#batch.length >= BATCH_WRITES;
  }

  /** Resolves when everything that was put can be read. */
  async flush(): Promise<void> {
    await this.handOver();
    await this.#writing;
  }

  /** Hands over what was put: LevelDB writes it while the next batch is filled. Waits for the batch before it. */
  async handOver(): Promise<void> {
    const batch = this.#batch;
    this.#batch = this.level.batch();
    this.#bytes = 0;
    await this.#writing;
    this.#writing = this.#written(batch.write({ sync: this.#isSynced }));
    // The next `handOver` or `flush` throws its error.
    this.#writing.catch(() => undefined);
  }

  /** Deletes the keys of a range that was flushed. */
  async clear(range: { gt: Buffer; lte: Buffer }): Promise<void> {
    await this.#written(this.level.clear(range));
  }

  /** Durable when it resolves. */
  async finish(): Promise<void> {
    await this.flush();
    await this.close();
    await syncFiles(this.level.location);
  }

  async close(): Promise<void> {
    // After a write that failed, the caller deletes the database.
    await this.#writing.catch(() => undefined);
    await this.level.close();
  }

  async #written(write: Promise<void>): Promise<void> {
    try {
      await write;
    } catch (error) {
      const said = (error as Error).message;
      throw new BulkFailed(`the database at ${this.level.location} cannot be written (${said})`, { cause: error });
    }
  }
}
