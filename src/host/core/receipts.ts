/**
 * Delivery receipts of hosts and accept receipts of relays. Pure; the signature of an accept receipt is checked here.
 *
 * Specification, "Delivery receipt states": applied by state rank, then seq, so that repeats are harmless. A seq is
 * never used twice for one (message, recipient), also not by a host that was restored from a copy. "Sender outbox row
 * (relay path)", first line of the table: only a proof that the relay took it moves a row to relay-accepted.
 */
import type { Sha256Hex } from '../../protocol/encodings.ts';
import { canonicalBytes, type AcceptReceipt, DELIVERY_STATES, type DeliveryState } from '../../protocol/documents.ts';
import type { Epoch } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import {
  type ReceiptCheck,
  type ReceiptInTree,
  type ReceiptSignature,
  receiptCheck,
  receiptSignatureOf,
} from '../../protocol/receipt-tree.ts';
import { firstAcceptance, copyAt } from './outbox-row.ts';
import type { OutboxEvent } from './outbox-event.ts';
import type { ArrivalRow, OutboxRow, ReceiptRow, RecipientState, SentRecipient, SentStep } from './rows.ts';

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

/** A copy of a message that came over one of several relays. */
export interface RelayedCopy {
  relayPubkey: PublicKey;
  /** When that relay stored it at the latest, by this host's clock: a seq is no less than the relay's milliseconds. */
  storedAtMs: number;
}

/** The arrival of a message that this relay brought, too. */
export function noteBrought(arrival: ArrivalRow, relayPubkey: PublicKey): ArrivalRow {
  const known = relaysOfArrival(arrival);
  if (arrival.broughtBy && known.includes(relayPubkey)) return arrival;
  return { ...arrival, broughtBy: [...new Set([...known, relayPubkey])] };
}

/** The relays that brought a message, as far as this was recorded. */
export function relaysOfArrival({ broughtBy, relay }: ArrivalRow): readonly PublicKey[] {
  return broughtBy ?? (relay ? [relay.pubkey] : []);
}

/** The clock of a relay is measured as well as this. */
const MEASURED_WITHIN_MS = 5_000;

/** The last receipt for one recipient. */
interface LastReceipt {
  /** When it was issued, as the clock of now would have dated it. */
  atMs: number;
  /** Absent once it was handed over, or its time was up. */
  row: OutboxRow | undefined;
  /** The relays that it goes to. */
  goesTo: readonly PublicKey[];
}

/**
 * Says what a copy of a known message calls for: over the LAN or the only relay (`copy` is null) the receipt under the
 * next seq, unless the last one waits. Over one of several relays the last receipt goes there, too, the same bytes and
 * once. The next seq is for a copy that was stored after the last receipt was issued: others were on their way then,
 * and a relay that comes back with many of them costs no second receipt for any.
 */
export function answerToCopy(
  { atMs, row, goesTo }: LastReceipt,
  copy: RelayedCopy | null,
): 'nothing' | 'there-too' | 'next' {
  if (!copy) return row ? 'nothing' : 'next';
  const { relayPubkey, storedAtMs } = copy;
  if (row && !goesTo.includes(relayPubkey)) return 'there-too';
  if (row && copyAt(row, relayPubkey)?.state !== 'live') return 'nothing';
  return storedAtMs > atMs - MEASURED_WITHIN_MS ? 'next' : 'nothing';
}

/** Says whether a receipt moves a recipient that is known to be in `state` by the receipt `seq`. */
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

/** A state as the sender sees it. What is pending is `stored` in this host's outbox, or the relay has it. */
interface ShownStep {
  state: Exclude<RecipientState, 'pending'> | 'stored' | 'relay';
  atMs: number;
}

/**
 * The known steps as the sender sees them; the last is the present state. `relayAtMs`: when the relay took the message,
 * by this host's clock. That stands before every state that a receipt gave, whose times another clock made.
 */
export function shownSteps({ steps }: Pick<SentRecipient, 'steps'>, relayAtMs: number | null): ShownStep[] {
  const shown = steps.map(({ state, atMs }): ShownStep => ({ state: state === 'pending' ? 'stored' : state, atMs }));
  if (relayAtMs === null) return shown;
  const later = steps.findIndex(({ state, atMs }) => deliveryRank(state) > 0 || atMs > relayAtMs);
  return shown.toSpliced(later === -1 ? shown.length : later, 0, { state: 'relay', atMs: relayAtMs });
}

/** When a relay first took the item, as far as this host knows; null before that. */
export function relayTookAtMs(row: OutboxRow): number | null {
  return row.acceptance ? firstAcceptance(row, row.acceptance).atMs : (row.relayStoredAtMs ?? null);
}

/** The request to the relay, and to which one. */
export interface PushedRow {
  /** Pinned. */
  relayPubkey: PublicKey;
  /** The epoch of the answer that the receipt came in. */
  epoch: Epoch;
  /** The key that signed the hop. */
  senderPubkey: PublicKey;
  itemId: string;
  /** The key that the row was pushed to. */
  targetPubkey: PublicKey;
  wireHash: Sha256Hex;
}

const RECEIPT_FAULTS = [
  'relay key', // it is another relay's
  'epoch',
  'sender',
  'item',
  'target', // the row's target is not in it, or more than once
  'hash',
  'signature',
  'size', // it is kept with the row, and this one is too long
] as const;

/** The signed bytes may have this length, with the statement over several; ours have fewer than 1,000. */
const RECEIPT_BYTES_MAX = 16_384;
export type ReceiptFault = (typeof RECEIPT_FAULTS)[number];

/** The seq that the relay gave the row, or what of the receipt is not the row's. */
export function checkAcceptReceipt(
  accept: AcceptReceipt,
  signature: ReceiptSignature,
  pushed: PushedRow,
  isSigned: ReceiptCheck = receiptCheck(pushed.relayPubkey),
): { seq: number } | { fault: ReceiptFault } {
  if (accept.relay_pubkey !== pushed.relayPubkey) return { fault: 'relay key' };
  if (accept.epoch !== pushed.epoch) return { fault: 'epoch' };
  if (accept.sender_pubkey !== pushed.senderPubkey) return { fault: 'sender' };
  if (accept.item_id !== pushed.itemId) return { fault: 'item' };
  const [target, another] = accept.targets.filter(({ host_pubkey: key }) => key === pushed.targetPubkey);
  if (!target || another) return { fault: 'target' };
  if (target.wire_hash !== pushed.wireHash) return { fault: 'hash' };
  let signed: Buffer;
  try {
    signed = canonicalBytes(accept);
  } catch {
    // A value that no canonical form carries was signed by nobody.
    return { fault: 'signature' };
  }
  const statement = 'sig' in signature ? '' : JSON.stringify(signature.tree);
  if (signed.length + statement.length > RECEIPT_BYTES_MAX) return { fault: 'size' };
  return isSigned(signed, signature) ? { seq: target.seq } : { fault: 'signature' };
}

/** A result, with all that proves its receipt alone. */
interface RelayResult extends Partial<ReceiptInTree> {
  status: string;
  accept?: AcceptReceipt;
  sig?: string;
}

/** The times for which the relay says that it keeps items. */
interface RelayPromise {
  retentionMs: number;
  /** This host's clock: an acceptance in the future would never run out. */
  nowMs: number;
}

/** `isSigned` is that of the whole answer, whose results may share a signature. */
export function outboxEventOfResult(
  result: RelayResult,
  pushed: PushedRow,
  { retentionMs, nowMs }: RelayPromise,
  isSigned?: ReceiptCheck,
): OutboxEvent {
  const { status, accept } = result;
  const { relayPubkey, epoch } = pushed;
  const code = /^rejected:(.*)/s.exec(status)?.[1];
  if (code !== undefined) return { type: 'relay-refused', relayPubkey, code: code.slice(0, 100) };
  const signature = receiptSignatureOf(result);
  if (!accept || !signature) return { type: 'relay-failed', relayPubkey, reason: 'the relay gave no result for it' };
  const checked = checkAcceptReceipt(accept, signature, pushed, isSigned);
  if ('fault' in checked) {
    return { type: 'relay-failed', relayPubkey, reason: `the accept receipt does not verify (${checked.fault})` };
  }
  const acceptedAtMs = Math.min(accept.at, nowMs);
  const acceptance = { relayPubkey, epoch, seq: checked.seq, accept, acceptedAtMs, retentionMs, ...signature };
  return { type: 'relay-accepted', acceptance, isVerified: true };
}
