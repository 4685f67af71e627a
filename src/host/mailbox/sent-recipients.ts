/** What is known of each recipient of a message that an agent of this host sent. */
import type { DeliveryState } from '../../protocol/documents.ts';
import type { HostContext } from '../base/context.ts';
import { movesRecipient, withStep } from '../core/receipts.ts';
import type { Address, AgentId, MessageRef, PeerId, RecipientState, SentRecipient } from '../core/rows.ts';
import type { Transaction } from '../store/host-store.ts';

interface RecipientReceipt {
  state: DeliveryState;
  /** 0 for a recipient on this host. */
  seq: number;
  atMs: number;
}

/** Applies a receipt to a recipient on another host, by state rank, then seq. Returns whether the recipient changed. */
export function applyToSent(
  tx: Transaction,
  context: HostContext,
  ref: MessageRef,
  recipient: { peerId: PeerId; address: Address },
  receipt: RecipientReceipt,
): boolean {
  return changeRecipients(tx, context, ref, (known) => {
    const isMeant = known.peerId === recipient.peerId && known.address === recipient.address;
    return isMeant && movesRecipient(known, receipt) ? withStep(known, receipt) : known;
  });
}

/** Sets the state of a recipient on this host. Changes nothing of a message from elsewhere, or of a known state. */
export function markLocalRecipient(
  tx: Transaction,
  context: HostContext,
  ref: MessageRef,
  agentId: AgentId,
  state: DeliveryState,
  atMs: number,
): boolean {
  const receipt = { state, seq: 0, atMs };
  return changeRecipients(tx, context, ref, (known) =>
    known.agentId === agentId && movesRecipient(known, receipt) ? withStep(known, receipt) : known,
  );
}

/** Sets a state of recipients on a peer that comes without a receipt: not reached yet, or given up. */
export function markRecipients(
  tx: Transaction,
  context: HostContext,
  ref: MessageRef,
  peerId: PeerId,
  { recipients, state, atMs }: { recipients: readonly Address[]; state: RecipientState; atMs: number },
): void {
  changeRecipients(tx, context, ref, (known) =>
    known.peerId === peerId && recipients.includes(known.address) ? withStep(known, { state, atMs }) : known,
  );
}

/** Emits `sent-changed` when a recipient changed. */
function changeRecipients(
  tx: Transaction,
  context: HostContext,
  ref: MessageRef,
  change: (known: SentRecipient) => SentRecipient,
): boolean {
  const row = tx.get('sent', ref);
  if (!row) return false;
  const recipients = row.recipients.map(change);
  if (recipients.every((recipient, at) => recipient === row.recipients[at])) return false;
  tx.put('sent', [ref], { ...row, recipients });
  tx.afterCommit(() => context.emit({ type: 'sent-changed', agentId: row.agentId }));
  return true;
}
