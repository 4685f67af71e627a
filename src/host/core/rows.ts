/**
 * Everything a host keeps, as rows: plain values, one table each, written by transactions of the store.
 *
 * store/tables.ts says which table holds which rows under which key; quarantine.ts, relay-rows.ts and session-rows.ts
 * have those of the quarantine, of this host's relays and of sessions. Times are milliseconds since the
 * Unix epoch. protocol/ has what other hosts see; the names are the specification's.
 */
import type { Signer } from '../../protocol/ed25519.ts';
import type { HostName, ItemId, Epoch } from '../../protocol/names.ts';
import type { DeliveryState, HostRotation } from '../../protocol/documents.ts';
import type { Sha256Hex } from '../../protocol/encodings.ts';
import type { PushedKind } from '../../protocol/items.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { DeniedAt, ProvenAt, RelayAcceptance, RelayCopy, TriedRelay } from './relay-acceptance.ts';

declare const agentIdBrand: unique symbol;
/** The lasting id of an agent, whatever its name: 32 hexadecimal digits, or `owner`. */
export type AgentId = string & { readonly [agentIdBrand]: true };

declare const peerIdBrand: unique symbol;
/** The lasting id of a paired host, whatever its key and name: 32 hexadecimal digits. */
export type PeerId = string & { readonly [peerIdBrand]: true };

declare const messageRefBrand: unique symbol;
/** The name of a message on this host: its id, unless a peer sent an id that another message already had. */
export type MessageRef = string & { readonly [messageRefBrand]: true };

declare const addressBrand: unique symbol;
/** `agent@host`, a concrete recipient or sender. */
export type Address = string & { readonly [addressBrand]: true };

/** The id of the owner's mailbox: the person whose host this is. */
export const OWNER_ID = 'owner' as AgentId;
/** Names that no agent may have: the owner's, and the sender of the host's own reports. */
export const RESERVED_NAMES: ReadonlySet<string> = new Set(['owner', 'poste']);

export const MESSAGE_KINDS = ['message', 'request', 'reply', 'status', 'decision', 'alert', 'task'] as const;
export type MessageKind = (typeof MESSAGE_KINDS)[number];
export const ORIGINS = ['agent', 'external'] as const;
export type Origin = (typeof ORIGINS)[number];

/** A signing key of this host. Exactly one is not retired. */
export interface HostKey {
  publicKey: PublicKey;
  /** Base64 of the 32-byte Ed25519 seed. */
  seed: string;
  sinceMs: number;
  retiredAtMs: number | null;
  /** Of a retired one: its owner said that somebody else may have it. */
  isStolen?: true;
}

/** An encryption key of this host. Exactly one is not retired; a retired one still opens mail for 60 days. */
export interface SealKey {
  /** Base64 of the X25519 key. */
  encPub: string;
  /** Base64. */
  secret: string;
  sinceMs: number;
  retiredAtMs: number | null;
}

export interface SignedRotation {
  rec: HostRotation;
  old_sig: string;
  new_sig: string;
}

export interface IdentityRow {
  hostName: HostName;
  createdAtMs: number;
  keys: HostKey[];
  sealKeys: SealKey[];
  /** Oldest first; sent again to peers and relays that do not know them. */
  rotations: SignedRotation[];
  /** Receipt sequence numbers are never below this: set by a restore. */
  receiptFloor: number;
  /** Retention deleted sent messages up to this time: a later receipt for one of them is not from a stranger. */
  sentForgottenMs?: number;
}

/** The host's name and present keys. Replaced as a whole when one of them changes. */
export interface Identity {
  hostName: HostName;
  signer: Signer;
  sealKey: SealKey;
}

export interface AgentRow {
  agentId: AgentId;
  /** As its owner wrote it. */
  name: string;
  roles: string[];
  createdAtMs: number;
  removedAtMs: number | null;
}

/** A present or former name of an agent: mail to a former one is forwarded. */
export interface AgentNameRow {
  agentId: AgentId;
  name: string;
  /** When the agent gave up this name. */
  retiredAtMs: number | null;
}

export interface MessageRow {
  ref: MessageRef;
  /** The id that its sender gave it. */
  id: ItemId;
  thread: MessageRef;
  from: Address;
  /** The sender, if it is an agent of this host; null for mail from peers and for the host's own reports. */
  fromAgent: AgentId | null;
  fromPeer: PeerId | null;
  /** All recipients that this host knows of. */
  to: Address[];
  subject: string;
  kind: MessageKind;
  needsReply: boolean;
  origin: Origin;
  refs: string[];
  replyTo: MessageRef | null;
  /** By the sender's clock. */
  createdAtMs: number;
  /** By this host's clock. */
  storedAtMs: number;
  bodyBytes: number;
}

/** The counts of a mailbox, changed in the same transaction as the rows that they count. */
export interface MailboxRow {
  nextPosition: number;
  total: number;
  unread: number;
  /** Unread messages that wake. */
  unreadWaking: number;
}

type EntryState = 'unread' | 'read' | 'acked';

/** One message in one mailbox. Positions go up from 1 and are never used twice. */
export interface EntryRow {
  ref: MessageRef;
  thread: MessageRef;
  state: EntryState;
  /** Says whether it wakes an idle recipient. */
  wakes: boolean;
  storedAtMs: number;
  /** When the agent, or a program on its behalf, was notified of it. */
  notifiedAtMs: number | null;
  readAtMs: number | null;
  ackedAtMs: number | null;
  /** The former name of the mailbox's agent that it was addressed to, if it was one. */
  forwardedFrom: string | null;
}

export type RecipientState = 'pending' | DeliveryState | 'quarantined' | 'undelivered' | 'unconfirmed' | 'cancelled';

/** A state that a recipient reached, and when: by its host's clock, if a receipt says it. */
export interface SentStep {
  state: RecipientState;
  atMs: number;
}

export interface SentRecipient {
  address: Address;
  /** Set for a recipient on this host. */
  agentId: AgentId | null;
  peerId: PeerId | null;
  state: RecipientState;
  atMs: number;
  /** The seq of the receipt that gave the state; 0 without one. */
  seq: number;
  /** All known states in the order in which they became known, at most `SENT_STEPS_MAX`; the last one is `state`. */
  steps: SentStep[];
}

/** A row says what became of a message that an agent of this host sent. */
export interface SentRow {
  ref: MessageRef;
  agentId: AgentId;
  createdAtMs: number;
  recipients: SentRecipient[];
  /** Its position in the sender's view of the thread; null when the sender is a recipient too. */
  threadPosition: number | null;
}

export const OUTBOX_STATES = [
  'pending',
  'lan-accepted',
  'relay-accepted',
  'done',
  'quarantined',
  'expired',
  'unconfirmed',
  'undelivered',
  'cancelled',
] as const;
export type OutboxState = (typeof OUTBOX_STATES)[number];

/** One item for one paired host. Its wire bytes are made once, stored beside it and never change. */
export interface OutboxRow {
  rowId: number;
  kind: PushedKind;
  itemId: ItemId;
  /** The message it carries, or that it is a receipt for. */
  ref: MessageRef;
  peerId: PeerId;
  /** The recipients on that host. */
  recipients: Address[];
  wireHash: Sha256Hex;
  wireBytes: number;
  state: OutboxState;
  createdAtMs: number;
  /** The time of the next attempt or deadline; null when the row is finished. */
  nextAtMs: number | null;
  /** Failed attempts over the LAN since the last success. */
  lanAttempts: number;
  relayAttempts: number;
  /** The first time at which its bytes may have reached a relay. */
  firstPushAtMs: number | null;
  /** When the peer accepted it over the LAN. That is no proof: only a delivery receipt is. */
  lanAcceptedAtMs: number | null;
  acceptance: RelayAcceptance | null;
  /** The first acceptance by a relay, by this host's clock; absent before it, and in rows older than this field. */
  firstAccepted?: { atMs: number; retentionMs: number };
  /** Of `acceptance`. */
  proven?: ProvenAt;
  denied?: DeniedAt;
  /**
   * At most one of each relay; absent while only one was in use. `acceptance` is then the newest live one of them, so
   * that older software finds it.
   */
  copies?: readonly RelayCopy[];
  /** The relays that its bytes left for while there were several; absent likewise. */
  tried?: readonly TriedRelay[];
  /** Of a receipt: the relays that brought the message, while there were several. */
  broughtBy?: readonly PublicKey[];
  /** The relays that brought delivery receipts for it, each with its first one, while there were several. */
  confirmedOver?: readonly { relayPubkey: PublicKey; atMs: number }[];
  /** When a relay of version 1 last answered that it has it: without proof, and without confirmation. */
  relayStoredAtMs?: number;
  /** When the host alerted the sender that it is still not delivered. */
  alertedAtMs: number | null;
  lastError: string | null;
  /** Recipients whose delivery receipt came. */
  confirmed: Address[];
}

/** This host knew this of its clock, so that a start notices a jump (host-clock.ts). */
export interface ClockRow {
  seenMs: number;
  /** Oldest first. */
  jumps: readonly { beforeMs: number; afterMs: number }[];
}

export interface PeerKey {
  publicKey: PublicKey;
  pinnedAtMs: number;
  retiredAtMs: number | null;
}

/** A signed advertisement of the key that mail for a peer is sealed to. */
export interface PeerEncKey {
  hostPubkey: PublicKey;
  encPub: string;
  at: number;
  sig: string;
}

export interface PeerRow {
  peerId: PeerId;
  hostName: HostName;
  /** Exactly one is not retired. Retired ones verify what was signed before. */
  keys: PeerKey[];
  encKey: PeerEncKey;
  /** `host:port` where its LAN listener was last known. */
  address: string | null;
  /** The port of its listener, as it said when it was paired; absent in rows from before this was recorded. */
  port?: number;
  pairedAtMs: number;
  unpairedAtMs: number | null;
  reachedAtMs: number | null;
  /** Failed LAN attempts since it was last reached. */
  lanFailures: number;
  /** Requests with mail over the LAN since one was taken, and whether the peer answered the last one. */
  mailFailed?: { count: number; isAnswered: boolean };
  /**
   * The relay of this host at which the peer can be sent mail, as far as that was asked; of several the one that this
   * host prefers, and `alsoAt` has the others in that order. Absent where there is none.
   */
  atRelay?: PublicKey;
  alsoAt?: readonly PublicKey[];
  /** The one of several relays of this host over which something of the peer came last. */
  cameOver?: PublicKey;
  /** Those that had mail for the peer which it got over another one alone, or that said of such mail what was wrong. */
  doubted?: readonly DoubtedRelay[];
  /** The last list of agents that it sent. */
  directory: { agents: DirectoryAgent[]; fetchedAtMs: number } | null;
  /** Says whether it ever confirmed a delivery: an older program never does. */
  hasConfirmed: boolean;
  /** The key of this host that it last pinned: later rotations must be sent to it. */
  pinnedOurKey: PublicKey;
  /** The key of this host that its mail or receipts last proved it to know; a relay may have told it that key. */
  shownOurKey?: PublicKey;
}

/** The peer's mail takes another relay, where there is one. */
export interface DoubtedRelay {
  relayPubkey: PublicKey;
  /** The relay over which the peer got the mail. */
  over: PublicKey;
  /** Messages that showed it. */
  messages: number;
  untilMs: number;
}

export interface DirectoryAgent {
  name: string;
  roles: string[];
}

/** The place of an item at the relay that delivered it. */
export interface ItemAtRelay {
  pubkey: PublicKey;
  epoch: Epoch;
  /** Null from a relay that speaks only v1. */
  seq: number | null;
}

/** An envelope that came from a peer, by its id, so that a repeat is known. Kept for ever. */
export interface ArrivalRow {
  ref: MessageRef;
  /** SHA-256 of the envelope's signed bytes, its signature and hops left out. */
  contentHash: Sha256Hex;
  /** The hash of the wire bytes, which receipts name. */
  wireHash: Sha256Hex;
  /** The key that signed it, which receipts name. */
  senderPubkey: PublicKey;
  /** The transport that first brought it; absent in rows from before this was recorded. */
  via?: 'lan' | 'relay';
  /** Set when a relay brought it, by the relay's claim. */
  relay?: ItemAtRelay | null;
  /** The relays that brought a copy, where this host has several. */
  broughtBy?: readonly PublicKey[];
  /** The recipients that it was delivered to, by the addresses in the envelope. */
  recipients: { address: Address; agentId: AgentId }[];
  atMs: number;
}

/** The last receipt that this host issued for one recipient of one envelope. */
export interface ReceiptRow {
  seq: number;
  state: DeliveryState;
  atMs: number;
}

/** The first use of an agent's idempotency key. */
export interface IdempotencyRow {
  contentHash: Sha256Hex;
  ref: MessageRef;
  atMs: number;
  /** The result as it was given. */
  result: unknown;
}
