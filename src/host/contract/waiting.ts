/** Shows who waits for whom: the debts that `poste waiting`, the owner's page and `mail_inbox` show. */
import { type Static, Type } from 'typebox';
import { CLOSED, Count, Moment, orNull } from '../../protocol/shapes.ts';
import { DEBTS_SHOWN_MAX } from './limits.ts';
import { SENT_STATES } from './sent-mail.ts';

/** Some clients want a type for every value, enums too. */
const TEXT = { type: 'string' } as const;

/**
 * `live`, `offline`: an agent of this host. `remote`: its host is another, which does not tell. `unreachable`: neither
 * the LAN nor the relay reaches that host now. `unlisted`: that host does not list it any more. `gone`: it was removed,
 * or its host unpaired.
 */
const whereabouts = Type.Enum(['live', 'offline', 'remote', 'unreachable', 'unlisted', 'gone'], TEXT);
export type Whereabouts = Static<typeof whereabouts>;

export const WaitingInput = Type.Object(
  {
    all: Type.Optional(Type.Boolean({ description: 'Of all agents of the host, also where one asks.' })),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: DEBTS_SHOWN_MAX })),
  },
  CLOSED,
);
export type WaitingInput = Static<typeof WaitingInput>;

/** A question, and one who owes an answer to it. */
export const Debt = Type.Object({
  message_id: Type.String(),
  subject: Type.String(),
  asker: Type.String(),
  debtor: Type.String(),
  /** The time at which the question was sent, or came here if it is from another host. */
  since: Moment,
  /** The state that the question reached, and when it did. */
  state: Type.Enum([...SENT_STATES], TEXT),
  at: Moment,
  asker_is: whereabouts,
  debtor_is: whereabouts,
  /** The time at which this host reminded the debtor; null for one of another host, which its own host reminds. */
  reminded_at: orNull(Moment),
});
export type Debt = Static<typeof Debt>;

export const WaitingResult = Type.Object({
  /** The longest waiting first. */
  debts: Type.Array(Debt),
  /** The number of them; some may not be shown. */
  total: Count,
});
export type WaitingResult = Static<typeof WaitingResult>;

const shown = { message_id: Type.String(), subject: Type.String(), since: Moment, age: Type.String() };

/** The debts that `mail_inbox` shows: the longest waiting first. */
export const WaitingSummary = Type.Object({
  you_owe: Type.Array(Type.Object({ to: Type.String(), ...shown, is: whereabouts })),
  owed_to_you: Type.Array(
    Type.Object({ from: Type.String(), ...shown, state: Debt.properties.state, at: Moment, is: whereabouts }),
  ),
  /** The number of them that are not shown. */
  more: Type.Optional(Type.Integer()),
});
export type WaitingSummary = Static<typeof WaitingSummary>;
