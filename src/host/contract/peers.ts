/** Inputs and results of the operations on paired hosts, this host's key and its relay. */
import { type Static, Type } from 'typebox';
import { RelayEvidenceShape } from '../../protocol/evidence.ts';
import { LanAddressText } from '../../protocol/lan.ts';
import { LimitsShape } from '../../protocol/responses.ts';
import {
  Count,
  EpochText,
  ExactMoment,
  HashText,
  HostNameText,
  Moment,
  orNull,
  PublicKeyText,
  Seq,
} from '../../protocol/shapes.ts';
import { EVIDENCE_KINDS } from '../core/relay-trust.ts';
import { CA_CHARACTERS_MAX, PAIR_WAIT_MS_MAX } from './limits.ts';

const PeerName = Type.String({
  minLength: 1,
  maxLength: 80,
  description: 'The name of a paired host, or its fingerprint.',
});

export const PeerView = Type.Object({
  host: HostNameText,
  host_pubkey: PublicKeyText,
  fingerprint: Type.String(),
  /** Keys it had before. */
  retired_keys: Count,
  address: orNull(Type.String()),
  paired_at: Moment,
  reached_at: orNull(Moment),
  /** Failed attempts over the LAN since it was last reached. */
  lan_failures: Count,
  /** The number of agents in its list; null before it sent one. */
  agents: orNull(Count),
  directory_age_seconds: orNull(Count),
  has_confirmed: Type.Boolean(),
  /** Says whether it is known to have this host's present key. */
  knows_our_key: Type.Boolean(),
});
export type PeerView = Static<typeof PeerView>;

export const PeersResult = Type.Object({ peers: Type.Array(PeerView) });
export type PeersResult = Static<typeof PeersResult>;

export const UnpairInput = Type.Object({ host: PeerName });
export type UnpairInput = Static<typeof UnpairInput>;

export const PeerAddressInput = Type.Object({ host: PeerName, address: LanAddressText });
export type PeerAddressInput = Static<typeof PeerAddressInput>;

const Fingerprint = Type.String({ pattern: '^SHA256:[A-Za-z0-9+/]{43}$', description: 'SHA256: and 43 characters.' });
const PairingCodeText = Type.String({ minLength: 52, maxLength: 100 });

/** With the fingerprint of the host that will accept, that host alone is paired, and nothing is confirmed. */
export const InviteInput = Type.Object({ fingerprint: Type.Optional(Fingerprint) });
export type InviteInput = Static<typeof InviteInput>;

export const InviteResult = Type.Object({
  /** For the other host's owner; it pairs one host, once. */
  code: Type.String(),
  expires_at: Moment,
  /** The addresses at which this host can be called, `host:port`, the likeliest first. */
  addresses: Type.Array(Type.String(), { minItems: 1 }),
  fingerprint: Type.String(),
  /** An earlier code was still good, and is void now. */
  voids_earlier: Type.Boolean(),
});
export type InviteResult = Static<typeof InviteResult>;

export const PairWaitInput = Type.Object({
  code: PairingCodeText,
  wait_ms: Type.Integer({ minimum: 0, maximum: PAIR_WAIT_MS_MAX }),
});
export type PairWaitInput = Static<typeof PairWaitInput>;

/** The host that came with the code, null while there is none. Nothing but the code has proven it. */
export const PairWaitResult = Type.Object({
  acceptor: orNull(
    Type.Object({
      host: HostNameText,
      fingerprint: Type.String(),
      /** Null unless it has proven where it listens. */
      address: orNull(Type.String()),
    }),
  ),
});
export type PairWaitResult = Static<typeof PairWaitResult>;

/** The fingerprint is that which the owner was shown. */
export const ConfirmInput = Type.Object({ code: PairingCodeText, fingerprint: Fingerprint });
export type ConfirmInput = Static<typeof ConfirmInput>;

export const DeclineInput = Type.Object({ code: PairingCodeText });
export type DeclineInput = Static<typeof DeclineInput>;

export const AcceptInput = Type.Object({ code: PairingCodeText, address: LanAddressText });
export type AcceptInput = Static<typeof AcceptInput>;

export const RenameHostInput = Type.Object({ name: HostNameText });
export type RenameHostInput = Static<typeof RenameHostInput>;

export const RenameHostResult = Type.Object({
  host: HostNameText,
  /** The name until now; the same when nothing was changed. */
  former_host: HostNameText,
  renamed: Type.Boolean(),
});
export type RenameHostResult = Static<typeof RenameHostResult>;

export const RotateKeyResult = Type.Object({
  host_pubkey: PublicKeyText,
  fingerprint: Type.String(),
  old_pubkey: PublicKeyText,
  /** Paired hosts that the new key is sent to; those that answer get it at once. */
  peers: Count,
});
export type RotateKeyResult = Static<typeof RotateKeyResult>;

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

export const RelaySetResult = Type.Object({
  relay: PinnedRelay,
  /** `same`: the key was pinned before. `named`: it is the key that the input names. `first-use`: pinned unverified. */
  trust: Type.Enum(['same', 'named', 'first-use']),
});
export type RelaySetResult = Static<typeof RelaySetResult>;

export const RelayUnsetResult = Type.Object({
  relay: PinnedRelay,
  /** Messages at the relay without a delivery receipt; delivery receipts themselves are left out. */
  relay_accepted: Count,
});
export type RelayUnsetResult = Static<typeof RelayUnsetResult>;

/** `two-histories`: in the place of `connecting` and `ready`, while there is signed evidence that nobody dismissed. */
export const LINK_STATES = ['unset', 'key-changed', 'connecting', 'ready', 'failing', 'two-histories'] as const;

export const RelayStatusResult = Type.Object({
  relay: orNull(PinnedRelay),
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
  /** Messages; `receipts_pending` counts delivery receipts that wait for a transport. */
  outbox: Type.Object({ pending: Count, relay_accepted: Count, receipts_pending: Count }),
  /** Items from a relay in quarantine. */
  quarantined: Count,
  /** Evidence against this relay that the owner has not dismissed. */
  evidence: Count,
});
export type RelayStatusResult = Static<typeof RelayStatusResult>;

export const EvidenceView = Type.Object({
  /** In the order in which it was found, from 1. */
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
