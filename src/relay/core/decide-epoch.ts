/** Decides the ends of store generations: on request, and when a queued item turns out to be lost. */
import type { ReportLostItem, RotateEpoch } from './command.ts';
import { type Decided, type Done, type EpochOutcome, decided } from './decision.ts';
import type { LostItemFacts } from './facts.ts';

export function decideRotateEpoch(command: RotateEpoch): Decided<EpochOutcome> {
  const { epoch, reason, nowMs } = command;
  return decided({ type: 'EpochBegun', epoch }, { type: 'EpochRotated', epoch, reason, atMs: nowMs });
}

/** Its senders push again in the new epoch; an item that is gone by now was not lost. */
export function decideLostItem(command: ReportLostItem, facts: LostItemFacts): Decided<Done> {
  const done: Done = { type: 'Done' };
  const { queued, account } = facts;
  if (!queued) return decided(done);
  return decided(
    done,
    {
      type: 'ItemLost',
      targetPubkey: queued.targetPubkey,
      seq: queued.seq,
      senderPubkey: queued.senderPubkey,
      itemId: queued.itemId,
      pushedTo: queued.payloadTarget,
      bytes: queued.bytes,
      account,
      reason: 'corrupt',
      atMs: command.nowMs,
    },
    { type: 'EpochRotated', epoch: command.freshEpoch, reason: 'item-lost', atMs: command.nowMs },
  );
}
