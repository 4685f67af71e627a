/**
 * Delivery receipts that this host issues: signed, and queued for the host that sent the message.
 *
 * A receipt names the recipient as the envelope did, whatever the agent is called now. Of one (message, recipient) at
 * most one receipt waits to be sent: a higher one takes the place of a lower.
 */
import { canonicalBytes } from '../../protocol/canonical-json.ts';
import { type DeliveryState, deliveryReceipt } from '../../protocol/documents.ts';
import type { ItemId } from '../../protocol/names.ts';
import { type ReceiptClock, nextReceipt, repeatedReceipt } from '../core/receipts.ts';
import type { Address, AgentId, ArrivalRow, MessageRef, PeerId, ReceiptRow } from '../core/rows.ts';
import type { Transaction } from '../store/host-store.ts';
import type { Office } from './office.ts';
import { addOutboxRow, dropOutboxRow, outboxRowOf } from './outbox-rows.ts';
import { markLocalRecipient } from './sent.ts';

/**
 * Says that an agent of this host has a message (`delivered`), was told of it, read it or acked it: to the sender's
 * host, or to the sender's own record when the message was sent here. What was said before is not said again.
 */
export function issueReceipt(
  tx: Transaction,
  office: Office,
  { ref, agentId }: { ref: MessageRef; agentId: AgentId },
  state: DeliveryState,
): void {
  const message = tx.get('message', ref);
  if (!message) return;
  if (message.fromPeer === null) {
    markLocalRecipient(tx, office, ref, agentId, state, office.nowMs());
    return;
  }
  const arrival = tx.get('arrival', message.fromPeer, message.id);
  if (!arrival) throw new Error('invariant: what a peer sent has arrived');
  for (const { address } of arrival.recipients.filter((recipient) => recipient.agentId === agentId)) {
    const last = tx.get('receipt', message.fromPeer, message.id, address);
    const receipt = nextReceipt(last, state, clockOf(tx, office));
    if (receipt)
      queueReceipt(tx, office, { peerId: message.fromPeer, msg: message.id, address, arrival }, receipt, last);
  }
}

/** Says the last receipts again to a sender that shows that it does not know them; what still waits is not doubled. */
export function repeatReceipts(
  tx: Transaction,
  office: Office,
  peerId: PeerId,
  msg: ItemId,
  arrival: ArrivalRow,
): void {
  for (const { address } of arrival.recipients) {
    const last = tx.get('receipt', peerId, msg, address);
    if (!last) throw new Error('invariant: whoever has a message, of that a receipt was issued');
    if (outboxRowOf(tx, peerId, receiptItemId(msg, address, last))) continue;
    queueReceipt(tx, office, { peerId, msg, address, arrival }, repeatedReceipt(last, clockOf(tx, office)), last);
  }
}

interface ReceiptSubject {
  peerId: PeerId;
  msg: ItemId;
  address: Address;
  arrival: ArrivalRow;
}

function queueReceipt(
  tx: Transaction,
  office: Office,
  { peerId, msg, address, arrival }: ReceiptSubject,
  receipt: ReceiptRow,
  last: ReceiptRow | undefined,
): void {
  const unsent = last && outboxRowOf(tx, peerId, receiptItemId(msg, address, last));
  if (unsent?.state === 'pending') dropOutboxRow(tx, unsent);
  tx.put('receipt', [peerId, msg, address], receipt);
  if (tx.get('peer', peerId)?.unpairedAtMs !== null) return;
  const { signer } = office.identity();
  const rec = deliveryReceipt({
    msg,
    recipient: address,
    seq: receipt.seq,
    state: receipt.state,
    at: receipt.atMs,
    host_pubkey: signer.publicKey,
    sender_host_pubkey: arrival.senderPubkey,
    wire_hash: arrival.wireHash,
  });
  addOutboxRow(tx, office, {
    kind: 'receipt',
    itemId: receiptItemId(msg, address, receipt),
    ref: arrival.ref,
    peerId,
    recipients: [address],
    wire: canonicalBytes({ rec, sig: signer.sign(canonicalBytes(rec)) }),
  });
}

export function receiptItemId(msg: ItemId, address: Address, { seq }: ReceiptRow): ItemId {
  return `receipt:${msg}:${address}:${seq}` as ItemId;
}

function clockOf(tx: Transaction, office: Office): ReceiptClock {
  return { nowMs: office.nowMs(), floor: tx.get('identity')?.receiptFloor ?? 0 };
}
