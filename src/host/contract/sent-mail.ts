/** Says what became of sent mail: the states of each recipient, as `poste sent` and the tools show them. */
import { type Static, Type } from 'typebox';
import { CLOSED, Moment } from '../../protocol/shapes.ts';
import { LIST_LIMIT_MAX } from './limits.ts';
import { MESSAGE_KINDS } from '../core/rows.ts';

/** Some clients want a type for every value, enums too. */
const TEXT = { type: 'string' } as const;

/** `stored`: it waits in this host's outbox. `relay`: the relay has it. */
export const SENT_STATES = [
  'stored',
  'relay',
  'delivered',
  'notified',
  'read',
  'acked',
  'quarantined',
  'undelivered',
  'unconfirmed',
  'cancelled',
] as const;

const knownState = {
  state: Type.Enum([...SENT_STATES], TEXT),
  /** The time at which it reached this state: by the recipient host's clock, if a receipt says it. */
  at: Moment,
};
/** All known states, in the order in which they became known; the last is `state`. */
const steps = Type.Array(Type.Object(knownState));

const SentRecipient = Type.Object({ recipient: Type.String(), ...knownState, steps });
export type SentRecipient = Static<typeof SentRecipient>;

export const SentMessage = Type.Object({
  message_id: Type.String(),
  thread: Type.String(),
  subject: Type.String(),
  kind: Type.Enum([...MESSAGE_KINDS]),
  needs_reply: Type.Boolean(),
  created_at: Moment,
  recipients: Type.Array(SentRecipient),
});
export type SentMessage = Static<typeof SentMessage>;

/**
 * The members in which `mail_inbox` shows the recipients of a message that this agent sent: the first ones, in a list.
 */
export const sentOutcome = {
  recipients: Type.Array(Type.Object({ to: Type.String(), ...knownState, steps: Type.Optional(steps) })),
  /** The number of them, when not all are shown. */
  recipient_count: Type.Optional(Type.Integer()),
};

/** A message that this agent sent. Members are left out that say the usual. */
export const SentSummary = Type.Object({
  message_id: Type.String(),
  /** Absent where the message began its thread. */
  thread: Type.Optional(Type.String()),
  subject: Type.String(),
  kind: Type.Optional(Type.Enum([...MESSAGE_KINDS], TEXT)),
  needs_reply: Type.Optional(Type.Boolean()),
  created_at: Moment,
  ...sentOutcome,
});
export type SentSummary = Static<typeof SentSummary>;

/** Numbers stand for the messages of one mailbox on a terminal. */
export const NumbersInput = Type.Object(
  {
    message_ids: Type.Optional(Type.Array(Type.String({ maxLength: 128 }), { maxItems: LIST_LIMIT_MAX })),
    numbers: Type.Optional(Type.Array(Type.Integer({ minimum: 1 }), { maxItems: LIST_LIMIT_MAX })),
  },
  CLOSED,
);
export type NumbersInput = Static<typeof NumbersInput>;

/** The messages that are known. */
export const NumbersResult = Type.Object({
  messages: Type.Array(Type.Object({ number: Type.Integer(), message_id: Type.String() })),
});
export type NumbersResult = Static<typeof NumbersResult>;

export const SentInput = Type.Object(
  {
    message_id: Type.Optional(
      Type.String({ minLength: 1, maxLength: 128, description: 'This message alone; without the other members.' }),
    ),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIST_LIMIT_MAX })),
    cursor: Type.Optional(
      Type.String({ minLength: 1, maxLength: 400, description: 'next_cursor of the page before.' }),
    ),
  },
  CLOSED,
);
export type SentInput = Static<typeof SentInput>;

/** Newest first. */
export const SentResult = Type.Object({
  messages: Type.Array(SentMessage),
  next_cursor: Type.Union([Type.String(), Type.Null()]),
});
export type SentResult = Static<typeof SentResult>;
