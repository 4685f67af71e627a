/**
 * The four tools' inputs and results: one schema for the tools over MCP, the commands and the local socket.
 *
 * `mail_send` is the specification's table ("Message (input of mail_send)"); what it leaves open is decided here.
 */
import { type Static, Type } from 'typebox';
import { CLOSED, Moment } from '../../protocol/shapes.ts';
import { MESSAGE_KINDS, ORIGINS } from '../core/rows.ts';
import { SentSummary, sentOutcome } from './sent-mail.ts';
import { WaitingSummary } from './waiting.ts';
import {
  TO_MAX,
  SUBJECT_CHARACTERS_MAX,
  BODY_CHARACTERS_MAX,
  REFS_MAX,
  REF_CHARACTERS_MAX,
  ADDRESS_CHARACTERS_MAX,
  IDEMPOTENCY_KEY_CHARACTERS_MAX,
  LIST_LIMIT_MAX,
  LIST_WAIT_SECONDS_MAX,
  READ_MAX,
  READ_BYTES_MAX,
  INBOX_WAIT_MS_MAX,
  SEARCH_CHARACTERS_MAX,
} from './limits.ts';

/** Some clients want a type for every value, enums too. */
const TEXT = { type: 'string' } as const;

const messageId = Type.String({
  minLength: 1,
  maxLength: 128,
  pattern: '^[A-Za-z0-9._-]+$',
});
const kind = Type.Enum([...MESSAGE_KINDS], TEXT);
const origin = Type.Enum([...ORIGINS], TEXT);
const refs = Type.Array(Type.String({ maxLength: REF_CHARACTERS_MAX }), {
  maxItems: REFS_MAX,
  default: [],
});
const needsReply = Type.Boolean({ default: false });
const idempotencyKey = Type.String({
  maxLength: IDEMPOTENCY_KEY_CHARACTERS_MAX,
});
const body = Type.String({ maxLength: BODY_CHARACTERS_MAX });
const subject = Type.String({ minLength: 1, maxLength: SUBJECT_CHARACTERS_MAX });

export const SendInput = Type.Object(
  {
    to: Type.Array(Type.String({ minLength: 1, maxLength: ADDRESS_CHARACTERS_MAX }), {
      minItems: 1,
      maxItems: TO_MAX,
      description: 'agent, agent@host, role:<role>, * (everyone) or owner',
    }),
    subject,
    body,
    kind: Type.Optional(Type.Enum([...MESSAGE_KINDS], { ...TEXT, default: 'message' })),
    /** The id of the message being answered; keeps the thread. */
    reply_to: Type.Optional(messageId),
    needs_reply: Type.Optional(needsReply),
    refs: Type.Optional(refs),
    idempotency_key: Type.Optional(idempotencyKey),
    origin: Type.Optional(
      Type.Enum([...ORIGINS], { ...TEXT, description: 'external: content of a web page, an issue, an e-mail' }),
    ),
  },
  CLOSED,
);
export type SendInput = Static<typeof SendInput>;

export const ReplyInput = Type.Object(
  {
    message_id: messageId,
    body,
    subject: Type.Optional(subject),
    kind: Type.Optional(Type.Enum([...MESSAGE_KINDS], { ...TEXT, default: 'reply' })),
    to_all: Type.Optional(Type.Boolean({ default: false, description: 'also to its other recipients' })),
    needs_reply: Type.Optional(needsReply),
    refs: Type.Optional(refs),
    idempotency_key: Type.Optional(idempotencyKey),
    origin: Type.Optional(origin),
  },
  CLOSED,
);
export type ReplyInput = Static<typeof ReplyInput>;

/** The number of messages that the caller has not read; absent for none. */
const unread = Type.Optional(Type.Integer());

const RECIPIENT_STATUSES = ['live-wake', 'live-next-prompt', 'offline', 'forwarded', 'remote'] as const;

export const SendResult = Type.Object({
  message_id: messageId,
  thread: messageId,
  /** True when the idempotency key was known: nothing was sent now, and this is the earlier result. */
  duplicate: Type.Boolean(),
  recipients: Type.Array(
    Type.Object({
      /** The concrete recipient: agent@host. */
      recipient: Type.String(),
      /** The addresses of the input that mean it. */
      addressed_as: Type.Array(Type.String()),
      status: Type.Enum([...RECIPIENT_STATUSES], TEXT),
      /** The sentence says what is known of the delivery: acceptance is no delivery. */
      detail: Type.String(),
      /** Its host is out of reach, and takes mail at no relay that this host uses: the message waits. */
      way: Type.Optional(Type.Literal('none')),
    }),
  ),
  /**
   * The age, in seconds, of each paired host's list of agents that a role or `*` was expanded with; null when that host
   * never sent one. Agents that were added there since are left out.
   */
  directories: Type.Optional(
    Type.Array(Type.Object({ host: Type.String(), age_seconds: Type.Union([Type.Integer(), Type.Null()]) })),
  ),
  /** A reply to all leaves out the recipients of the message that cannot be reached any more. */
  left_out: Type.Optional(Type.Array(Type.Object({ recipient: Type.String(), detail: Type.String() }))),
  unread,
});
export type SendResult = Static<typeof SendResult>;

export const AgentsInput = Type.Object(
  {
    host: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
    role: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
  },
  CLOSED,
);
export type AgentsInput = Static<typeof AgentsInput>;

export const AgentsResult = Type.Object({
  /** The caller's own address. */
  you: Type.Union([Type.String(), Type.Null()]),
  unread,
  agents: Type.Array(
    Type.Object({
      address: Type.String(),
      name: Type.String(),
      host: Type.String(),
      roles: Type.Array(Type.String()),
      /** `live`: it has a live session. `offline`: it has none. `remote`: its host is another, which does not tell. */
      presence: Type.Enum(['live', 'offline', 'remote'], TEXT),
      /** The age of the remote host's list of agents; null for agents of this host. */
      directory_age_seconds: Type.Union([Type.Integer(), Type.Null()]),
    }),
  ),
});
export type AgentsResult = Static<typeof AgentsResult>;

const limit = Type.Integer({ minimum: 1, maximum: LIST_LIMIT_MAX });
/** next_cursor of the page before. */
const cursor = Type.String({ minLength: 1, maxLength: 200 });
const messageIds = Type.Array(messageId, { minItems: 1, maxItems: READ_MAX });

/** One tool with an action: each member belongs to the actions its description names. */
export const InboxInput = Type.Object(
  {
    action: Type.Optional(
      Type.Enum(['list', 'read', 'mark_read', 'ack', 'thread', 'sent', 'waiting'], {
        ...TEXT,
        default: 'list',
        description:
          'list: unread summaries, newest first. read: whole messages, marked read unless peek. mark_read. ack: ' +
          'dealt with. thread: a conversation, oldest first. sent: what became of your mail. waiting: answers that ' +
          'you owe and are owed.',
      }),
    ),
    state: Type.Optional(Type.Enum(['unread', 'unacked', 'all'], TEXT)),
    /** A list takes it, of all states unless `state` says another: core/mail-query.ts has the language. */
    search: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: SEARCH_CHARACTERS_MAX,
        description: 'words from: kind: before:',
      }),
    ),
    message_ids: Type.Optional(messageIds),
    thread: Type.Optional(messageId),
    peek: Type.Optional(Type.Boolean()),
    limit: Type.Optional(limit),
    cursor: Type.Optional(cursor),
    wait_seconds: Type.Optional(
      Type.Integer({ maximum: LIST_WAIT_SECONDS_MAX, minimum: 0, description: 'list: wait for mail' }),
    ),
    reply_to: Type.Optional(Type.String({ maxLength: 128, description: 'list: answers to this message' })),
    /** The bytes of bodies that read and thread show at most. */
    max_bytes: Type.Optional(Type.Integer({ minimum: 1024, maximum: READ_BYTES_MAX })),
    /** The next_body_offset of the answer before, for read of one message. */
    body_offset: Type.Optional(Type.Integer({ minimum: 0 })),
  },
  CLOSED,
);
export type InboxInput = Static<typeof InboxInput>;

/** A message as answers carry it: usual-mail.ts says what an absent member means, and fills it in. */
export const MessageSummary = Type.Object({
  message_id: messageId,
  thread: Type.Optional(messageId),
  reply_to: Type.Optional(messageId),
  from: Type.String(),
  /** The first recipients. */
  to: Type.Optional(Type.Array(Type.String())),
  to_count: Type.Optional(Type.Integer()),
  subject: Type.String(),
  kind: Type.Optional(kind),
  needs_reply: Type.Optional(Type.Boolean()),
  origin: Type.Optional(origin),
  /** The time of the sender's clock. */
  created_at: Moment,
  /** The time of this host's clock. */
  stored_at: Type.Optional(Moment),
  /** `sent`: this agent wrote it. */
  state: Type.Optional(Type.Enum(['unread', 'read', 'acked', 'sent'], TEXT)),
  /** The former name of this agent that it was addressed to. */
  forwarded_from: Type.Optional(Type.String()),
  body_bytes: Type.Optional(Type.Integer()),
});
export type MessageSummary = Static<typeof MessageSummary>;

export const WholeMessage = Type.Object({
  ...MessageSummary.properties,
  /** The outcome of a message that this agent sent. */
  ...Type.Partial(Type.Object(sentOutcome)).properties,
  refs: Type.Optional(Type.Array(Type.String())),
  body: Type.String(),
  /** The place at which the rest of the body begins, in Unicode code points. */
  next_body_offset: Type.Optional(Type.Integer()),
});
export type WholeMessage = Static<typeof WholeMessage>;

export const InboxResult = Type.Object({
  notice: Type.String(),
  unread: Type.Integer(),
  total: Type.Integer(),
  /** The answer of list. */
  summaries: Type.Optional(Type.Array(MessageSummary)),
  /** The answer of read and thread. */
  messages: Type.Optional(Type.Array(WholeMessage)),
  /**
   * The messages that mark_read, ack and read changed, if there are any. The steps come with one message that is named.
   */
  sent: Type.Optional(Type.Array(SentSummary)),
  waiting: Type.Optional(WaitingSummary),
  /** The messages that mark_read, ack and read changed, if there are any. */
  changed: Type.Optional(Type.Array(messageId)),
  /** Ids of the input that are not in this mailbox. */
  not_found: Type.Optional(Type.Array(messageId)),
  /** The end of a list that waited, and has nothing to show. */
  wait: Type.Optional(Type.Enum(['time is up', 'the daemon stops'], TEXT)),
  /** Absent on the last page. A page of a search may be short, or empty, before that: go on. */
  next_cursor: Type.Optional(Type.String()),
});
export type InboxResult = Static<typeof InboxResult>;

export const WatchInboxInput = Type.Object(
  {
    mark: Type.Optional(
      Type.String({ maxLength: 64, description: 'mark of the answer before. Without it the answer comes at once.' }),
    ),
    wait_ms: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: INBOX_WAIT_MS_MAX,
        description: 'How long to wait for something else to be unread than at mark.',
      }),
    ),
    oldest_first: Type.Optional(Type.Boolean({ description: 'Show the oldest unread messages, and not the newest.' })),
  },
  CLOSED,
);
export type WatchInboxInput = Static<typeof WatchInboxInput>;

/** The operation marks nothing, neither read nor notified. */
export const WatchInboxResult = Type.Object({
  /** Stands for the set of unread messages: the same mark, the same set. */
  mark: Type.String(),
  notice: InboxResult.properties.notice,
  unread: Type.Integer(),
  total: Type.Integer(),
  /** The newest unread message that wakes its reader. */
  newest_waking: Type.Optional(messageId),
  /** The newest first, or the oldest, at most `UNREAD_SHOWN_MAX`. */
  summaries: Type.Array(MessageSummary),
});
export type WatchInboxResult = Static<typeof WatchInboxResult>;

export const WaitHeardInput = Type.Object(
  {
    /** The caller's name of its call of `mail-inbox`. */
    call: Type.String({ minLength: 1, maxLength: 64 }),
    /** The answer could not be passed on. */
    failed: Type.Optional(Type.Boolean()),
  },
  CLOSED,
);
export type WaitHeardInput = Static<typeof WaitHeardInput>;

export const WaitHeardResult = Type.Object({
  /** Says whether the call was still waiting for this word. */
  counted: Type.Boolean(),
});
export type WaitHeardResult = Static<typeof WaitHeardResult>;

const SEARCH_LIMIT_MAX = 100;

export const SearchInput = Type.Object(
  {
    text: Type.String({
      minLength: 1,
      maxLength: SEARCH_CHARACTERS_MAX,
      description:
        'Words, "phrases" and filters, all of which are to be true of a message: core/mail-query.ts has them.',
    }),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: SEARCH_LIMIT_MAX })),
    cursor: Type.Optional(
      Type.String({ minLength: 1, maxLength: 200, description: 'next_cursor of the answer before.' }),
    ),
  },
  CLOSED,
);
export type SearchInput = Static<typeof SearchInput>;

export const SearchResult = Type.Object({
  notice: Type.String(),
  /** The newest first. */
  summaries: Type.Array(MessageSummary),
  /** Null when everything was searched. An answer that read as much as one may has one, and fewer than `limit`. */
  next_cursor: Type.Union([Type.String(), Type.Null()]),
});
export type SearchResult = Static<typeof SearchResult>;
