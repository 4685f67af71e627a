/**
 * Brings the queues of rotated keys over to the keys that took their place, a slice at a time beside other commits.
 *
 * The rotation itself is one event of fixed size. Its items follow in events of their own, so that a full queue holds
 * the loop no longer than a few; whatever concerns either key waits (`under`) until the last item has arrived and is
 * durable. A crash in between leaves the rest for the next start.
 *
 * Where a row cannot be read the move ends, and whatever concerns either key fails from then on: an item that came to
 * the new key now would get a place behind those that are still to come, and its reader would pass over them. After a
 * rebuild of the rows the next start moves the rest.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import { MOVED_AT_ONCE, decideMove } from '../core/decide-rotation.ts';
import { targetRow } from '../core/facts.ts';
import type { RelayStore } from '../store/relay-store.ts';
import type { Committer } from './committer.ts';
import { Portion, Stretch } from './stretch.ts';

/** Rows looked up in the store at a time: decoding them holds the loop for about 2 ms. */
const READ_ROWS = 3 * MOVED_AT_ONCE;

export interface MovesOptions {
  store: RelayStore;
  committer: Committer;
  monotonicMs: () => number;
}

export class Moves {
  readonly #options: MovesOptions;
  readonly #running = new Map<PublicKey, Promise<void>>();

  constructor(options: MovesOptions) {
    this.#options = options;
  }

  /** What a command for these queues waits for. */
  under(targets: readonly PublicKey[]): Promise<void> | undefined {
    if (this.#running.size === 0) return undefined;
    for (const target of targets) {
      const move = this.#running.get(target);
      if (move) return move;
    }
    return undefined;
  }

  /** Moves what is left of a rotated key's queue, if anything is. Resolves when it is durable. Throws `StoreFailed`. */
  begin(oldPubkey: PublicKey, nowMs: number): Promise<void> {
    const row = this.#options.committer.get('move', oldPubkey);
    if (!row) return Promise.resolve();
    const keys = [oldPubkey, row.newPubkey];
    const move = this.#move(oldPubkey, nowMs);
    for (const key of keys) this.#running.set(key, move);
    move.then(
      () => {
        for (const key of keys) this.#running.delete(key);
      },
      // Whoever waits is told; a move that nobody waits for must not end the process by itself.
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
    const stretch = new Stretch(monotonicMs);
    const portion = new Portion(MOVED_AT_ONCE, monotonicMs);
    let seqs: number[] = [];
    for (let after = ackedThrough; ; ) {
      if (seqs.length === 0) seqs = (await store.queueRows(oldPubkey, after, headSeq, READ_ROWS)).map(({ seq }) => seq);
      while (committer.isFull) await committer.room();
      const move = committer.get('move', oldPubkey);
      if (!move) break;
      const fromSeqs = seqs.splice(0, portion.size);
      portion.run(() => committer.admit(decideMove({ type: 'MoveItems', oldPubkey, fromSeqs, nowMs }, move).events));
      after = fromSeqs.at(-1) ?? after;
      if (stretch.isOver) await stretch.pause();
    }
    await committer.durable();
  }
}
