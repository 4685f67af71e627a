/**
 * Delivery receipts: which one is issued next, and which of two counts.
 *
 * Specification, "Delivery receipt states": applied by state rank, then seq, so that repeats are harmless. A seq is
 * never used twice for one (message, recipient), also not by a host that was restored from a copy. Pure.
 */
import { DELIVERY_STATES, type DeliveryState } from '../../protocol/documents.ts';
import type { ReceiptRow, RecipientState, SentRecipient, SentStep } from './rows.ts';

/** 1 to 4 for the states of a receipt, 0 for states that come without one. */
export function deliveryRank(state: RecipientState): number {
  return (DELIVERY_STATES as readonly RecipientState[]).indexOf(state) + 1;
}

export interface ReceiptClock {
  nowMs: number;
  /** No seq is below this: set by a restore. */
  floor: number;
}

/**
 * The next receipt, for `state`; undefined when `last` already has that state or a higher one. Its seq counts up from
 * the milliseconds of the first one.
 */
export function nextReceipt(
  last: ReceiptRow | undefined,
  state: DeliveryState,
  { nowMs, floor }: ReceiptClock,
): ReceiptRow | undefined {
  if (last && deliveryRank(last.state) >= deliveryRank(state)) return undefined;
  return { seq: Math.max(last ? last.seq + 1 : nowMs, floor), state, atMs: nowMs };
}

/** The state of `last` under the next seq: for a sender that proves not to know it. */
export function repeatedReceipt(last: ReceiptRow, { nowMs, floor }: ReceiptClock): ReceiptRow {
  return { seq: Math.max(last.seq + 1, floor), state: last.state, atMs: nowMs };
}

/** Whether a receipt moves a recipient that is known to be in `state` by the receipt `seq`. */
export function movesRecipient(
  known: { state: RecipientState; seq: number },
  receipt: { state: DeliveryState; seq: number },
): boolean {
  const step = deliveryRank(receipt.state) - deliveryRank(known.state);
  return step > 0 || (step === 0 && receipt.seq > known.seq);
}

/** At most this many states of a recipient are kept, the newest: others must not be able to make the row grow. */
export const SENT_STEPS_MAX = 20;

/** The recipient in its new state. The same state again replaces the last step. */
export function withStep(
  known: SentRecipient,
  { seq = known.seq, state, atMs }: SentStep & { seq?: number },
): SentRecipient {
  const before = known.steps.at(-1)?.state === state ? known.steps.slice(0, -1) : known.steps;
  return { ...known, state, atMs, seq, steps: [...before, { state, atMs }].slice(-SENT_STEPS_MAX) };
}
