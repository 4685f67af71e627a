/**
 * What a command at a queue waits for before it can be decided: no key rotation is moving the queue's items, and, for
 * commands about a range of items, the index of the queue is in memory.
 *
 * Every wait ends in `StoreFailed` (the relay is ending) or `BrokenQueue` (the rows of this queue are at fault) when it
 * fails.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { QueueIndex } from '../core/queue-index.ts';
import type { QueueFaults } from './queue-faults.ts';
import type { QueueIndexes } from './queue-indexes.ts';
import type { QueueMigrations } from './queue-migrations.ts';

interface QueueReadinessOptions {
  indexes: QueueIndexes;
  migrations: QueueMigrations;
  faults: QueueFaults;
}

export class QueueReadiness {
  readonly #options: QueueReadinessOptions;

  constructor(options: QueueReadinessOptions) {
    this.#options = options;
  }

  /**
   * The work that a command for these queues waits for; `undefined` when there is none, and the command is to be
   * decided at once: during an await the load of an index could begin that never sees the command's items.
   */
  waitFor(targets: readonly PublicKey[]): Promise<void> | undefined {
    const { indexes, migrations, faults } = this.#options;
    for (const target of targets) {
      const work = migrations.pendingFor(target) ?? indexes.loading(target);
      if (work) return faults.at(target, work);
    }
    return undefined;
  }

  /** Resolves when no item of the queue is on its way from one key to another. */
  async migrated(target: PublicKey): Promise<void> {
    const { migrations, faults } = this.#options;
    for (let work = migrations.pendingFor(target); work; work = migrations.pendingFor(target)) {
      await faults.at(target, work);
    }
  }

  index(target: PublicKey): QueueIndex | undefined {
    return this.#options.indexes.get(target);
  }

  /** Loads the index of `target`. Another load may have removed it again by the time the caller looks. */
  async loadIndex(target: PublicKey): Promise<void> {
    const { indexes, faults } = this.#options;
    await faults.at(target, indexes.load(target));
  }
}
