/** What a replay of the log makes of its hash trees, in a database of its own under the keys of the store. */
import type { LogEntry } from '../core/event.ts';
import type { BulkDatabase } from './bulk.ts';
import { Growth } from './log-tree.ts';
import { ReplayFailed } from './replay.ts';
import { TreeEdge } from './tree-edge.ts';

export class ReplayedTree {
  readonly #database: BulkDatabase;
  readonly #growth = new Growth(undefined, new TreeEdge());

  /** Whoever replays flushes the database. */
  constructor(database: BulkDatabase) {
    this.#database = database;
  }

  /** Adds the record of `entry`, as it is stored. Throws `ReplayFailed`. */
  add(entry: LogEntry, record: Buffer): void {
    if (this.#growth.starts.length === 0 && entry.event.type !== 'RelayInitialised') {
      throw new ReplayFailed('the first record of a store says which store it is');
    }
    this.#growth.add(entry, record);
    for (const [key, value] of this.#growth.writes.splice(0)) this.#database.put(key, value);
  }

  /** Leaves of the last tree. */
  get size(): number {
    return this.#growth.edge.size;
  }

  /** Of the last tree. */
  get root(): Buffer {
    return this.#growth.edge.root();
  }
}
