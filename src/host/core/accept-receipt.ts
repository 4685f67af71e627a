/**
 * What a relay's answer for one pushed row makes happen to it, and whether it proves that the relay took the row: only
 * that moves a row to relay-accepted.
 *
 * Specification, "Sender outbox row (relay path)", first line of the table. Pure; the signature is checked here.
 */
import { canonicalBytes } from '../../protocol/canonical-json.ts';
import type { Sha256Hex } from '../../protocol/digest.ts';
import type { AcceptReceipt } from '../../protocol/documents.ts';
import { verifySignature } from '../../protocol/ed25519.ts';
import type { Epoch } from '../../protocol/epoch.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { OutboxEvent } from './outbox-event.ts';

/** What was asked of the relay, and of which. */
export interface PushedRow {
  /** Pinned. */
  relayPubkey: PublicKey;
  /** Of the answer that the receipt came in. */
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

/** Of the signed bytes; ours have fewer than 1,000. */
const RECEIPT_BYTES_MAX = 16_384;
export type ReceiptFault = (typeof RECEIPT_FAULTS)[number];

/** The seq that the relay gave the row, or what of the receipt is not the row's. */
export function checkAcceptReceipt(
  accept: AcceptReceipt,
  sig: string,
  pushed: PushedRow,
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
  if (signed.length > RECEIPT_BYTES_MAX) return { fault: 'size' };
  return verifySignature(pushed.relayPubkey, signed, sig) ? { seq: target.seq } : { fault: 'signature' };
}

interface RelayResult {
  status: string;
  accept?: AcceptReceipt;
  sig?: string;
}

/** How long the relay says that it keeps items. */
interface RelayPromise {
  retentionMs: number;
  /** This host's clock: an acceptance in the future would never run out. */
  nowMs: number;
}

export function outboxEventOfResult(
  { status, accept, sig }: RelayResult,
  pushed: PushedRow,
  { retentionMs, nowMs }: RelayPromise,
): OutboxEvent {
  const code = /^rejected:(.*)/s.exec(status)?.[1];
  if (code !== undefined) return { type: 'relay-refused', code: code.slice(0, 100) };
  if (!accept || sig === undefined) return { type: 'relay-failed', reason: 'the relay gave no result for it' };
  const checked = checkAcceptReceipt(accept, sig, pushed);
  if ('fault' in checked) {
    return { type: 'relay-failed', reason: `the accept receipt does not verify (${checked.fault})` };
  }
  const { relayPubkey, epoch } = pushed;
  const acceptedAtMs = Math.min(accept.at, nowMs);
  const acceptance = { relayPubkey, epoch, seq: checked.seq, accept, sig, acceptedAtMs, retentionMs };
  return { type: 'relay-accepted', acceptance, isVerified: true };
}
