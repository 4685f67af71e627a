/** Inputs and results of the operations on paired hosts and this host's key. */
import { type Static, Type } from 'typebox';
import { LanAddressText } from '../../protocol/lan.ts';
import { Count, HostNameText, Moment, orNull, PublicKeyText } from '../../protocol/shapes.ts';
import { PAIR_WAIT_MS_MAX } from './limits.ts';
import { RelayOfHost } from './relays.ts';

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
  /** The relays where it takes mail, as `status` has them. */
  takes_mail_at: Type.Optional(Type.Array(RelayOfHost)),
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
  /** The other host's owner gets it; it pairs one host, once. */
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

export const RotateKeyInput = Type.Object({
  /** Somebody else may have the present key: a relay that goes on with it is a fault. */
  stolen: Type.Optional(Type.Boolean()),
});
export type RotateKeyInput = Static<typeof RotateKeyInput>;

export const RotateKeyResult = Type.Object({
  host_pubkey: PublicKeyText,
  fingerprint: Type.String(),
  old_pubkey: PublicKeyText,
  /** Paired hosts that the new key is sent to; those that answer get it at once. */
  peers: Count,
});
export type RotateKeyResult = Static<typeof RotateKeyResult>;
