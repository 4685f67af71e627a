/** Sent messages of this host's agents: the state of each recipient, and `mail-sent`, which lists them. */
import { badInput } from '../contract/parse-input.ts';
import type { SentInput, SentMessage, SentResult } from '../contract/mail.ts';
import type { HostContext } from '../base/context.ts';
import { isRefusal, type Refusal } from '../core/refusal.ts';
import type { AgentId, MessageRef, SentRow } from '../core/rows.ts';
import { noSuchMessage, refuseAbsentAgent } from '../mailbox/mailbox.ts';
import type { Reader } from '../store/host-store.ts';

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
