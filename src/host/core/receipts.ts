/**
 * Delivery receipts: which one is issued next, and which of two counts.
 *
 * Specification, "Delivery receipt states": applied by state rank, then seq, so that repeats are harmless. A seq is
 * never used twice for one (message, recipient), also not by a host that was restored from a copy. Pure.
 */
import { DELIVERY_STATES, type DeliveryState } from '../../protocol/documents.ts';
import type { ReceiptRow, RecipientState } from './rows.ts';

/** 1 to 4 for the states of a receipt, 0 for everything that was said without one. */
export function deliveryRank(state: RecipientState): number {
  return (DELIVERY_STATES as readonly RecipientState[]).indexOf(state) + 1;
}

export interface ReceiptClock {
  nowMs: number;
  /** No seq is below this: set by a restore. */
  floor: number;
}

/**
 * The receipt that says `state` after `last`; undefined when `last` said as much. Its seq counts up from the
 * milliseconds of the first one.
 */
export function nextReceipt(
  last: ReceiptRow | undefined,
  state: DeliveryState,
  { nowMs, floor }: ReceiptClock,
): ReceiptRow | undefined {
  if (last && deliveryRank(last.state) >= deliveryRank(state)) return undefined;
  return { seq: Math.max(last ? last.seq + 1 : nowMs, floor), state, atMs: nowMs };
}

/** What `last` said, said again: for a sender that shows that it does not know. */
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
