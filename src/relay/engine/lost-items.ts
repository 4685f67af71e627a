/**
 * Handles waiting items whose wire bytes are missing or altered, for pulls, scrub and backups alike: each leaves its
 * queue and the dedup rows, a new epoch begins, and its sender pushes it again ("Restore and doubt", rule 4).
 */
import type { Epoch } from '../../protocol/names.ts';
import { type QueueRow, afterLooks, rowKey } from '../core/rows.ts';
import type { WireDamage } from '../store/wire-check.ts';
import type { Clock } from '../../lib/clock.ts';
import { isRowFault } from './queues.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { ReportLostItem } from '../core/command.ts';
import { decideLostItem } from '../core/decide-log.ts';
import type { EngineParts } from './parts.ts';
import { hasHash } from '../../protocol/encodings.ts';
import type { Payload } from '../store/durable-log.ts';

/** Reported together: deciding them holds the event loop for a few milliseconds. */
const REPORTED_AT_ONCE = 100;

export type LostFinder = 'pull' | 'scrub' | 'backup';

interface LostItemsOptions {
  engine: { readonly lost: LostItemCommands };
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
    await engine.lost.find(rows);
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

/** Carries out what `LostItems` decides of an item whose wire bytes this node lost. */
export class LostItemCommands {
  readonly #parts: EngineParts;

  constructor(parts: EngineParts) {
    this.#parts = parts;
  }

  /** To be called before these are reported: each of their runs is looked for once, and they come in one batch. */
  async find(places: readonly ItemPlace[]): Promise<void> {
    for (const target of new Set(places.map(({ targetPubkey }) => targetPubkey))) {
      const seqs = places.flatMap(({ targetPubkey, seq }) => (targetPubkey === target ? seq : []));
      await this.#parts.store.findRows(
        target,
        seqs.toSorted((a, b) => a - b),
      );
    }
  }

  /** Returns whether the item still waited: one that is gone by now was not lost. */
  async report(command: ReportLostItem): Promise<boolean> {
    const { committer, queues } = this.#parts;
    const { targetPubkey } = command;
    const decision = await afterLooks(async () => {
      for (let wait = queues.waitFor([targetPubkey]); wait; wait = queues.waitFor([targetPubkey])) await wait;
      const decided = decideLostItem(command, committer);
      committer.admit(decided.events);
      return decided;
    });
    await committer.durable();
    return decision.events.length > 0;
  }

  /** The row of an item that waits; `undefined` when it is gone. Throws `DamagedRow`. */
  queued(target: PublicKey, seq: number): Promise<QueueRow | undefined> {
    return afterLooks(() => this.#parts.committer.get('queue', rowKey.queue(target, seq)));
  }

  /** Puts wire bytes back at the places of their items; durable when it resolves. */
  async repair(items: readonly RepairedItem[]): Promise<void> {
    this.#parts.committer.add({ repaired: items.map(repairedPayload) });
    await this.#parts.committer.durable();
  }
}

export type ItemPlace = Pick<QueueRow, 'targetPubkey' | 'seq'>;

export interface RepairedItem {
  row: QueueRow;
  wire: Buffer;
}

export function repairedPayload({ row: { payloadTarget, payloadSeq, payloadBound }, wire }: RepairedItem): Payload {
  return { targetPubkey: payloadTarget, seq: payloadSeq, bound: payloadBound, wire };
}

interface Copies {
  /** The row of an item that waits; `undefined` when it is gone. */
  queued: (target: PublicKey, seq: number) => Promise<QueueRow | undefined>;
  /** The wire bytes of rows, as another copy has them. */
  wireBytes: (rows: readonly QueueRow[]) => Promise<(Buffer | undefined)[]>;
  /** Puts wire bytes back at the places of their items. */
  repair: (items: readonly RepairedItem[]) => Promise<void>;
}

/**
 * Makes waiting items whole whose wire bytes this node lost or altered, from another copy of the log. Returns how many
 * are whole again, and those of which no copy has the bytes. A copy that cannot be asked now says nothing about any:
 * they are asked for again when they are found again.
 */
export async function repairFromCopies(
  places: readonly ItemPlace[],
  { queued, wireBytes, repair }: Copies,
): Promise<{ repaired: number; left: QueueRow[] }> {
  const rows: QueueRow[] = [];
  for (const { targetPubkey, seq } of places) {
    const row = await queued(targetPubkey, seq);
    if (row) rows.push(row);
  }
  if (rows.length === 0) return { repaired: 0, left: [] };
  const wires = await wireBytes(rows).catch(() => undefined);
  if (!wires) return { repaired: 0, left: [] };
  const whole: RepairedItem[] = [];
  const left: QueueRow[] = [];
  for (const [at, row] of rows.entries()) {
    const wire = wires[at];
    if (hasHash(wire, row.wireHash)) whole.push({ row, wire });
    else left.push(row);
  }
  if (whole.length > 0) await repair(whole);
  return { repaired: whole.length, left };
}
