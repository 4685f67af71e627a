/**
 * Implements what the relay uses of LevelDB, over a table in memory. Reads and writes take the time that its disk
 * takes.
 */
import type { Level } from '../../../src/relay/store/level.ts';
import { type Change, type KeyBounds, type SortedTable, latin1 } from './sorted-table.ts';

interface LevelDisk {
  /** The table that can be read. */
  table: SortedTable;
  /** Resolves when something was read. */
  read: () => Promise<void>;
  /** Applies the changes to `table`, and resolves when they were written; durable if `sync`. */
  write: (changes: readonly Change[], sync: boolean) => Promise<void>;
}

type ReadOptions = KeyBounds & { snapshot?: SimulatedSnapshot };
type WriteOptions = { sync?: boolean };

class SimulatedSnapshot {
  readonly table: SortedTable;

  constructor(table: SortedTable) {
    this.table = table;
  }

  async close(): Promise<void> {}
}

/** Iterates over what was there when it was made. */
class SimulatedIterator<T> {
  readonly #disk: LevelDisk;
  readonly #left: T[];

  constructor(disk: LevelDisk, found: T[]) {
    this.#disk = disk;
    this.#left = found;
  }

  async nextv(most: number): Promise<T[]> {
    const run = this.#left.splice(0, most);
    await this.#disk.read();
    return run;
  }

  all(): Promise<T[]> {
    return this.nextv(Infinity);
  }

  async close(): Promise<void> {
    this.#left.length = 0;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    for (let run = await this.nextv(100); run.length > 0; run = await this.nextv(100)) yield* run;
  }
}

class SimulatedBatch {
  readonly #disk: LevelDisk;
  readonly #changes: Change[] = [];

  constructor(disk: LevelDisk) {
    this.#disk = disk;
  }

  get length(): number {
    return this.#changes.length;
  }

  put(key: Buffer, value: Buffer): this {
    // The caller may use its buffers again.
    this.#changes.push([latin1(key), Buffer.from(value)]);
    return this;
  }

  del(key: Buffer): this {
    this.#changes.push([latin1(key), undefined]);
    return this;
  }

  async write({ sync = false }: WriteOptions = {}): Promise<void> {
    if (this.#changes.length > 0) await this.#disk.write(this.#changes, sync);
  }

  async close(): Promise<void> {}
}

export class SimulatedLevel {
  readonly location = 'simulated';
  readonly #disk: LevelDisk;

  constructor(disk: LevelDisk) {
    this.#disk = disk;
  }

  get table(): SortedTable {
    return this.#disk.table;
  }

  /** The relay uses what is here, and nothing else of LevelDB: another call throws. */
  asLevel(): Level {
    return this as unknown as Level;
  }

  async get(key: Buffer): Promise<Buffer | undefined> {
    const value = this.table.get(latin1(key));
    await this.#disk.read();
    return value;
  }

  getSync(key: Buffer): Buffer | undefined {
    return this.table.get(latin1(key));
  }

  async getMany(keys: readonly Buffer[]): Promise<(Buffer | undefined)[]> {
    const values = keys.map((key) => this.table.get(latin1(key)));
    await this.#disk.read();
    return values;
  }

  put(key: Buffer, value: Buffer, options?: WriteOptions): Promise<void> {
    return this.batch().put(key, value).write(options);
  }

  del(key: Buffer, options?: WriteOptions): Promise<void> {
    return this.batch().del(key).write(options);
  }

  batch(): SimulatedBatch {
    return new SimulatedBatch(this.#disk);
  }

  iterator(options: ReadOptions = {}): SimulatedIterator<[Buffer, Buffer]> {
    const table = options.snapshot?.table ?? this.table;
    const pairs = table.keysIn(options).map((key): [Buffer, Buffer] => [Buffer.from(key, 'latin1'), table.get(key)!]);
    return new SimulatedIterator(this.#disk, pairs);
  }

  keys(options: ReadOptions = {}): SimulatedIterator<Buffer> {
    const table = options.snapshot?.table ?? this.table;
    return new SimulatedIterator(
      this.#disk,
      table.keysIn(options).map((key) => Buffer.from(key, 'latin1')),
    );
  }

  snapshot(): SimulatedSnapshot {
    return new SimulatedSnapshot(this.table.copy());
  }

  compactRange(): Promise<void> {
    return this.#disk.read();
  }

  async approximateSize(): Promise<number> {
    await this.#disk.read();
    return 0;
  }

  async close(): Promise<void> {
    await this.#disk.read();
  }
}
