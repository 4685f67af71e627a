/**
 * Moves the queues of rotated keys to the keys that replaced them, a slice at a time beside other commits.
 *
 * The rotation itself is one event of fixed size. Its items follow in events of their own, so that a full queue holds
 * the event loop no longer than a few items; commands for either key wait (`pendingFor`) until the last item has
 * arrived and is durable. A crash in between leaves the rest for the next start.
 *
 * Where a row cannot be read the move ends, and commands for either key are refused from then on: an item pushed to the
 * new key now would get a seq below those that are still to come, and its reader would skip them. After a rebuild of
 * the rows the next start moves the rest.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import { MOVED_AT_ONCE, decideMove } from '../core/decide-rotation.ts';
import { targetRow } from '../core/facts.ts';
import type { RelayStore } from '../store/relay-store.ts';
import type { Committer } from './committer.ts';
import type { QueueFaults } from './queue-faults.ts';
import { AdaptiveBatch, TimeSlice } from './time-slice.ts';

/** Rows looked up in the store at a time: decoding them holds the loop for about 2 ms. */
const READ_ROWS = 3 * MOVED_AT_ONCE;

interface QueueMigrationsOptions {
  store: RelayStore;
  committer: Committer;
  monotonicMs: () => number;
  faults: QueueFaults;
}

export class QueueMigrations {
  readonly #options: QueueMigrationsOptions;
  readonly #running = new Map<PublicKey, Promise<void>>();

  constructor(options: QueueMigrationsOptions) {
    this.#options = options;
  }

  pendingFor(target: PublicKey): Promise<void> | undefined {
    return this.#running.get(target);
  }

  /** Moves what is left of a rotated key's queue, if anything is. Resolves when it is durable. Throws `StoreFailed`. */
  begin(oldPubkey: PublicKey, nowMs: number): Promise<void> {
    const row = this.#options.committer.get('move', oldPubkey);
    if (!row) return Promise.resolve();
    const keys = [oldPubkey, row.newPubkey];
    const move = this.#options.faults.at(oldPubkey, this.#move(oldPubkey, nowMs));
    for (const key of keys) this.#running.set(key, move);
    move.then(
      () => {
        for (const key of keys) this.#running.delete(key);
      },
      // Commands that wait get the error; a move without one must not end the process.
      () => undefined,
    );
    return move;
  }

  /** Resolves when no move is under way any more, also when one failed. */
  async ended(): Promise<void> {
    await Promise.allSettled(this.#running.values());
  }

  async #move(oldPubkey: PublicKey, nowMs: number): Promise<void> {
    const { store, committer, monotonicMs } = this.#options;
    await committer.durable();
    const { headSeq, ackedThrough } = targetRow(committer, oldPubkey);
    const slice = new TimeSlice(monotonicMs);
    const batch = new AdaptiveBatch(MOVED_AT_ONCE, monotonicMs);
    let seqs: number[] = [];
    for (let after = ackedThrough; ; ) {
      if (seqs.length === 0) seqs = (await store.queueRows(oldPubkey, after, headSeq, READ_ROWS)).map(({ seq }) => seq);
      while (committer.isFull) await committer.room();
      const move = committer.get('move', oldPubkey);
      if (!move) break;
      const fromSeqs = seqs.splice(0, batch.size);
      batch.run(() => committer.admit(decideMove({ type: 'MoveItems', oldPubkey, fromSeqs, nowMs }, move).events));
      after = fromSeqs.at(-1) ?? after;
      if (slice.isOver) await slice.pause();
    }
    await committer.durable();
  }
}
