/**
 * Acks, in steps where many senders are concerned. A crash between two steps leaves the released items released.
 *
 * Items that are acked after their retention time are kept known (`DedupExtended`) in the same batch as the ack.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { AckItems } from '../core/command.ts';
import type { AckOutcome, Refusal } from '../core/decision.ts';
import type { RelayEvent } from '../core/event.ts';
import type { Released } from '../core/queue-index.ts';
import type { EngineParts } from './parts.ts';
import { brokenQueueRefusal, isBrokenQueue } from './queue-faults.ts';
import { AdaptiveBatch, TimeSlice } from './time-slice.ts';
import { EXTENDED_AT_ONCE, decideAck, decideExtend } from '../core/decide-queue.ts';

const NOTHING: Released = { through: 0, items: 0, bytes: 0, notices: 0, shares: [] };
/** Senders whose shares one step releases: each is a row to read and to write. */
const ACK_SENDERS_MAX = 250;

export class Acks {
  readonly #parts: EngineParts;

  constructor(parts: EngineParts) {
    this.#parts = parts;
  }

  async ack(command: AckItems): Promise<AckOutcome | Refusal> {
    try {
      return await this.#ack(command);
    } catch (error) {
      if (!isBrokenQueue(error)) throw error;
      return this.#parts.committer.answer(brokenQueueRefusal());
    }
  }

  async #ack(command: AckItems): Promise<AckOutcome | Refusal> {
    const { committer, queues, monotonicMs } = this.#parts;
    const { targetPubkey, through, nowMs } = command;
    const slice = new TimeSlice(monotonicMs);
    const batch = new AdaptiveBatch(EXTENDED_AT_ONCE, monotonicMs);
    for (let deleted = 0; ; ) {
      await queues.migrated(targetPubkey);
      if (committer.isFull) {
        await committer.room();
        continue;
      }
      // What needs no look at the queue: the index of 10,000 items may have to be read for it.
      const early = decideAck(command, committer, NOTHING);
      if (early.type === 'Refusal' || early.outcome.ackedThrough >= through) return committer.answer(early);
      const index = queues.index(targetPubkey);
      if (!index) {
        await queues.loadIndex(targetPubkey);
        continue;
      }
      let released = index.released(through, ACK_SENDERS_MAX);
      const late = index.late(released.through, nowMs, batch.size);
      const lastLate = late.at(-1);
      if (lastLate !== undefined && late.length === batch.size) released = index.released(lastLate, ACK_SENDERS_MAX);
      const decision = decideAck(command, committer, released);
      if (decision.type === 'Refusal') return committer.answer(decision);
      // In one admission: where the queue is at fault, a retried ack must not extend the same items again and again.
      batch.run(() => committer.admit([...this.#extended(targetPubkey, late, nowMs), ...decision.events]));
      const { outcome } = decision;
      deleted += outcome.deleted;
      if (decision.events.length === 0 || outcome.ackedThrough >= through) {
        return committer.answer({ ...decision, events: [], outcome: { ...outcome, deleted } });
      }
      if (slice.isOver) await slice.pause();
    }
  }

  /** Items acked after their time stay known for the whole horizon from now on. */
  #extended(targetPubkey: PublicKey, seqs: number[], nowMs: number): readonly RelayEvent[] {
    if (seqs.length === 0) return [];
    const { committer, settings } = this.#parts;
    const command = { type: 'ExtendDedup', targetPubkey, seqs, nowMs } as const;
    return decideExtend(command, committer, settings).events;
  }
}
