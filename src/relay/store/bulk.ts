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
/** Files that are synced together. */
const SYNCS = 4;

/** Thrown when such a database cannot be written. The message completes a sentence. */
export class BulkFailed extends Error {}

export class BulkDatabase {
  readonly level: Level;
  readonly #folder: string;
  #batch: ReturnType<Level['batch']>;
  #bytes = 0;
  /** Of the last batch that was handed over. */
  #writing: Promise<void> = Promise.resolve();

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

  /** To be read after the next `flush`. */
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

  /** What was put can be read when this resolves. */
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
    this.#writing = this.#written(batch.write());
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
    const names = (await readdir(this.#folder)).values();
    const syncs = Array.from({ length: SYNCS }, async () => {
      for (const name of names) await syncFile(join(this.#folder, name));
    });
    await Promise.all(syncs);
    await syncFolder(this.#folder);
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
      throw new BulkFailed(`the database at ${this.#folder} cannot be written (${said})`, { cause: error });
    }
  }
}

async function syncFile(path: string): Promise<void> {
  const file = await open(path, 'r+');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
