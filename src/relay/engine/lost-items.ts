/**
 * What becomes of waiting items whose wire bytes are not those that were accepted, whoever finds them: each leaves its
 * queue and what is known of it, a new epoch begins, and its sender pushes it again (design/protocol.md §5).
 */
import type { Epoch } from '../../protocol/epoch.ts';
import type { QueueRow } from '../core/rows.ts';
import type { Clock } from './ambient.ts';
import type { Engine } from './engine.ts';

/** Who looked at the bytes. */
export type LostFinder = 'pull' | 'scrub' | 'backup';

export interface LostItemsOptions {
  engine: Engine;
  clock: Clock;
  newEpoch: () => Epoch;
  /** Told of items that were lost, when that is durable. */
  lost: (items: number, foundBy: LostFinder) => void;
}

export class LostItems {
  readonly #options: LostItemsOptions;

  constructor(options: LostItemsOptions) {
    this.#options = options;
  }

  /**
   * Reports those of `rows` that still wait, together: hosts see one new epoch for what is committed in one batch.
   * Answers how many those were. Throws `StoreFailed`.
   */
  async report(rows: readonly Pick<QueueRow, 'targetPubkey' | 'seq'>[], foundBy: LostFinder): Promise<number> {
    const { engine, clock, newEpoch, lost } = this.#options;
    const nowMs = clock.nowMs();
    const waited = await Promise.all(
      rows.map(({ targetPubkey, seq }) =>
        engine.reportLostItem({ type: 'ReportLostItem', targetPubkey, seq, freshEpoch: newEpoch(), nowMs }),
      ),
    );
    const items = waited.filter(Boolean).length;
    if (items > 0) lost(items, foundBy);
    return items;
  }
}
