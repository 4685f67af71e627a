/**
 * Sent messages of this host's agents: the state of each recipient, and the lists of them, for `mail-sent` and for
 * `mail_inbox`, which shows the same in fewer words.
 */
import { isoSecond } from '../../protocol/time.ts';
import { badInput } from '../contract/parse-input.ts';
import { SHOWN_TO_MAX } from '../contract/limits.ts';
import type { InboxResult } from '../contract/mail.ts';
import type { SentInput, SentMessage, SentRecipient, SentResult, SentSummary } from '../contract/sent-mail.ts';
import type { HostContext } from '../base/context.ts';
import { relayTookAtMs, shownSteps } from '../core/receipts.ts';
import { isRefusal, type Refusal } from '../core/refusal.ts';
import type { AgentId, MessageRef, MessageRow, SentRow } from '../core/rows.ts';
import { noSuchMessage, refuseAbsentAgent } from '../mailbox/mailbox.ts';
import { wholeId } from './find-message.ts';
import { outboxRowOf } from '../outbox/outbox.ts';
import type { Reader } from '../store/host-store.ts';

const LIMIT_DEFAULT = 20;
/** A page ends early when its messages have more recipients than this. */
export const SHOWN_RECIPIENTS_MAX = 5000;

/**
 * Returns what an agent sent, newest first, with what is known of each recipient. Refuses `BAD_INPUT` for a cursor that
 * is none, `NO_SUCH_MESSAGE` and `NO_SUCH_AGENT`.
 */
export async function listSent(
  context: HostContext,
  agentId: AgentId,
  input: SentInput,
): Promise<SentResult | Refusal> {
  const { message_id } = input;
  if (message_id !== undefined) return oneSent(context, agentId, input, message_id);
  return context.store.read<SentResult | Refusal>(
    async (reader) => refuseAbsentAgent(reader, agentId) ?? sentPage(reader, agentId, input),
  );
}

async function sentPage(
  reader: Reader,
  agentId: AgentId,
  { limit = LIMIT_DEFAULT, cursor }: Pick<SentInput, 'limit' | 'cursor'>,
): Promise<SentResult | Refusal> {
  const until = cursor === undefined ? undefined : parseSentCursor(cursor);
  if (isRefusal(until)) return until;
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
}

type SentAnswer = Pick<InboxResult, 'sent' | 'not_found'> & { next_cursor: string | null };

/**
 * Returns what `mail_inbox` shows of what the agent sent: the newest messages, or those of `message_ids`. The steps
 * come with one message that is named.
 */
export async function showSent(
  reader: Reader,
  agentId: AgentId,
  { message_ids, limit, cursor }: { message_ids?: string[]; limit?: number; cursor?: string },
): Promise<SentAnswer | Refusal> {
  if (message_ids === undefined) {
    const page = await sentPage(reader, agentId, { ...(limit && { limit }), ...(cursor !== undefined && { cursor }) });
    return isRefusal(page) ? page : { sent: page.messages.map(inShort), next_cursor: page.next_cursor };
  }
  const isOwn = (id: string): boolean => reader.get('sent', id as MessageRef)?.agentId === agentId;
  const own = message_ids.filter(isOwn).map((id) => sentMessage(reader, id as MessageRef));
  const sent = message_ids.length === 1 ? own.map(withSteps) : own.map(inShort);
  return { sent, not_found: message_ids.filter((id) => !isOwn(id)), next_cursor: null };
}

function withSteps(message: SentMessage): SentSummary {
  const recipients = message.recipients.map(({ recipient, ...known }) => ({ to: recipient, ...known }));
  return { ...headOf(message), recipients };
}

function inShort(message: SentMessage): SentSummary {
  return { ...headOf(message), ...firstRecipients(message.recipients) };
}

/** Leaves out what is the usual: an agent pays for every character. */
function headOf({
  message_id,
  thread,
  subject,
  kind,
  needs_reply,
  created_at,
}: SentMessage): Omit<SentSummary, 'recipients'> {
  return {
    message_id,
    ...(thread !== message_id && { thread }),
    subject,
    ...(kind !== 'message' && { kind }),
    ...(needs_reply && { needs_reply }),
    created_at,
  };
}

type Outcome = Pick<SentSummary, 'recipients' | 'recipient_count'>;

function firstRecipients(recipients: readonly SentRecipient[]): Outcome {
  const shown = recipients.slice(0, SHOWN_TO_MAX).map(({ recipient: to, state, at }) => ({ to, state, at }));
  return { recipients: shown, ...(recipients.length > shown.length && { recipient_count: recipients.length }) };
}

/** Returns what became of a message that the agent sent, as its threads show it; nothing for one of another sender. */
export function outcomeOf(reader: Reader, agentId: AgentId, message: MessageRow): Outcome | undefined {
  const sent = reader.get('sent', message.ref);
  return sent?.agentId === agentId ? firstRecipients(recipientViews(reader, sent, message.id)) : undefined;
}

async function oneSent(
  context: HostContext,
  agentId: AgentId,
  { limit, cursor }: SentInput,
  messageId: string,
): Promise<SentResult | Refusal> {
  if (limit !== undefined) return badInput('limit', 'does not go with message_id');
  if (cursor !== undefined) return badInput('cursor', 'does not go with message_id');
  const id = await wholeId(context, messageId, { agentId, field: 'message_id' });
  if (isRefusal(id)) return id;
  return context.store.read<SentResult | Refusal>((reader) => {
    const ref = id as MessageRef;
    const isOwn = reader.get('sent', ref)?.agentId === agentId;
    if (!isOwn)
      return refuseAbsentAgent(reader, agentId) ?? noSuchMessage('message_id', messageId, 'among what this agent sent');
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
    created_at: isoSecond(message.createdAtMs),
    recipients: recipientViews(reader, sent, message.id),
  };
}

/** The recipients of a sent message as results show them. `itemId`: of the message, which the outbox knows it by. */
export function recipientViews(reader: Reader, { recipients }: SentRow, itemId: string): SentRecipient[] {
  return recipients.map((known) => recipientView(reader, known, itemId));
}

export function recipientView(reader: Reader, known: SentRow['recipients'][number], itemId: string): SentRecipient {
  const row = known.peerId === null ? undefined : outboxRowOf(reader, known.peerId, itemId);
  const shown = shownSteps(known, row ? relayTookAtMs(row) : null);
  const steps = shown.map(({ state, atMs }) => ({ state, at: isoSecond(atMs) }));
  const last = steps.at(-1);
  if (!last) throw new Error('invariant: a recipient has the step of its state');
  return { recipient: known.address, state: last.state, at: last.at, steps };
}

function sentCursor([createdAtMs, ref]: [number, MessageRef]): string {
  return Buffer.from(`sent:${createdAtMs}:${ref}`).toString('base64url');
}

function parseSentCursor(cursor: string): [number, MessageRef] | Refusal {
  const parts = /^sent:(\d{1,16}):([A-Za-z0-9._-]{1,128})$/.exec(Buffer.from(cursor, 'base64url').toString('latin1'));
  const key: [number, MessageRef] = [Number(parts?.[1]), parts?.[2] as MessageRef];
  const isOne = parts !== null && Number.isSafeInteger(key[0]) && sentCursor(key) === cursor;
  return isOne
    ? key
    : badInput('cursor', 'is of another list, or cut: give the cursor that the page before ended with');
}
