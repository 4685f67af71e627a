/**
 * Handles waiting items whose wire bytes are missing or altered, for pulls, scrub and backups alike: each leaves its
 * queue and the dedup rows, a new epoch begins, and its sender pushes it again ("Restore and doubt", rule 4).
 */
import type { Epoch } from '../../protocol/epoch.ts';
import type { QueueRow } from '../core/rows.ts';
import type { WireDamage } from '../store/wire-check.ts';
import type { Clock } from '../../lib/clock.ts';
import { type ItemPlace, repairFromCopies } from './copy-repair.ts';
import type { Engine } from './engine.ts';
import { isRowFault } from './queue-faults.ts';

/** Reported together: deciding them holds the event loop for a few milliseconds. */
const REPORTED_AT_ONCE = 100;

export type LostFinder = 'pull' | 'scrub' | 'backup';

interface LostItemsOptions {
  engine: Engine;
  clock: Clock;
  newEpoch: () => Epoch;
  /**
   * Wire bytes as another copy of the log has them; absent where there is no other. What it rejects for is not called
   * lost: it is asked again when the item is found again.
   */
  otherCopies?: ((rows: readonly QueueRow[]) => Promise<(Buffer | undefined)[]>) | undefined;
  /** Called when items are whole again. */
  onRepaired?: (items: number, foundBy: LostFinder) => void;
  /** Called when the loss of items is durable. */
  onLost: (items: number, foundBy: LostFinder) => void;
  /** Called for rows that cannot be read: which items they were is unknown, so nothing can be done about them here. */
  onUnreadable: (rows: number, foundBy: LostFinder) => void;
}

export class LostItems {
  readonly #options: LostItemsOptions;

  constructor(options: LostItemsOptions) {
    this.#options = options;
  }

  /**
   * Reports those of `rows` that still wait, and returns how many those were: hosts see one new epoch for all that are
   * committed in one batch. Throws `StoreFailed`. A queue whose rows are at fault, or that needs a damaged row, keeps
   * its lost items: a pull of it throws `BrokenQueue` or `DamagedRow`, and a walk over all queues goes on.
   */
  async report(rows: readonly ItemPlace[], foundBy: LostFinder): Promise<number> {
    let items = 0;
    for (let at = 0; at < rows.length; at += REPORTED_AT_ONCE) {
      const left = await this.#withoutCopy(rows.slice(at, at + REPORTED_AT_ONCE), foundBy);
      items += await this.#reportTogether(left, foundBy);
    }
    if (items > 0) this.#options.onLost(items, foundBy);
    return items;
  }

  /** Reports the damage found in the snapshot of a backup. Throws `StoreFailed`. */
  async foundByBackup({ places, unreadable }: WireDamage): Promise<void> {
    this.reportUnreadable(unreadable, 'backup');
    await this.report(places, 'backup');
  }

  reportUnreadable(rows: number, foundBy: LostFinder): void {
    if (rows > 0) this.#options.onUnreadable(rows, foundBy);
  }

  /** Those that no other copy of the log can make whole. */
  async #withoutCopy(places: readonly ItemPlace[], foundBy: LostFinder): Promise<readonly ItemPlace[]> {
    const { engine, otherCopies, onRepaired } = this.#options;
    if (!otherCopies) return places;
    const { repaired, left } = await repairFromCopies(places, {
      queued: (target, seq) => engine.lost.queued(target, seq),
      wireBytes: otherCopies,
      repair: (items) => engine.lost.repair(items),
    });
    if (repaired > 0) onRepaired?.(repaired, foundBy);
    return left;
  }

  async #reportTogether(rows: readonly ItemPlace[], foundBy: LostFinder): Promise<number> {
    const { engine, clock, newEpoch } = this.#options;
    const nowMs = clock.nowMs();
    const reports = await Promise.allSettled(
      rows.map(({ targetPubkey, seq }) =>
        engine.lost.report({ type: 'ReportLostItem', targetPubkey, seq, freshEpoch: newEpoch(), nowMs }),
      ),
    );
    let waited = 0;
    for (const report of reports) {
      if (report.status === 'fulfilled') waited += report.value ? 1 : 0;
      else if (foundBy === 'pull' || !isRowFault(report.reason)) throw report.reason;
    }
    return waited;
  }
}
