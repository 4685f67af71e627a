/**
 * What becomes of waiting items whose wire bytes are not those that were accepted, whoever finds them: each leaves its
 * queue and what is known of it, a new epoch begins, and its sender pushes it again (design/protocol.md §5).
 */
import type { Epoch } from '../../protocol/epoch.ts';
import type { QueueRow } from '../core/rows.ts';
import type { WireDamage } from '../store/wire-check.ts';
import type { Clock } from './ambient.ts';
import type { Engine } from './engine.ts';

/** Reported together: deciding them holds the loop for a few milliseconds. */
const REPORTED_AT_ONCE = 100;

/** Who looked at the bytes. */
export type LostFinder = 'pull' | 'scrub' | 'backup';

export interface LostItemsOptions {
  engine: Engine;
  clock: Clock;
  newEpoch: () => Epoch;
  /** Told of items that were lost, when that is durable. */
  lost: (items: number, foundBy: LostFinder) => void;
  /** Told of rows that cannot be read: what they were is not known, so nothing can be done about them here. */
  unreadable: (rows: number, foundBy: LostFinder) => void;
}

export class LostItems {
  readonly #options: LostItemsOptions;

  constructor(options: LostItemsOptions) {
    this.#options = options;
  }

  /**
   * Reports those of `rows` that still wait: hosts see one new epoch for all that are committed in one batch. Answers
   * how many those were. Throws `StoreFailed`.
   */
  async report(rows: readonly Pick<QueueRow, 'targetPubkey' | 'seq'>[], foundBy: LostFinder): Promise<number> {
    let items = 0;
    for (let at = 0; at < rows.length; at += REPORTED_AT_ONCE) {
      items += await this.#reportTogether(rows.slice(at, at + REPORTED_AT_ONCE));
    }
    if (items > 0) this.#options.lost(items, foundBy);
    return items;
  }

  /** Reports what was found in the snapshot of which a backup is made. Throws `StoreFailed`. */
  async foundByBackup({ places, unreadable }: WireDamage): Promise<void> {
    this.tellUnreadable(unreadable, 'backup');
    await this.report(places, 'backup');
  }

  tellUnreadable(rows: number, foundBy: LostFinder): void {
    if (rows > 0) this.#options.unreadable(rows, foundBy);
  }

  async #reportTogether(rows: readonly Pick<QueueRow, 'targetPubkey' | 'seq'>[]): Promise<number> {
    const { engine, clock, newEpoch } = this.#options;
    const nowMs = clock.nowMs();
    const waited = await Promise.all(
      rows.map(({ targetPubkey, seq }) =>
        engine.reportLostItem({ type: 'ReportLostItem', targetPubkey, seq, freshEpoch: newEpoch(), nowMs }),
      ),
    );
    return waited.filter(Boolean).length;
  }
}
