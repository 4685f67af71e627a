/**
 * A database that is filled from nothing by one writer and is worth nothing until it is whole: what an audit has no
 * memory for, or a store that is rebuilt. Nothing of it is synced before `close`.
 */
import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type Level, levelAt, makeLevelFolder } from './level.ts';
import { syncFolder } from '../../lib/files.ts';

/** Writes are handed to LevelDB when this many bytes or writes have come together. */
const BATCH_BYTES = 4 << 20;
const BATCH_WRITES = 10_000;

/** Thrown when such a database cannot be written. The message completes a sentence. */
export class BulkFailed extends Error {}

export class BulkDatabase {
  readonly level: Level;
  readonly #folder: string;
  #batch: ReturnType<Level['batch']>;
  #bytes = 0;

  private constructor(level: Level, folder: string) {
    this.level = level;
    this.#folder = folder;
    this.#batch = level.batch();
  }

  /** A new database at `folder`, where nothing is. Throws `BulkFailed`. */
  static async create(folder: string): Promise<BulkDatabase> {
    try {
      await makeLevelFolder(folder);
      const level = levelAt(folder);
      await level.open({ createIfMissing: true, errorIfExists: true });
      return new BulkDatabase(level, folder);
    } catch (error) {
      const said = (error as { cause?: Error }).cause?.message ?? (error as Error).message;
      throw new BulkFailed(`the database at ${folder} cannot be made (${said})`, { cause: error });
    }
  }

  /** Not to be read before the next `flush`. */
  put(key: Buffer, value: Buffer): void {
    this.#batch.put(key, value);
    this.#bytes += key.length + value.length;
  }

  del(key: Buffer): void {
    this.#batch.del(key);
    this.#bytes += key.length;
  }

  get isFull(): boolean {
    return this.#bytes >= BATCH_BYTES || this.#batch.length >= BATCH_WRITES;
  }

  async flush(): Promise<void> {
    const batch = this.#batch;
    this.#batch = this.level.batch();
    this.#bytes = 0;
    await this.#written(batch.write());
  }

  /** Deletes the keys of a range that was flushed. */
  async clear(range: { gt: Buffer; lte: Buffer }): Promise<void> {
    await this.#written(this.level.clear(range));
  }

  /** Durable when it resolves. */
  async finish(): Promise<void> {
    await this.flush();
    await this.close();
    for (const name of await readdir(this.#folder)) {
      const file = await open(join(this.#folder, name), 'r+');
      try {
        await file.sync();
      } finally {
        await file.close();
      }
    }
    await syncFolder(this.#folder);
  }

  async close(): Promise<void> {
    await this.level.close();
  }

  async #written(write: Promise<void>): Promise<void> {
    try {
      await write;
    } catch (error) {
      const said = (error as Error).message;
      throw new BulkFailed(`the database at ${this.#folder} cannot be written (${said})`, { cause: error });
    }
  }
}
