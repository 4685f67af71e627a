/** Inputs and results of the operations that the owner's page has besides those of mail: its list, and people. */
import { type Static, Type } from 'typebox';
import { CLOSED, Count, Moment, orNull } from '../../protocol/shapes.ts';
import { MESSAGE_KINDS } from '../core/rows.ts';
import { InboxResult, MessageSummary, SearchResult } from './mail.ts';
import { LINK_STATES } from './relays.ts';
import { ADDRESS_CHARACTERS_MAX, LIST_LIMIT_MAX, SEARCH_CHARACTERS_MAX } from './limits.ts';

/** The messages that are meant; each member narrows it. */
const filters = {
  text: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: SEARCH_CHARACTERS_MAX,
      description: 'As of mail-search.',
    }),
  ),
  from: Type.Optional(Type.String({ minLength: 1, maxLength: ADDRESS_CHARACTERS_MAX, description: 'agent@host.' })),
  kind: Type.Optional(Type.Enum([...MESSAGE_KINDS])),
  needs_reply: Type.Optional(
    Type.Boolean({ description: 'true: messages that need a reply, are not acked, and were not answered.' }),
  ),
};

export const ConversationsInput = Type.Object(
  {
    ...filters,
    state: Type.Optional(Type.Enum(['unread', 'unacked', 'all'])),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIST_LIMIT_MAX })),
    cursor: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
  },
  CLOSED,
);
export type ConversationsInput = Static<typeof ConversationsInput>;

/** A conversation stands at its newest message that was asked for. The counts are of its newest messages. */
export const ConversationSummary = Type.Object({
  newest: MessageSummary,
  /** The beginning of its body, on one line. */
  preview: Type.String(),
  /** Messages, those that the owner sent included; at most `CONVERSATION_MESSAGES_MAX`. */
  messages: Count,
  /** The writers, each once, in the order in which they began. */
  senders: Type.Array(Type.String()),
  unread: Type.Array(MessageSummary.properties.message_id),
  /** They were received and are not acked yet. */
  not_done: Type.Array(MessageSummary.properties.message_id),
  /** Says whether a message needs a reply that the owner has not sent. */
  needs_reply: Type.Boolean(),
});
export type ConversationSummary = Static<typeof ConversationSummary>;

export const ConversationsResult = Type.Object({
  notice: InboxResult.properties.notice,
  unread: Count,
  total: Count,
  /** Stands for the newest message of the mailbox, for `mail-read-all`. */
  through: Count,
  /** The newest first. */
  conversations: Type.Array(ConversationSummary),
  /** Null when nothing older is left. Before that a page may have fewer conversations than it was to have. */
  next_cursor: SearchResult.properties.next_cursor,
});
export type ConversationsResult = Static<typeof ConversationsResult>;

export const ReadAllInput = Type.Object(
  { ...filters, through: Type.Integer({ minimum: 0, description: 'Of mail-conversations: later mail stays unread.' }) },
  CLOSED,
);
export type ReadAllInput = Static<typeof ReadAllInput>;

export const ReadAllResult = Type.Object({ changed: Count });
export type ReadAllResult = Static<typeof ReadAllResult>;

export const PeopleResult = Type.Object({
  /** The address of the owner. */
  you: Type.String(),
  agents: Type.Array(
    Type.Object({
      address: Type.String(),
      name: Type.String(),
      host: Type.String(),
      roles: Type.Array(Type.String()),
      /** `live`: it has a live session. `offline`: it has none. `remote`: its host is another, which does not tell. */
      presence: Type.Enum(['live', 'offline', 'remote']),
      /** The time at which one of its sessions was last seen; null when none is known. */
      seen_at: orNull(Moment),
    }),
  ),
  /** This host first. */
  hosts: Type.Array(
    Type.Object({
      host: Type.String(),
      /** The way that mail goes there now, as `reach` of `status`. */
      way: Type.Enum(['here', 'lan', 'relay', 'none', 'unknown']),
      /** The time at which it was last reached over the LAN. */
      reached_at: orNull(Moment),
      agents: orNull(Count),
      /** The age of its list of agents. */
      directory_age_seconds: orNull(Count),
    }),
  ),
  /** The relay that is set here. */
  relay: orNull(Type.Object({ url: Type.String(), state: Type.Enum([...LINK_STATES]) })),
  /** All of them, in the owner's order; absent while there is none beside the first. */
  relays: Type.Optional(Type.Array(Type.Object({ url: Type.String(), state: Type.Enum([...LINK_STATES]) }))),
});
export type PeopleResult = Static<typeof PeopleResult>;
