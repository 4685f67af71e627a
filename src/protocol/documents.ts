/**
 * The documents that somebody signs, each with the exact value whose RFC 8785 bytes are signed.
 *
 * Every one has `v` and `type`, which keep a signature for one kind from ever being one for another. "Signed" means
 * Ed25519 over `canonicalBytes(document)`; the signature travels beside the document, never in it. The one that pairs
 * hosts on a LAN carries a MAC instead.
 */
import type { Sha256Hex } from './digest.ts';
import type { Epoch } from './epoch.ts';
import type { ItemId } from './names.ts';
import type { PublicKey } from './public-key.ts';

/** What a host key signs to enrol: the challenge, bound to one relay and to the claims. */
export interface EnrolClaim {
  v: 1;
  type: 'relay-enrol';
  /** Base64 of the 32 challenge bytes. */
  challenge: string;
  relay_pubkey: PublicKey;
  host: string;
  pubkey: PublicKey;
  owner_fp: string;
}

export function enrolClaim(fields: Omit<EnrolClaim, 'v' | 'type'>): EnrolClaim {
  return { v: 1, type: 'relay-enrol', ...fields };
}

/** The sender keys that a target accepts, signed by the target's host key. */
export interface SenderList {
  v: 1;
  type: 'relay-senders';
  host_pubkey: PublicKey;
  senders: PublicKey[];
  /** Milliseconds since the Unix epoch. */
  iat: number;
}

export function senderList(fields: Omit<SenderList, 'v' | 'type'>): SenderList {
  return { v: 1, type: 'relay-senders', ...fields };
}

/** The X25519 key that mail for a host is sealed to, signed by the host key. */
export interface EncKeyAdvertisement {
  v: 1;
  type: 'relay-enc-key';
  host_pubkey: PublicKey;
  /** Base64 of 32 bytes. */
  enc_pub: string;
  /** Milliseconds since the Unix epoch. */
  at: number;
}

export function encKeyAdvertisement(fields: Omit<EncKeyAdvertisement, 'v' | 'type'>): EncKeyAdvertisement {
  return { v: 1, type: 'relay-enc-key', ...fields };
}

/** The relay's word that it durably committed an item. A transport fact: no delivery, no mailbox acknowledgement. */
export interface AcceptReceipt {
  v: 1;
  type: 'relay-accept';
  relay_pubkey: PublicKey;
  epoch: Epoch;
  sender_pubkey: PublicKey;
  item_id: ItemId;
  targets: { host_pubkey: PublicKey; seq: number; wire_hash: Sha256Hex }[];
  /** Milliseconds since the Unix epoch. */
  at: number;
}

export function acceptReceipt(fields: Omit<AcceptReceipt, 'v' | 'type'>): AcceptReceipt {
  return { v: 1, type: 'relay-accept', ...fields };
}

/** The relay's word to the sender that an envelope item passed its retention without being acked. */
export interface ExpiryNotice {
  v: 1;
  type: 'relay-expired';
  item_id: ItemId;
  target_pubkey: PublicKey;
  accepted_at: number;
  expired_at: number;
}

export function expiryNotice(fields: Omit<ExpiryNotice, 'v' | 'type'>): ExpiryNotice {
  return { v: 1, type: 'relay-expired', ...fields };
}

/** That one host goes on under a new key. Both keys sign it, so the host that posts it needs no authority of its own. */
export interface HostRotation {
  v: 1;
  type: 'host-rotation';
  old_pubkey: PublicKey;
  new_pubkey: PublicKey;
  /** Milliseconds since the Unix epoch. */
  iat: number;
}

export function hostRotation(fields: Omit<HostRotation, 'v' | 'type'>): HostRotation {
  return { v: 1, type: 'host-rotation', ...fields };
}

/** What a host key signs to vouch for the cloud key that its account token is bound to. */
export interface CloudKeyCertificate {
  v: 1;
  type: 'relay-cloud-key';
  host_pubkey: PublicKey;
  /** RFC 7638 SHA-256 thumbprint of the cloud key, base64url. */
  jkt: string;
}

export function cloudKeyCertificate(fields: Omit<CloudKeyCertificate, 'v' | 'type'>): CloudKeyCertificate {
  return { v: 1, type: 'relay-cloud-key', ...fields };
}

/** The states of a delivery receipt, in rank order. */
export const DELIVERY_STATES = ['delivered', 'notified', 'read', 'acked'] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

/** The recipient host's word of how far an envelope came with one of its agents. */
export interface DeliveryReceipt {
  v: 1;
  type: 'receipt';
  /** The id of the envelope. */
  msg: string;
  /** `agent@host`. */
  recipient: string;
  /** Counts up per (msg, recipient), from the milliseconds of the first receipt on. */
  seq: number;
  state: DeliveryState;
  /** Milliseconds since the Unix epoch. */
  at: number;
  /** The host that received, and signs. */
  host_pubkey: PublicKey;
  sender_host_pubkey: PublicKey;
  /** Of the envelope's bytes as they were pushed to this host. */
  wire_hash: Sha256Hex;
}

export function deliveryReceipt(fields: Omit<DeliveryReceipt, 'v' | 'type'>): DeliveryReceipt {
  return { v: 1, type: 'receipt', ...fields };
}

/**
 * What proves on a LAN that both sides know one pairing code and that nobody changed a word between them: no signature
 * but a MAC under the secret of the code, over this document.
 */
export type LanPair = {
  v: 2;
  type: 'lan-pair';
  inviter_pubkey: PublicKey;
  acceptor_pubkey: PublicKey;
  /** Everything of the request or answer that carries the MAC but its `mac`; members that nobody knows stay. */
  body: Readonly<Record<string, unknown>>;
} & LanPairRole;

/** Who makes the MAC. The inviter's also covers the request that it answers, by that request's MAC. */
export type LanPairRole = { role: 'acceptor' } | { role: 'inviter'; acceptor_mac: string };

export function lanPair(fields: Pick<LanPair, 'inviter_pubkey' | 'acceptor_pubkey' | 'body'> & LanPairRole): LanPair {
  return { v: 2, type: 'lan-pair', ...fields };
}

/** A host's word that it listens at an address, for the host that made the nonce. */
export interface LanHelloWord {
  v: 1;
  type: 'lan-hello';
  /** Base64url of 16 to 32 bytes, as it was asked with. */
  nonce: string;
  /** Of the host that answers and signs. */
  pubkey: PublicKey;
  /** `host:port` as it was dialled and asked with. */
  address: string;
  /** Milliseconds since the Unix epoch, as the answer says. */
  now: number;
}

export function lanHelloWord(fields: Omit<LanHelloWord, 'v' | 'type'>): LanHelloWord {
  return { v: 1, type: 'lan-hello', ...fields };
}
