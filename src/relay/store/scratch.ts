/**
 * The pairs of an audit, which nothing outlives: in memory, sorted when they are read, and in a temporary database as
 * soon as they are more than memory is meant for. A replay writes most of them once and reads few of them again, so
 * that a database for all of them would take most of its time.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Pair } from '../../lib/pair-block.ts';
import { BulkDatabase } from './bulk-database.ts';
import { HeldPairs, type HeldRange, type HeldWalk, PAIRS_MAX } from './held-pairs.ts';
import { runsOf } from './scan.ts';

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
