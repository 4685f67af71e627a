/**
 * Decides what an ack releases.
 *
 * Invariants ("POST /v2/relay/ack"): `acked_through` never goes back, never passes the head, and is only moved in the
 * epoch its caller knows. An ack that says nothing new changes nothing.
 */
import type { AckItems } from './command.ts';
import { type AckOutcome, type Decided, type Refusal, decided, refusal } from './decision.ts';
import type { AckFacts } from './facts.ts';

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
  const outcome: AckOutcome = {
    type: 'Acked',
    ackedThrough: released.through,
    deleted: released.items + released.notices,
    headSeq,
  };
  return decided(outcome, { type: 'ItemsAcked', targetPubkey, ...released, account, atMs: command.nowMs });
}
