/**
 * Decides what an ack releases.
 *
 * Invariants ("POST /v2/relay/ack"): `acked_through` never goes back, never passes the head, and is only moved in the
 * epoch its caller knows. An ack that says nothing new changes nothing, nor does one that releases nothing short of the
 * head: there are as many of those as milliseconds, and each would be a record that stays.
 */
import type { AckItems, ExtendDedup } from './command.ts';
import { type AckOutcome, type Decided, type Done, type Refusal, decided, refusal } from './decision.ts';
import type { AckFacts, ExtendFacts } from './facts.ts';

/** Dedup rows that one event extends: each is read and written. */
export const EXTENDED_AT_ONCE = 100;

export function decideAck(command: AckItems, facts: AckFacts): Decided<AckOutcome> | Refusal {
  const { through, targetPubkey } = command;
  const { headSeq, ackedThrough } = facts.queue;
  if (command.epoch !== facts.epoch) {
    return refusal('EPOCH_CHANGED', 'the store began a new epoch', { epoch: facts.epoch });
  }
  if (through > headSeq) {
    return refusal('BAD_ACK', 'through lies beyond the head', { head_seq: headSeq });
  }
  if (through <= ackedThrough) return decided<AckOutcome>({ type: 'Acked', ackedThrough, deleted: 0, headSeq });
  // An ack that releases the items of many senders is decided in steps; `released` says how far this one goes.
  const { released, account } = facts;
  if (released.items + released.notices === 0 && through < headSeq)
    return decided<AckOutcome>({ type: 'Acked', ackedThrough: through, deleted: 0, headSeq });
  const outcome: AckOutcome = {
    type: 'Acked',
    ackedThrough: released.through,
    deleted: released.items + released.notices,
    headSeq,
  };
  return decided(outcome, { type: 'ItemsAcked', targetPubkey, ...released, account, atMs: command.nowMs });
}

/** Before an ack of items whose deadline has passed. */
export function decideExtend({ targetPubkey, nowMs }: ExtendDedup, facts: ExtendFacts): Decided<Done> {
  const done: Done = { type: 'Done' };
  const items = facts.waiting
    .filter(({ kind }) => kind !== 'expired')
    .map(({ itemId, senderPubkey, payloadTarget: pushedTo }) => ({ itemId, senderPubkey, pushedTo }));
  if (items.length === 0) return decided(done);
  const dedupUntilMs = nowMs + facts.dedupHorizonMs;
  return decided(done, { type: 'DedupExtended', targetPubkey, items, dedupUntilMs, atMs: nowMs });
}
