/** What is shown of the relay that this host uses, and what is asked about it. */
import { type Static, Type } from 'typebox';
import { LimitsShape } from '../../protocol/responses.ts';
import { Count, EpochText, PublicKeyText, Seq, Time } from '../../protocol/shapes.ts';

const orNull = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const Text = Type.String({ minLength: 1, maxLength: 4096 });

export const RelaySetInput = Type.Object({
  url: Type.String({ minLength: 1, maxLength: 4096, description: 'The address of the relay.' }),
  /** Its fingerprint. Without one the first key that it shows is trusted. */
  key: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  /** An absolute path: read anew for every enrolment. */
  token_file: Type.Optional(Text),
  /** Run by `sh -c` for every enrolment. */
  token_command: Type.Optional(Text),
});
export type RelaySetInput = Static<typeof RelaySetInput>;

export const PinnedRelay = Type.Object({
  url: Type.String(),
  relay_pubkey: PublicKeyText,
  fingerprint: Type.String(),
  pinned_at: Time,
  /** Version 1 pins no key: `relay_pubkey` is what its challenges show. */
  protocol: Type.Enum([1, 2]),
  token_from: orNull(Type.Enum(['file', 'command'])),
});
export type PinnedRelay = Static<typeof PinnedRelay>;

export const RelaySetResult = Type.Object({
  relay: PinnedRelay,
  /** `same`: the key was pinned before. `named`: it is the one that was asked for. `first-use`: nobody vouched for it. */
  trust: Type.Enum(['same', 'named', 'first-use']),
});
export type RelaySetResult = Static<typeof RelaySetResult>;

export const RelayUnsetResult = Type.Object({
  relay: PinnedRelay,
  /** Rows that it took and nobody has confirmed yet. */
  relay_accepted: Count,
});
export type RelayUnsetResult = Static<typeof RelayUnsetResult>;

export const LINK_STATES = ['unset', 'key-changed', 'connecting', 'ready', 'failing'] as const;

export const RelayStatusResult = Type.Object({
  relay: orNull(PinnedRelay),
  state: Type.Enum([...LINK_STATES]),
  problem: orNull(Type.Object({ code: Type.String(), message: Type.String(), at: Time })),
  /** A key that it showed and that nobody has confirmed. */
  seen_key: orNull(Type.Object({ relay_pubkey: PublicKeyText, fingerprint: Type.String(), at: Time })),
  epoch: orNull(EpochText),
  /** How far this host's clock is ahead of the relay's, in milliseconds. */
  clock_ahead_ms: orNull(Type.Integer()),
  limits: orNull(LimitsShape),
  enrolment: orNull(
    Type.Object({
      checked_at: Time,
      authorized_by: orNull(Type.String()),
      account: orNull(Type.String()),
      crowded: Type.Boolean(),
      valid_until: orNull(Time),
      enc_key: orNull(Type.Object({ at: Time, checked_at: Time })),
      senders: orNull(Type.Object({ count: Count, iat: Time, checked_at: Time })),
    }),
  ),
  received_through: Seq,
  head_seq: orNull(Seq),
  /** Whether the relay holds an empty page back until something comes; null before that is known. */
  long_poll: orNull(Type.Boolean()),
  outbox: Type.Object({ pending: Count, relay_accepted: Count }),
  /** Items in quarantine that came from a relay. */
  quarantined: Count,
});
export type RelayStatusResult = Static<typeof RelayStatusResult>;
