/** What became of messages that agents of this host sent, recipient by recipient. */
import type { DeliveryState } from '../../protocol/documents.ts';
import { movesRecipient } from '../core/receipts.ts';
import { withStep } from '../core/sent-steps.ts';
import type { Address, AgentId, MessageRef, PeerId, RecipientState, SentRecipient } from '../core/rows.ts';
import type { Transaction } from '../store/host-store.ts';
import type { Office } from './office.ts';

export interface RecipientReceipt {
  state: DeliveryState;
  /** 0 for a recipient on this host. */
  seq: number;
  atMs: number;
}

/** Applies a receipt to a recipient on another host, by state rank, then seq. Returns whether it told anything new. */
export function applyToSent(
  tx: Transaction,
  office: Office,
  ref: MessageRef,
  recipient: { peerId: PeerId; address: Address },
  receipt: RecipientReceipt,
): boolean {
  return changeRecipients(tx, office, ref, (known) => {
    const isMeant = known.peerId === recipient.peerId && known.address === recipient.address;
    return isMeant && movesRecipient(known, receipt) ? withStep(known, receipt) : known;
  });
}

/** What a recipient on this host did with a message. Nothing when it was not sent here, or that was known. */
export function markLocalRecipient(
  tx: Transaction,
  office: Office,
  ref: MessageRef,
  agentId: AgentId,
  state: DeliveryState,
  atMs: number,
): boolean {
  const receipt = { state, seq: 0, atMs };
  return changeRecipients(tx, office, ref, (known) =>
    known.agentId === agentId && movesRecipient(known, receipt) ? withStep(known, receipt) : known,
  );
}

/** Says of recipients on a peer what no receipt says: that they are not reached, or will not be. */
export function markRecipients(
  tx: Transaction,
  office: Office,
  ref: MessageRef,
  peerId: PeerId,
  { recipients, state, atMs }: { recipients: readonly Address[]; state: RecipientState; atMs: number },
): void {
  changeRecipients(tx, office, ref, (known) =>
    known.peerId === peerId && recipients.includes(known.address) ? withStep(known, { state, atMs }) : known,
  );
}

/** Tells `sent-changed` when anything did. */
function changeRecipients(
  tx: Transaction,
  office: Office,
  ref: MessageRef,
  change: (known: SentRecipient) => SentRecipient,
): boolean {
  const row = tx.get('sent', ref);
  if (!row) return false;
  const recipients = row.recipients.map(change);
  if (recipients.every((recipient, at) => recipient === row.recipients[at])) return false;
  tx.put('sent', [ref], { ...row, recipients });
  tx.afterCommit(() => office.tell({ type: 'sent-changed', agentId: row.agentId }));
  return true;
}
