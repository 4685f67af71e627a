/** What a replay of the log makes of its hash trees, in a database of its own under the keys of the store. */
import type { LogEntry } from '../core/event.ts';
import type { BulkDatabase } from './bulk.ts';
import type { Level } from './level.ts';
import { Growth, storedLeafHashes, treeStarts } from './log-tree.ts';
import { DamagedRecord } from './record.ts';
import { ReplayFailed } from './replay.ts';
import { TreeEdge } from './tree-edge.ts';

export class ReplayedTree {
  readonly #database: BulkDatabase;
  readonly #growth = new Growth(undefined, new TreeEdge());

  /** Whoever replays flushes the database. */
  constructor(database: BulkDatabase) {
    this.#database = database;
  }

  /**
   * Takes the hashes of the records up to `throughLsn`, which were pruned, out of the tiles of `level`. Whether those are
   * right is seen by what is made of them: the tiles above, the first leaf of the next tree, the last root. Throws
   * `DamagedRecord`.
   */
  async takePruned(level: Level, throughLsn: number): Promise<void> {
    if (throughLsn === 0) return;
    const starts = await treeStarts(level);
    if (starts[0]?.firstLsn !== 1) throw new DamagedRecord('a part of the hash tree is missing');
    for (const [at, start] of starts.entries()) {
      if (start.firstLsn > throughLsn) return;
      const last = Math.min(throughLsn, (starts[at + 1]?.firstLsn ?? Number.POSITIVE_INFINITY) - 1);
      this.#growth.beginPruned(start);
      for await (const hash of storedLeafHashes(level, start, start.firstLsn, last)) {
        this.#growth.addHash(hash);
        this.#write();
        if (this.#database.isFull) await this.#database.flush();
      }
    }
  }

  /** Adds the record of `entry`, as it is stored. Throws `ReplayFailed`. */
  add(entry: LogEntry, record: Buffer): void {
    if (this.#growth.starts.length === 0 && entry.event.type !== 'RelayInitialised') {
      throw new ReplayFailed('the first record of a store says which store it is');
    }
    this.#growth.add(entry, record);
    this.#write();
  }

  /** Leaves of the last tree. */
  get size(): number {
    return this.#growth.edge.size;
  }

  /** Of the last tree. */
  get root(): Buffer {
    return this.#growth.edge.root();
  }

  #write(): void {
    for (const [key, value] of this.#growth.writes.splice(0)) this.#database.put(key, value);
  }
}
