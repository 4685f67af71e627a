/** What an agent sent and what became of it, recipient by recipient. */
import { type Static, Type } from 'typebox';
import { MESSAGE_KINDS } from '../core/rows.ts';

export const SENT_LIMIT_MAX = 100;

export const SentInput = Type.Object(
  {
    message_id: Type.Optional(
      Type.String({ minLength: 1, maxLength: 128, description: 'This message alone; without the other members.' }),
    ),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: SENT_LIMIT_MAX })),
    cursor: Type.Optional(
      Type.String({ minLength: 1, maxLength: 400, description: 'next_cursor of the page before.' }),
    ),
  },
  { additionalProperties: false },
);
export type SentInput = Static<typeof SentInput>;

export const RECIPIENT_STATES = [
  'pending',
  'delivered',
  'notified',
  'read',
  'acked',
  'quarantined',
  'undelivered',
  'unconfirmed',
  'cancelled',
] as const;

export const SentMessage = Type.Object({
  message_id: Type.String(),
  thread: Type.String(),
  subject: Type.String(),
  kind: Type.Enum([...MESSAGE_KINDS]),
  needs_reply: Type.Boolean(),
  /** Milliseconds since the Unix epoch. */
  created_at: Type.Integer(),
  recipients: Type.Array(
    Type.Object({
      recipient: Type.String(),
      state: Type.Enum([...RECIPIENT_STATES]),
      /** When it came to be so: by the clock of the recipient's host, where that said it. */
      at: Type.Integer(),
      /** Everything that was learned, in that order; the last is `state`. */
      steps: Type.Array(Type.Object({ state: Type.Enum([...RECIPIENT_STATES]), at: Type.Integer() })),
    }),
  ),
});
export type SentMessage = Static<typeof SentMessage>;

/** Newest first. */
export const SentResult = Type.Object({
  messages: Type.Array(SentMessage),
  next_cursor: Type.Union([Type.String(), Type.Null()]),
});
export type SentResult = Static<typeof SentResult>;
