/** Inputs and results of the operations on the relays of this host, and on the evidence against them. */
import { type Static, Type } from 'typebox';
import { RelayEvidenceShape } from '../../protocol/evidence.ts';
import { LimitsShape } from '../../protocol/responses.ts';
import { Count, EpochText, ExactMoment, HashText, orNull, PublicKeyText, Seq } from '../../protocol/shapes.ts';
import { EVIDENCE_KINDS } from '../core/relay-trust.ts';
import { CA_CHARACTERS_MAX, RELAYS_MAX } from './limits.ts';

const Text = Type.String({ minLength: 1, maxLength: 4096 });

export const RelaySetInput = Type.Object({
  url: Type.String({ minLength: 1, maxLength: 4096, description: 'The address of the relay.' }),
  /** Its fingerprint. Without it, the first key that the relay shows is pinned. */
  key: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  /** An absolute path; the file is read for every enrolment. */
  token_file: Type.Optional(Text),
  /** Run by `sh -c` for every enrolment. */
  token_command: Type.Optional(Text),
  /** Certificates (PEM) that are trusted for this relay besides Node's own, and the file they came from. */
  ca: Type.Optional(Type.Object({ pem: Type.String({ minLength: 1, maxLength: CA_CHARACTERS_MAX }), path: Text })),
  /** Verifier keys of those who are to cosign the log; absent: as before, none: nobody. */
  witnesses: Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 200 }), { maxItems: 4 })),
});
export type RelaySetInput = Static<typeof RelaySetInput>;

export const PinnedRelay = Type.Object({
  url: Type.String(),
  relay_pubkey: PublicKeyText,
  fingerprint: Type.String(),
  pinned_at: ExactMoment,
  /** With version 1 no key is pinned: `relay_pubkey` is the key of its challenges. */
  protocol: Type.Enum([1, 2]),
  token_from: orNull(Type.Enum(['file', 'command'])),
  /** The file with the certificate of its private authority. */
  ca_file: orNull(Type.String()),
});
export type PinnedRelay = Static<typeof PinnedRelay>;

const TRUST = ['same', 'named', 'first-use'] as const;

export const RelaySetResult = Type.Object({
  relay: PinnedRelay,
  /** `same`: the key was pinned before. `named`: it is the key that the input names. `first-use`: pinned unverified. */
  trust: Type.Enum([...TRUST]),
});
export type RelaySetResult = Static<typeof RelaySetResult>;

export const RelayUnsetResult = Type.Object({
  relay: PinnedRelay,
  /** Messages at the relay without a delivery receipt; delivery receipts themselves are left out. */
  relay_accepted: Count,
});
export type RelayUnsetResult = Static<typeof RelayUnsetResult>;

/** `home`: hosts that this one is paired with learn that it takes mail there. */
const RELAY_ROLES = ['home', 'guest'] as const;

/** `two-histories`: in the place of `connecting` and `ready`, while there is signed evidence that nobody dismissed. */
export const LINK_STATES = ['unset', 'key-changed', 'connecting', 'ready', 'failing', 'two-histories'] as const;

/** The state of one relay, and what this host has there. */
const LinkMembers = {
  state: Type.Enum([...LINK_STATES]),
  problem: orNull(Type.Object({ code: Type.String(), message: Type.String(), at: ExactMoment })),
  /** Another key that the relay showed and the owner has not confirmed. */
  seen_key: orNull(Type.Object({ relay_pubkey: PublicKeyText, fingerprint: Type.String(), at: ExactMoment })),
  epoch: orNull(EpochText),
  /** The epochs that it was seen to leave, at most the last 64. */
  epochs_left: Count,
  /** This host's clock is so far ahead of the relay's, in milliseconds. */
  clock_ahead_ms: orNull(Type.Integer()),
  limits: orNull(LimitsShape),
  enrolment: orNull(
    Type.Object({
      checked_at: ExactMoment,
      authorized_by: orNull(Type.String()),
      account: orNull(Type.String()),
      crowded: Type.Boolean(),
      valid_until: orNull(ExactMoment),
      enc_key: orNull(Type.Object({ at: ExactMoment, checked_at: ExactMoment })),
      senders: orNull(Type.Object({ count: Count, iat: ExactMoment, checked_at: ExactMoment })),
    }),
  ),
  received_through: Seq,
  head_seq: orNull(Seq),
  /** Says whether the relay supports long polls; null before that is known. */
  long_poll: orNull(Type.Boolean()),
  /** Evidence against this relay that the owner has not dismissed. */
  evidence: Count,
};

/** A relay of a paired host, as that host says. */
export const RelayOfHost = Type.Object({
  url: Type.String(),
  fingerprint: Type.String(),
  /** This host uses it too. */
  is_shared: Type.Boolean(),
});
export type RelayOfHost = Static<typeof RelayOfHost>;

/** One of several relays. */
export const RelayView = Type.Object({
  /** The place in the owner's order, from 1: commands take it as well as the address. */
  number: Type.Integer({ minimum: 1, maximum: RELAYS_MAX }),
  /** `guest`: only to write to hosts that live there; no host learns of it. */
  role: Type.Enum([...RELAY_ROLES]),
  relay: PinnedRelay,
  ...LinkMembers,
  /** Two tries in a row failed, a request has no answer, or there is no session: mail takes another relay. */
  is_down: Type.Boolean(),
  /** The time since its last good answer; null while this daemon had none. */
  heard_seconds: orNull(Count),
  /** The same while at least three tries failed in that time, else 0; the start of the daemon counts as an answer. */
  unheard_seconds: Count,
  /** Messages that it accepted and still has, as far as this host knows, and that no host has confirmed. */
  held: Count,
  /** The part of `held` that no other relay has. */
  held_alone: Count,
  /** The numbers of the relays that have the others too. */
  copies_at: Type.Array(Type.Integer({ minimum: 1, maximum: RELAYS_MAX })),
  /** Paired hosts that this host writes to over this relay, by name. */
  hosts: Type.Array(Type.String()),
});
export type RelayView = Static<typeof RelayView>;

/** The members of one relay are those of the first. */
export const RelayStatusResult = Type.Object({
  relay: orNull(PinnedRelay),
  ...LinkMembers,
  /** Messages; `receipts_pending` counts delivery receipts that wait for a transport. */
  outbox: Type.Object({ pending: Count, relay_accepted: Count, receipts_pending: Count }),
  /** Items from a relay in quarantine. */
  quarantined: Count,
  /** Every relay, in the owner's order; absent while there is none beside the first. */
  relays: Type.Optional(Type.Array(RelayView)),
});
export type RelayStatusResult = Static<typeof RelayStatusResult>;

export const RelayAddInput = Type.Object({
  ...RelaySetInput.properties,
  /** Adds it only to write to hosts that live there. */
  guest: Type.Optional(Type.Boolean()),
  /** Answers which relay would be added, and adds none. */
  dry_run: Type.Optional(Type.Boolean()),
});
export type RelayAddInput = Static<typeof RelayAddInput>;

export const RelayAddResult = Type.Object({
  relay: PinnedRelay,
  number: Type.Integer({ minimum: 1, maximum: RELAYS_MAX }),
  role: Type.Enum([...RELAY_ROLES]),
  /** As `trust` of `relay-set`; `same`: a guest that becomes a home, or the other way round. */
  trust: Type.Enum([...TRUST]),
  /** Paired hosts that take mail at a relay with this key. */
  hosts: Type.Array(Type.String()),
});
export type RelayAddResult = Static<typeof RelayAddResult>;

export const RelayListResult = Type.Object({ relays: Type.Array(RelayView) });
export type RelayListResult = Static<typeof RelayListResult>;

/** The number of a relay in the owner's order, or its address. */
const WhichRelay = Type.String({ minLength: 1, maxLength: 4096 });

export const RelayPreferInput = Type.Object({ relay: WhichRelay });
export type RelayPreferInput = Static<typeof RelayPreferInput>;

/** `last`: also the last home relay, after which only the LAN reaches this host. */
export const RelayRemoveInput = Type.Object({ relay: WhichRelay, last: Type.Optional(Type.Boolean()) });
export type RelayRemoveInput = Static<typeof RelayRemoveInput>;

export const RelayRemoveResult = Type.Object({
  relay: PinnedRelay,
  /** The number that it had. */
  number: Type.Integer({ minimum: 1, maximum: RELAYS_MAX }),
  role: Type.Enum([...RELAY_ROLES]),
  /** Messages that only this relay had: they go elsewhere now. */
  held_alone: Count,
  /** Items that still waited there for this host, after a last pull; null when the relay did not answer it. */
  left_behind: orNull(Count),
});
export type RelayRemoveResult = Static<typeof RelayRemoveResult>;

export const EvidenceView = Type.Object({
  /** The place in the order in which they were found, from 1. */
  number: Type.Integer({ minimum: 1 }),
  digest: HashText,
  relay_pubkey: PublicKeyText,
  fingerprint: Type.String(),
  epoch: EpochText,
  kind: Type.Enum([...EVIDENCE_KINDS]),
  /** Says whether the relay's signatures prove it: else it rests on what was not shown, or on what a host says. */
  signed: Type.Boolean(),
  sentence: Type.String(),
  /** The paired hosts that notes came from. */
  hosts: Type.Array(Type.String()),
  /** The item that is not in the log. */
  item_id: orNull(Type.String()),
  found_at: ExactMoment,
  dismissed_at: orNull(ExactMoment),
});
export type EvidenceView = Static<typeof EvidenceView>;

export const EvidenceResult = Type.Object({ evidence: Type.Array(EvidenceView) });
export type EvidenceResult = Static<typeof EvidenceResult>;

export const EvidenceInput = Type.Object({ number: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }) });
export type EvidenceInput = Static<typeof EvidenceInput>;

/** `document`: as it is exported. */
export const EvidenceShowResult = Type.Object({ evidence: EvidenceView, document: RelayEvidenceShape });
export type EvidenceShowResult = Static<typeof EvidenceShowResult>;
