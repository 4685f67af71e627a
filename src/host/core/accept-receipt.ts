/**
 * Whether a relay's answer proves that it took one row: the only thing that moves a row to relay-accepted.
 *
 * Specification, "Sender outbox row", first line of the table. Pure; the signature is checked here.
 */
import { canonicalBytes } from '../../protocol/canonical-json.ts';
import type { Sha256Hex } from '../../protocol/digest.ts';
import type { AcceptReceipt } from '../../protocol/documents.ts';
import { verifySignature } from '../../protocol/ed25519.ts';
import type { Epoch } from '../../protocol/epoch.ts';
import type { PublicKey } from '../../protocol/public-key.ts';

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

export const RECEIPT_FAULTS = [
  'relay key', // it is another relay's
  'epoch',
  'sender',
  'item',
  'target', // the row's target is not in it, or more than once
  'hash',
  'signature',
] as const;
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
  return verifySignature(pushed.relayPubkey, signed, sig) ? { seq: target.seq } : { fault: 'signature' };
}
