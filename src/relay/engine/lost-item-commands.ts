/** What the engine does with an item whose wire bytes this node lost, as LostItems (lost-items.ts) decides. */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { ReportLostItem } from '../core/command.ts';
import { decideLostItem } from '../core/decide-log.ts';
import { type QueueRow, rowKey } from '../core/rows.ts';
import { type RepairedItem, repairedPayload } from './copy-repair.ts';
import type { EngineParts } from './parts.ts';

export class LostItemCommands {
  readonly #parts: EngineParts;

  constructor(parts: EngineParts) {
    this.#parts = parts;
  }

  /** Returns whether the item still waited: one that is gone by now was not lost. */
  async report(command: ReportLostItem): Promise<boolean> {
    const { committer, queues } = this.#parts;
    const { targetPubkey } = command;
    for (let wait = queues.waitFor([targetPubkey]); wait; wait = queues.waitFor([targetPubkey])) await wait;
    const decision = decideLostItem(command, committer);
    await committer.answer(decision);
    return decision.events.length > 0;
  }

  /** The row of an item that waits; `undefined` when it is gone. Throws `DamagedRow`. */
  queued(target: PublicKey, seq: number): QueueRow | undefined {
    return this.#parts.committer.get('queue', rowKey.queue(target, seq));
  }

  /** Puts wire bytes back at the places of their items; durable when it resolves. */
  async repair(items: readonly RepairedItem[]): Promise<void> {
    this.#parts.committer.repair(items.map(repairedPayload));
    await this.#parts.committer.durable();
  }
}
