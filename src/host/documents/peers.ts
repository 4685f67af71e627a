/** What is shown of paired hosts, and what is asked about pairing and this host's own key. */
import { type Static, Type } from 'typebox';
import { LanAddressText } from '../../protocol/lan.ts';
import { Count, HostNameText, PublicKeyText, Time } from '../../protocol/shapes.ts';

const orNull = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
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
  paired_at: Time,
  reached_at: orNull(Time),
  /** Failed attempts over the LAN since it was last reached. */
  lan_failures: Count,
  /** How many agents it told of; null before it did. */
  agents: orNull(Count),
  directory_age_seconds: orNull(Count),
  has_confirmed: Type.Boolean(),
});
export type PeerView = Static<typeof PeerView>;

export const PeersResult = Type.Object({ peers: Type.Array(PeerView) });
export type PeersResult = Static<typeof PeersResult>;

export const UnpairInput = Type.Object({ host: PeerName });
export type UnpairInput = Static<typeof UnpairInput>;

export const PeerAddressInput = Type.Object({ host: PeerName, address: LanAddressText });
export type PeerAddressInput = Static<typeof PeerAddressInput>;

export const InviteResult = Type.Object({
  /** To be told to the other host's owner; whoever has it can pair once. */
  code: Type.String(),
  expires_at: Time,
  /** Where this host can be called, `host:port`, the likeliest first. */
  addresses: Type.Array(Type.String(), { minItems: 1 }),
  fingerprint: Type.String(),
});
export type InviteResult = Static<typeof InviteResult>;

export const AcceptInput = Type.Object({
  code: Type.String({ minLength: 52, maxLength: 100 }),
  address: LanAddressText,
});
export type AcceptInput = Static<typeof AcceptInput>;

export const RotateKeyResult = Type.Object({
  host_pubkey: PublicKeyText,
  fingerprint: Type.String(),
  old_pubkey: PublicKeyText,
  /** Paired hosts that are to be told; those that answer are told at once. */
  peers: Count,
});
export type RotateKeyResult = Static<typeof RotateKeyResult>;
