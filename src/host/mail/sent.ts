/** Sent messages of this host's agents: the state of each recipient, and `mail-sent`, which lists them. */
import type { DeliveryState } from '../../protocol/documents.ts';
import { badInput } from '../api/schemas/parse-input.ts';
import type { SentInput, SentMessage, SentResult } from '../api/schemas/mail.ts';
import type { HostContext } from '../context.ts';
import { movesRecipient, withStep } from '../core/receipts.ts';
import { isRefusal, type Refusal } from '../core/refusal.ts';
import type { Address, AgentId, MessageRef, PeerId, RecipientState, SentRecipient, SentRow } from '../core/rows.ts';
import { noSuchMessage, refuseAbsentAgent } from '../mailbox/mailbox.ts';
import type { Reader, Transaction } from '../store/host-store.ts';

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

/** Sets the state of a recipient on this host. Changes nothing when the message was not sent here, or the state is known. */
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

const LIMIT_DEFAULT = 20;
/** A page ends early when its messages have more recipients than this. */
export const SHOWN_RECIPIENTS_MAX = 5000;

/**
 * What an agent sent, newest first, with what is known of each recipient.
 * Refuses `BAD_INPUT` for a cursor that is none, `NO_SUCH_MESSAGE` and `NO_SUCH_AGENT`.
 */
export async function listSent(
  context: HostContext,
  agentId: AgentId,
  input: SentInput,
): Promise<SentResult | Refusal> {
  const { message_id, limit = LIMIT_DEFAULT, cursor } = input;
  if (message_id !== undefined) return oneSent(context, agentId, input, message_id);
  const until = cursor === undefined ? undefined : parseSentCursor(cursor);
  if (isRefusal(until)) return until;
  return context.store.read<SentResult | Refusal>(async (reader) => {
    const absent = refuseAbsentAgent(reader, agentId);
    if (absent) return absent;
    const bounds = until ? { until: [agentId, ...until] as [AgentId, number, MessageRef] } : {};
    const keys: [number, MessageRef][] = [];
    for await (const { key } of reader.range('sentBy', [agentId], { reverse: true, limit: limit + 1, ...bounds })) {
      keys.push([key[1], key[2]]);
    }
    const messages: SentMessage[] = [];
    let recipients = 0;
    for (const [, ref] of keys.slice(0, limit)) {
      const message = sentMessage(reader, ref);
      recipients += message.recipients.length;
      if (messages.length > 0 && recipients > SHOWN_RECIPIENTS_MAX) break;
      messages.push(message);
    }
    const last = keys[messages.length - 1];
    return { messages, next_cursor: keys.length > messages.length && last ? sentCursor(last) : null };
  });
}

async function oneSent(
  context: HostContext,
  agentId: AgentId,
  { limit, cursor }: SentInput,
  messageId: string,
): Promise<SentResult | Refusal> {
  if (limit !== undefined) return badInput('limit', 'does not go with message_id');
  if (cursor !== undefined) return badInput('cursor', 'does not go with message_id');
  return context.store.read<SentResult | Refusal>((reader) => {
    const ref = messageId as MessageRef;
    const isOwn = reader.get('sent', ref)?.agentId === agentId;
    if (!isOwn) return refuseAbsentAgent(reader, agentId) ?? noSuchMessage('message_id', messageId);
    return { messages: [sentMessage(reader, ref)], next_cursor: null };
  });
}

function sentMessage(reader: Reader, ref: MessageRef): SentMessage {
  const message = reader.get('message', ref);
  const sent = reader.get('sent', ref);
  if (!message || !sent) throw new Error('invariant: what was sent is kept with its message');
  return {
    message_id: ref,
    thread: message.thread,
    subject: message.subject,
    kind: message.kind,
    needs_reply: message.needsReply,
    created_at: message.createdAtMs,
    recipients: recipientViews(sent),
  };
}

/** The recipients of a sent message as results show them. */
export function recipientViews({ recipients }: SentRow): SentMessage['recipients'] {
  return recipients.map(({ address, state, atMs, steps }) => ({
    recipient: address,
    state,
    at: atMs,
    steps: steps.map((step) => ({ state: step.state, at: step.atMs })),
  }));
}

function sentCursor([createdAtMs, ref]: [number, MessageRef]): string {
  return Buffer.from(`sent:${createdAtMs}:${ref}`).toString('base64url');
}

function parseSentCursor(cursor: string): [number, MessageRef] | Refusal {
  const parts = /^sent:(\d{1,16}):([A-Za-z0-9._-]{1,128})$/.exec(Buffer.from(cursor, 'base64url').toString('latin1'));
  const key: [number, MessageRef] = [Number(parts?.[1]), parts?.[2] as MessageRef];
  const isOne = parts !== null && Number.isSafeInteger(key[0]) && sentCursor(key) === cursor;
  return isOne ? key : badInput('cursor', 'is none of this list: give next_cursor of the page before');
}
