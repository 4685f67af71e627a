/**
 * The rows of mailboxes and of sent messages: puts messages in, the host's own reports among them, changes entries, and
 * keeps what is known of each recipient. Everything that a mailbox shows comes from these rows.
 *
 * Invariants, kept inside each transaction:
 *   - an entry is in `unread` exactly while its state is `unread`, and in `unacked` exactly until it is acked;
 *   - `MailboxRow` counts what `entry` and `unread` hold;
 *   - a message and its body are kept as long as `held` counts a mailbox or a sender.
 */
import type { DeliveryState } from '../../protocol/documents.ts';
import type { HostContext } from '../base/context.ts';
import { addressOf, HOST_VOICE, OWNER_NAME } from '../core/address.ts';
import { MESSAGE_ID_RANDOM_BYTES, messageIdFrom } from '../../protocol/names.ts';
import { movesRecipient, withStep } from '../core/receipts.ts';
import { type Refusal, refusal } from '../core/refusal.ts';
import {
  type Address,
  type AgentId,
  type EntryRow,
  type MailboxRow,
  type MessageKind,
  type MessageRef,
  type MessageRow,
  OWNER_ID,
  type PeerId,
  type RecipientState,
  type SentRecipient,
} from '../core/rows.ts';
import { type Mentioned, mentionsIn, wakesRecipient } from '../core/waking.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { closeOwed, openOwed, settleByAnswer, settleByStates } from './debts.ts';
import { blockAt, dropBlock } from './word-blocks.ts';

/** The mailbox that a message goes into. */
export interface Delivery {
  agentId: AgentId;
  /** The former name of the mailbox's agent that it was addressed to, if it was one. */
  forwardedFrom: string | null;
}

export interface StoredEntry {
  agentId: AgentId;
  position: number;
  wakes: boolean;
}

const EMPTY_MAILBOX: MailboxRow = { nextPosition: 1, total: 0, unread: 0, unreadWaking: 0 };

export function mailboxOf(reader: Reader, agentId: AgentId): MailboxRow {
  return reader.get('mailbox', agentId) ?? EMPTY_MAILBOX;
}

/**
 * Puts a message into mailboxes, and emits `mail-stored` for each after the commit. A mailbox that already has it stays
 * as it is, and is not in the result.
 */
export function storeMessage(
  tx: Transaction,
  context: HostContext,
  message: MessageRow,
  body: string,
  recipients: readonly Delivery[],
): StoredEntry[] {
  const stored: StoredEntry[] = [];
  let found: Mentioned | undefined;
  const mentioned = (): Mentioned => (found ??= mentionsIn(body));
  const answered = message.replyTo === null ? undefined : tx.get('message', message.replyTo);
  const host = context.identity().hostName;
  const mayBeThere = isHeld(tx, message);
  for (const { agentId, forwardedFrom } of recipients) {
    if ((mayBeThere || stored.length > 0) && tx.get('place', agentId, message.ref) !== undefined) continue;
    const name = nameOf(tx, agentId);
    const names = forwardedFrom === null ? [name] : [name, forwardedFrom];
    const wakes = wakesRecipient(message, mentioned, { agentId, names, host }, answered);
    const position = putEntry(tx, agentId, message, { wakes, forwardedFrom });
    openOwed(tx, agentId, position, message, { sinceMs: message.storedAtMs, isReminded: false });
    if (answered?.fromAgent === agentId) settleByAnswer(tx, agentId, message);
    stored.push({ agentId, position, wakes });
    tx.afterCommit(() => context.emit({ type: 'mail-stored', agentId, position, wakes }));
  }
  if (stored.length > 0) hold(tx, message, body, stored.length);
  return stored;
}

/**
 * Keeps a message for the agent that sent it, in its view of the thread. Returns the position there, or null when the
 * agent is also among the recipients.
 */
export function keepSent(tx: Transaction, agentId: AgentId, message: MessageRow, body: string): number | null {
  const mayBeThere = isHeld(tx, message);
  hold(tx, message, body, 1);
  if (mayBeThere && tx.get('place', agentId, message.ref) !== undefined) return null;
  const mailbox = mailboxOf(tx, agentId);
  tx.put('mailbox', [agentId], { ...mailbox, nextPosition: mailbox.nextPosition + 1 });
  tx.put('threadEntry', [agentId, message.thread, mailbox.nextPosition], message.ref);
  return mailbox.nextPosition;
}

function putEntry(
  tx: Transaction,
  agentId: AgentId,
  message: MessageRow,
  { wakes, forwardedFrom }: Pick<EntryRow, 'wakes' | 'forwardedFrom'>,
): number {
  const mailbox = mailboxOf(tx, agentId);
  const position = mailbox.nextPosition;
  const { ref, thread, storedAtMs } = message;
  const fresh = { state: 'unread', notifiedAtMs: null, readAtMs: null, ackedAtMs: null } as const;
  tx.put('entry', [agentId, position], { ref, thread, wakes, storedAtMs, forwardedFrom, ...fresh });
  tx.put('unread', [agentId, position], wakes);
  tx.put('unacked', [agentId, position], true);
  tx.put('threadEntry', [agentId, thread, position], ref);
  tx.put('place', [agentId, ref], position);
  tx.put('mailbox', [agentId], {
    nextPosition: position + 1,
    total: mailbox.total + 1,
    unread: mailbox.unread + 1,
    unreadWaking: mailbox.unreadWaking + (wakes ? 1 : 0),
  });
  return position;
}

/** Tells whether a mailbox or a sender has the message: one that nobody holds has no place anywhere. */
function isHeld(reader: Reader, { ref }: MessageRow): boolean {
  return reader.get('held', ref) !== undefined;
}

function hold(tx: Transaction, message: MessageRow, body: string, holders: number): void {
  const before = tx.get('held', message.ref) ?? 0;
  if (before === 0) {
    tx.put('message', [message.ref], message);
    tx.put('body', [message.ref], body);
  }
  tx.put('held', [message.ref], before + holders);
}

/** Removes one holder of a message; the last one deletes the message. */
export function release(tx: Transaction, ref: MessageRef): void {
  const left = (tx.get('held', ref) ?? 0) - 1;
  if (left > 0) {
    tx.put('held', [ref], left);
    return;
  }
  tx.delete('held', [ref]);
  tx.delete('message', [ref]);
  tx.delete('body', [ref]);
}

/** Removes an entry from a mailbox, whatever its state, and the index of its block, which has its words. */
export function dropEntry(tx: Transaction, agentId: AgentId, position: number, entry: EntryRow): void {
  const mailbox = mailboxOf(tx, agentId);
  const isUnread = entry.state === 'unread';
  tx.put('mailbox', [agentId], {
    ...mailbox,
    total: mailbox.total - 1,
    unread: mailbox.unread - (isUnread ? 1 : 0),
    unreadWaking: mailbox.unreadWaking - (isUnread && entry.wakes ? 1 : 0),
  });
  tx.delete('entry', [agentId, position]);
  tx.delete('unread', [agentId, position]);
  tx.delete('unacked', [agentId, position]);
  tx.delete('threadEntry', [agentId, entry.thread, position]);
  tx.delete('place', [agentId, entry.ref]);
  closeOwed(tx, agentId, position);
  dropBlock(tx, agentId, blockAt(position));
  release(tx, entry.ref);
}

export type EntryChange = 'notified' | 'read' | 'acked';

/**
 * Moves an entry forward: notified, read, acked (which includes read). Returns whether anything changed: a step that
 * was taken before, or lies behind the entry's state, changes nothing. The caller emits `mail-handled` and issues the
 * receipt.
 */
export function advanceEntry(
  tx: Transaction,
  agentId: AgentId,
  position: number,
  change: EntryChange,
  nowMs: number,
): boolean {
  const entry = tx.get('entry', agentId, position);
  if (!entry || !isForward(entry, change)) return false;
  const next = { ...entry, notifiedAtMs: entry.notifiedAtMs ?? nowMs };
  if (change !== 'notified') {
    if (entry.state === 'unread') leaveUnread(tx, agentId, position, entry.wakes);
    next.readAtMs ??= nowMs;
    next.state = change;
  }
  if (change === 'acked') {
    next.ackedAtMs = nowMs;
    tx.delete('unacked', [agentId, position]);
    closeOwed(tx, agentId, position);
  }
  tx.put('entry', [agentId, position], next);
  return true;
}

function isForward({ state, notifiedAtMs }: EntryRow, change: EntryChange): boolean {
  switch (change) {
    case 'notified':
      return notifiedAtMs === null;
    case 'read':
      return state === 'unread';
    case 'acked':
      return state !== 'acked';
  }
}

function leaveUnread(tx: Transaction, agentId: AgentId, position: number, wakes: boolean): void {
  const mailbox = mailboxOf(tx, agentId);
  tx.delete('unread', [agentId, position]);
  tx.put('mailbox', [agentId], {
    ...mailbox,
    unread: mailbox.unread - 1,
    unreadWaking: mailbox.unreadWaking - (wakes ? 1 : 0),
  });
}

/** The name of a mailbox's holder. Throws when there is none: callers have an id that exists. */
export function nameOf(reader: Reader, agentId: AgentId): string {
  if (agentId === OWNER_ID) return OWNER_NAME;
  const agent = reader.get('agent', agentId);
  if (!agent) throw new Error('invariant: a mailbox belongs to an agent');
  return agent.name;
}

/** A message that the agent may name: one in its mailbox, or one that it sent. */
export function knownMessage(reader: Reader, agentId: AgentId, messageId: string): MessageRow | undefined {
  const ref = messageId as MessageRef;
  const isMine = reader.get('place', agentId, ref) !== undefined || reader.get('sent', ref)?.agentId === agentId;
  return isMine ? reader.get('message', ref) : undefined;
}

/** `where` ends the sentence: the messages that were looked at. */
export function noSuchMessage(
  field: string,
  messageId: string,
  where = 'in this mailbox or among what this agent sent',
): Refusal {
  const message = `${field}: there is no message ${messageId} ${where}.`;
  return refusal('NO_SUCH_MESSAGE', message, { field, message_id: messageId });
}

/** Refuses when no agent has this id, or the agent was removed. */
export function refuseAbsentAgent(reader: Reader, agentId: AgentId): Refusal | undefined {
  if (agentId === OWNER_ID) return undefined;
  const agent = reader.get('agent', agentId);
  if (agent && agent.removedAtMs === null) return undefined;
  const name = agent ? `${agent.name} was removed` : 'there is no such agent';
  return refusal('NO_SUCH_AGENT', `${name}: add it with poste agent add.`, { suggestions: [] });
}

/** A message that is made on this host: its id, its reference and what both ends will know of it. */
type MessageParts = Omit<MessageRow, 'ref' | 'id' | 'thread' | 'fromPeer' | 'createdAtMs' | 'storedAtMs' | 'bodyBytes'>;

/** `thread` is null for a message that begins one. */
export function newMessage(
  reader: Reader,
  context: HostContext,
  given: MessageParts,
  body: string,
  thread: MessageRef | null,
): MessageRow {
  const nowMs = context.nowMs();
  let id = messageIdFrom(nowMs, context.randomBytes(MESSAGE_ID_RANDOM_BYTES));
  // A peer may have sent a message with this id, by accident or not.
  while (reader.get('held', id as string as MessageRef) !== undefined) {
    id = messageIdFrom(nowMs, context.randomBytes(MESSAGE_ID_RANDOM_BYTES));
  }
  const ref = id as string as MessageRef;
  return {
    id,
    ref,
    thread: thread ?? ref,
    fromPeer: null,
    createdAtMs: nowMs,
    storedAtMs: nowMs,
    bodyBytes: Buffer.byteLength(body, 'utf8'),
    ...given,
  };
}

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
  const after = { ...row, recipients };
  tx.put('sent', [ref], after);
  settleByStates(tx, row, after);
  tx.afterCommit(() => context.emit({ type: 'sent-changed', agentId: row.agentId }));
  return true;
}

export interface Report {
  subject: string;
  body: string;
  /** `alert` wakes the agent. */
  kind: MessageKind;
  /** The message it is about; the report joins its thread. */
  about?: Pick<MessageRow, 'ref' | 'thread'>;
}

/** Stores a report. A report for a removed agent goes to the owner. */
export function reportToAgent(tx: Transaction, context: HostContext, agentId: AgentId, report: Report): MessageRef {
  const agent = tx.get('agent', agentId);
  const readerId = agent && agent.removedAtMs === null ? agentId : OWNER_ID;
  const { hostName } = context.identity();
  const { subject, body, kind, about } = report;
  const message = newMessage(
    tx,
    context,
    {
      from: addressOf(HOST_VOICE, hostName),
      fromAgent: null,
      to: [addressOf(nameOf(tx, readerId), hostName)],
      subject,
      kind,
      needsReply: false,
      origin: 'agent',
      refs: [],
      replyTo: about?.ref ?? null,
    },
    body,
    about?.thread ?? null,
  );
  storeMessage(tx, context, message, body, [{ agentId: readerId, forwardedFrom: null }]);
  return message.ref;
}
