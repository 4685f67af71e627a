/**
 * Mail without what is usual. Answers leave it out, so that a listed message costs an agent few tokens; commands and
 * the owner's page fill it in. Both directions of the rule stand here, member by member.
 */
import type { MessageKind, Origin } from '../core/rows.ts';
import type { MessageSummary, WholeMessage } from './mail.ts';

/** A shorter body says no size: it can be read without a thought. */
const SHORT_BODY_BYTES = 1024;

/** A message with every member. */
export interface FullSummary {
  message_id: string;
  thread: string;
  reply_to: string | null;
  from: string;
  to: readonly string[];
  to_count: number;
  subject: string;
  kind: MessageKind;
  needs_reply: boolean;
  origin: Origin;
  created_at: string;
  stored_at: string;
  state: NonNullable<MessageSummary['state']>;
  forwarded_from: string | null;
  /** Null: fewer than `SHORT_BODY_BYTES`, or as many as the whole body has that is shown. */
  body_bytes: number | null;
}

export interface FullMessage extends FullSummary {
  refs: readonly string[];
  body: string;
  next_body_offset: number | null;
  /** The outcome of a message that the reader sent. */
  outcome: Pick<WholeMessage, 'recipients' | 'recipient_count'>;
}

/** The message without what `fullSummary` fills in. */
export function withoutUsual(full: FullSummary): MessageSummary {
  const { message_id, reply_to, from, to, to_count, subject, created_at, stored_at, state } = full;
  const { forwarded_from, body_bytes } = full;
  const isToReaderAlone = to_count === 1 && state !== 'sent';
  return {
    message_id,
    ...(full.thread !== (reply_to ?? message_id) && { thread: full.thread }),
    ...(reply_to !== null && { reply_to }),
    from,
    ...(!isToReaderAlone && { to: [...to] }),
    ...(to_count > to.length && { to_count }),
    subject,
    ...(full.kind !== usualKind(reply_to) && { kind: full.kind }),
    ...(full.needs_reply && { needs_reply: true }),
    ...(full.origin !== 'agent' && { origin: full.origin }),
    created_at,
    ...(stored_at !== created_at && { stored_at }),
    ...(state !== 'unread' && { state }),
    ...(forwarded_from !== null && { forwarded_from }),
    ...(body_bytes !== null && body_bytes >= SHORT_BODY_BYTES && { body_bytes }),
  };
}

/** Every member of a message in the mailbox of `reader`. */
export function fullSummary(summary: MessageSummary, reader: string): FullSummary {
  const { message_id, reply_to = null, from, to = [reader], subject, created_at } = summary;
  return {
    message_id,
    thread: summary.thread ?? reply_to ?? message_id,
    reply_to,
    from,
    to,
    to_count: summary.to_count ?? to.length,
    subject,
    kind: summary.kind ?? usualKind(reply_to),
    needs_reply: summary.needs_reply ?? false,
    origin: summary.origin ?? 'agent',
    created_at,
    stored_at: summary.stored_at ?? created_at,
    state: summary.state ?? 'unread',
    forwarded_from: summary.forwarded_from ?? null,
    body_bytes: summary.body_bytes ?? null,
  };
}

export function fullMessage(message: WholeMessage, reader: string): FullMessage {
  const { refs = [], body, next_body_offset = null, recipients, recipient_count } = message;
  const outcome = { ...(recipients && { recipients }), ...(recipient_count !== undefined && { recipient_count }) };
  const sentTo = recipients && { to: recipients.map(({ to }) => to) };
  const sentCount = recipient_count !== undefined && { to_count: recipient_count };
  const full = fullSummary({ ...message, ...sentTo, ...sentCount }, reader);
  return Object.assign(full, { refs, body, next_body_offset, outcome });
}

function usualKind(replyTo: string | null): MessageKind {
  return replyTo === null ? 'message' : 'reply';
}
