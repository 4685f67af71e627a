/** Decides the ends of store generations: on request, and when a queued item turns out to be lost. */
import type { ReportLostItem, RotateEpoch } from './command.ts';
import { type Decided, type Done, type EpochOutcome, decided } from './decision.ts';
import type { ItemLost } from './event.ts';
import type { LostItemFacts } from './facts.ts';
import type { QueueRow } from './rows.ts';

export function decideRotateEpoch(command: RotateEpoch): Decided<EpochOutcome> {
  const { epoch, reason, nowMs } = command;
  return decided({ type: 'EpochBegun', epoch }, { type: 'EpochRotated', epoch, reason, atMs: nowMs });
}

/**
 * Its sender pushes again in the new epoch; an item that is gone by now was not lost. No sender can push a lost notice
 * again, so it is dropped and the epoch goes on.
 */
export function decideLostItem(command: ReportLostItem, facts: LostItemFacts): Decided<Done> {
  const done: Done = { type: 'Done' };
  const { queued, account } = facts;
  if (!queued) return decided(done);
  const { freshEpoch, nowMs: atMs } = command;
  const lost = itemLost(queued, account, 'corrupt', atMs);
  if (queued.kind === 'expired') return decided(done, lost);
  return decided(done, lost, { type: 'EpochRotated', epoch: freshEpoch, reason: 'item-lost', atMs });
}

export function itemLost(queued: QueueRow, account: string | null, reason: ItemLost['reason'], atMs: number): ItemLost {
  const { targetPubkey, seq, kind, senderPubkey, itemId, payloadTarget: pushedTo, bytes } = queued;
  return { type: 'ItemLost', targetPubkey, seq, kind, senderPubkey, itemId, pushedTo, bytes, account, reason, atMs };
}
