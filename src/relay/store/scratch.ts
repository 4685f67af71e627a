/**
 * The pairs of an audit, which nothing outlives: in memory, sorted when they are read, and in a temporary database as
 * soon as they are more than memory is meant for. A replay writes most of them once and reads few of them again, so
 * that a database for all of them would take most of its time.
 */
import { mkdtemp, rm, open, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Pair } from '../../lib/pair-block.ts';
import { HeldPairs, type HeldRange, type HeldWalk, PAIRS_MAX } from './held-pairs.ts';
import { runsOf } from './scan.ts';
import { type Level, levelAt, makeLevelFolder } from './level.ts';
import { syncFolder } from '../../lib/files.ts';

/** Memory for pairs. */
export const MEMORY_BYTES = 128 << 20;
const RUN_PAIRS = 1000;

export class ScratchPairs {
  readonly #database: BulkDatabase;
  readonly #memoryBytes: number;
  readonly #held = new HeldPairs();
  #isSpilled = false;

  constructor(database: BulkDatabase, memoryBytes: number) {
    this.#database = database;
    this.#memoryBytes = memoryBytes;
  }

  /** Says whether it is time to `spill`. */
  get isFull(): boolean {
    return this.#held.bytes >= this.#memoryBytes || this.#held.count >= PAIRS_MAX;
  }

  /** The value may come in two parts. */
  put(key: Buffer, value: Buffer, rest?: Buffer): void {
    this.#held.put(key, value, rest);
  }

  del(key: Buffer): void {
    this.#held.del(key);
  }

  /** Good until the next change. */
  get(key: Buffer): Buffer | undefined {
    const held = this.#held.get(key);
    if (held === 'deleted') return undefined;
    return held ?? (this.#isSpilled ? this.#database.level.getSync(key) : undefined);
  }

  /** Every pair of the range, ascending, in runs that are not empty; good until the next change. */
  async *runs(range: HeldRange): AsyncGenerator<Pair[]> {
    const held = this.#held.within(range);
    if (this.#isSpilled) {
      for await (const stored of runsOf(this.#database.level, range)) {
        const run: Pair[] = [];
        for (const pair of stored) {
          let { key } = held;
          for (; key && Buffer.compare(key, pair[0]) < 0; key = held.key) takeInto(run, held);
          if (key?.equals(pair[0])) takeInto(run, held);
          else run.push(pair);
        }
        if (run.length > 0) yield run;
      }
    }
    while (!held.isAtEnd) {
      const run: Pair[] = [];
      while (!held.isAtEnd && run.length < RUN_PAIRS) takeInto(run, held);
      if (run.length > 0) yield run;
    }
  }

  /** Brings what is in memory to the database, but for pairs that nobody asks for any more. */
  async spill(isDropped: (key: Buffer) => boolean = () => false): Promise<void> {
    const held = this.#held.within({});
    while (!held.isAtEnd) {
      const [key, value] = held.take();
      if (value === undefined) this.#database.del(key);
      else if (!isDropped(key)) this.#database.put(key, value);
      if (this.#database.isFull) await this.#database.handOver();
    }
    await this.#database.flush();
    this.#isSpilled = true;
    this.#held.clear();
  }

  /** Deletes the pairs of a range that were brought to the database, and none that are in memory. */
  async clearSpilled(range: { gt: Buffer; lte: Buffer }): Promise<void> {
    if (this.#isSpilled) await this.#database.clear(range);
  }
}

/** Takes the pairs of a walk into a run; a deleted pair leaves nothing. */
function takeInto(run: Pair[], held: HeldWalk): void {
  const [key, value] = held.take();
  if (value) run.push([key, value]);
}

export interface Scratch {
  pairs: ScratchPairs;
  close(): Promise<void>;
}

/** Pairs whose database is in a temporary folder, which `close` removes. */
export async function openScratch(memoryBytes: number = MEMORY_BYTES): Promise<Scratch> {
  const folder = await mkdtemp(join(tmpdir(), 'poste-audit-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    const database = await BulkDatabase.create(join(folder, 'rows'));
    const close = async (): Promise<void> => {
      await database.close();
      await remove();
    };
    return { pairs: new ScratchPairs(database, memoryBytes), close };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** Writes are handed to LevelDB when this many bytes or writes have come together. */
const BATCH_BYTES = 4 << 20;
const BATCH_WRITES = 10_000;
/** Files that are synced together. */
const SYNCS = 4;

/** Thrown when such a database cannot be written. The message completes a sentence. */
export class BulkFailed extends Error {}

/**
 * A database that is filled from nothing by one writer and is worth nothing until it is whole: what an audit has no
 * memory for, or a store that is rebuilt. Nothing of it is synced before `finish`.
 */
export class BulkDatabase {
  readonly level: Level;
  readonly #folder: string;
  #batch: ReturnType<Level['batch']>;
  #bytes = 0;
  /** Resolves with the last batch that was handed over. */
  #writing: Promise<void> = Promise.resolve();

  private constructor(level: Level, folder: string) {
    this.level = level;
    this.#folder = folder;
    this.#batch = level.batch();
  }

  /** A new database at `folder`, where nothing is. Other threads may `join` it. Throws `BulkFailed`. */
  static async create(folder: string): Promise<BulkDatabase> {
    try {
      await makeLevelFolder(folder);
      const level = levelAt(folder, { isShared: true });
      await level.open({ createIfMissing: true, errorIfExists: true });
      return new BulkDatabase(level, folder);
    } catch (error) {
      const said = (error as { cause?: Error }).cause?.message ?? (error as Error).message;
      throw new BulkFailed(`the database at ${folder} cannot be made (${said})`, { cause: error });
    }
  }

  /** The one that another thread of this process created, which fills it too and closes it last. */
  static async join(folder: string): Promise<BulkDatabase> {
    const level = levelAt(folder, { isShared: true });
    await level.open({ createIfMissing: false });
    return new BulkDatabase(level, folder);
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
