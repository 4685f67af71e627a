/** The rows of the relays that this host uses, and of this host at each; and at which of them a paired host is. */
import type { Sha256Hex } from '../../protocol/encodings.ts';
import type { Epoch } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { PeerRow } from './rows.ts';

/** The source of the proof that a relay's authority asks for, fresh each time: a file, or what a command prints. */
export type RelayProofSource = { type: 'file'; path: string } | { type: 'command'; command: string };

/** A relay that this host uses, by its pinned key. */
export interface RelayRow {
  /** Without a slash at its end. */
  url: string;
  pubkey: PublicKey;
  pinnedAtMs: number;
  /** Another key was shown at this address: nothing goes there until the owner confirms it. */
  seenKey: { pubkey: PublicKey; atMs: number } | null;
  proof: RelayProofSource | null;
  /** The certificates, in PEM, of authorities that may have signed the relay's own, and the file that had them. */
  ca?: { pem: string; path: string };
  /** It only ever answered 404 to v2's info route: this host speaks v1 to it, which pins no key. */
  isV1?: true;
  /** The store generation that rows and positions are of; null before the relay was reached. */
  epoch: Epoch | null;
  /** `iat` of the newest sender list that was published: never gone behind. */
  sendersIatMs: number;
  /** When it last said that an item's time was up before it can have been: mail for all hosts avoids it for a day. */
  wrongNoticeAtMs?: number;
  /** Those who are to cosign its log, if the owner named any. */
  witnesses?: readonly WitnessOfRelay[];
}

/** Mail for this host may come over a `home` relay; one of a `guest` only lets it write to hosts that live there. */
export type RelayRole = 'home' | 'guest';

/** A relay beside the first one, which is a home. */
export interface FurtherRelayRow extends RelayRow {
  /** Its place in the owner's order: the first relay has 0. */
  rank: number;
  role: RelayRole;
}

/** This host's registrations at a relay, under one host key in one epoch: a cache, made again when it is missing. */
export interface RelayEnrolmentRow {
  /** When the relay showed this host as enrolled. */
  checkedAtMs: number;
  authorizedBy: string | null;
  account: string | null;
  isCrowded: boolean;
  /** When a hosted enrolment expires, by its token. */
  validUntilMs: number | null;
  /** The encryption key that the relay has for this host, as it was read back. */
  encKey: { encPub: string; at: number; checkedAtMs: number } | null;
  /** The list of accepted senders that the relay has, by its answer. */
  senders: { hash: Sha256Hex; count: number; iat: number; checkedAtMs: number } | null;
  /** This host is to register again, under this name or because the relay does not know it any more. */
  isOver?: true;
}

/** This host received its queue at a relay so far: all up to there is delivered, known or in quarantine. */
export interface RelayPositionRow {
  receivedThrough: number;
  /** The cursor after the last received page of a v1 relay, which has no seq. */
  cursor?: string;
  atMs: number;
}

type AtRelays = Pick<PeerRow, 'atRelay' | 'alsoAt'>;

/** The relays of this host at which a paired host was seen to be enrolled, in the order of this host. */
export function relaysOfPeer({ atRelay, alsoAt = [] }: AtRelays): PublicKey[] {
  return atRelay ? [atRelay, ...alsoAt] : [];
}

export function peerIsAt(peer: AtRelays, relayPubkey: PublicKey): boolean {
  return relaysOfPeer(peer).includes(relayPubkey);
}

/** The members of the row of a peer that is enrolled at these relays. */
export function atRelays([atRelay, ...alsoAt]: readonly PublicKey[]): AtRelays {
  return { ...(atRelay && { atRelay }), ...(alsoAt.length > 0 && { alsoAt }) };
}

/** A witness of the relay, and the newest checkpoint that it was seen to cosign. */
export interface WitnessOfRelay {
  /** Its verifier key. */
  vkey: string;
  /** The time of that cosignature; before the first, when the witness was named. */
  atMs: number;
  epoch: Epoch | null;
  size: number;
}
