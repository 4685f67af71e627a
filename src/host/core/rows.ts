/**
 * Everything a host keeps, as rows: plain values, one table each, written by transactions of the store.
 *
 * Keys are listed in `Keys`, rows in `Tables`. Times are milliseconds since the Unix epoch. What other hosts see of any
 * of this is in protocol/; the names here are the specification's.
 */
import type { HostName, ItemId } from '../../protocol/names.ts';
import type { AcceptReceipt, DeliveryState, HostRotation } from '../../protocol/documents.ts';
import type { Sha256Hex } from '../../protocol/digest.ts';
import type { Epoch } from '../../protocol/epoch.ts';
import type { ItemKind, PushedKind } from '../../protocol/items.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { QuarantineReason } from './quarantine-reasons.ts';

declare const agentIdBrand: unique symbol;
/** Who an agent is, whatever its name: 32 hexadecimal digits, or `owner`. */
export type AgentId = string & { readonly [agentIdBrand]: true };

declare const peerIdBrand: unique symbol;
/** Who a paired host is, whatever its key and name: 32 hexadecimal digits. */
export type PeerId = string & { readonly [peerIdBrand]: true };

declare const messageRefBrand: unique symbol;
/** How a message is called on this host. It is its id, unless a peer sent an id that was taken here. */
export type MessageRef = string & { readonly [messageRefBrand]: true };

declare const addressBrand: unique symbol;
/** `agent@host`, a concrete recipient or sender. */
export type Address = string & { readonly [addressBrand]: true };

/** The mailbox of the person whose host this is. */
export const OWNER_ID = 'owner' as AgentId;
/** Agents may not be called so: the person, and the host itself when it reports. */
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
}

/** A key that mail to this host is sealed to. Exactly one is not retired; retired ones still open for 60 days. */
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
  /** Oldest first; posted again to whoever does not know them. */
  rotations: SignedRotation[];
  /** Receipt sequence numbers are never below this: set by a restore. */
  receiptFloor: number;
}

export interface AgentRow {
  agentId: AgentId;
  /** As its owner wrote it. */
  name: string;
  roles: string[];
  createdAtMs: number;
  removedAtMs: number | null;
}

/** A name that exists or existed: mail to one that was renamed is forwarded. */
export interface AgentNameRow {
  agentId: AgentId;
  name: string;
  /** When the agent got another name. */
  retiredAtMs: number | null;
}

/** How a session can be woken. */
export type WakeMethod =
  /** The session's own hook waits for the daemon's word. */
  | { type: 'hook' }
  /** A program, run without a shell; the doorbell's text comes as its last argument. */
  | { type: 'command'; argv: string[] }
  /** Keys sent to a pane, as long as the session's process is what the pane shows. */
  | { type: 'tmux'; socket: string | null; pane: string };

export type WakeMethodName = WakeMethod['type'];

/** A process of this machine. Numbers are given again; when it began tells two with one number apart. */
export interface ProcessMark {
  pid: number;
  /** Opaque. */
  startedAt: string;
}

export interface SessionRow {
  agentId: AgentId;
  /** Chosen by the session: 1 to 128 characters of a message id. */
  sessionId: string;
  registeredAtMs: number;
  seenAtMs: number;
  endedAtMs: number | null;
  wake: WakeMethod[];
  /** The agent's program: as long as it runs the session is there. */
  process: ProcessMark | null;
  /** What woke it last, by proof. */
  woken: { method: WakeMethodName; atMs: number } | null;
}

export interface MessageRow {
  ref: MessageRef;
  /** As its sender gave it. */
  id: ItemId;
  thread: MessageRef;
  from: Address;
  /** Of a sender on this host; null for a peer's and for the host's own reports. */
  fromAgent: AgentId | null;
  fromPeer: PeerId | null;
  /** Everybody it went to, as far as this host was told. */
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

/** What a mailbox holds, counted. Changed in the transaction that changes what is counted. */
export interface MailboxRow {
  nextPosition: number;
  total: number;
  unread: number;
  /** Unread messages that wake. */
  unreadWaking: number;
}

export type EntryState = 'unread' | 'read' | 'acked';

/** One message in one mailbox. Positions go up from 1 and are never used twice. */
export interface EntryRow {
  ref: MessageRef;
  thread: MessageRef;
  state: EntryState;
  /** Whether it wakes an idle recipient. */
  wakes: boolean;
  storedAtMs: number;
  /** When the agent, or a program on its behalf, was told of it. */
  notifiedAtMs: number | null;
  readAtMs: number | null;
  ackedAtMs: number | null;
  /** The name it was addressed to, when the mailbox has another one now. */
  forwardedFrom: string | null;
}

export type RecipientState = 'pending' | DeliveryState | 'quarantined' | 'undelivered' | 'unconfirmed' | 'cancelled';

/** What was learned of a recipient, and when it was so: by the clock of its host, where that said it. */
export interface SentStep {
  state: RecipientState;
  atMs: number;
}

export interface SentRecipient {
  address: Address;
  /** Of a recipient on this host. */
  agentId: AgentId | null;
  peerId: PeerId | null;
  state: RecipientState;
  atMs: number;
  /** Of the receipt that gave the state; 0 before any. */
  seq: number;
  /** Everything that was learned, in that order, at most `SENT_STEPS_MAX`; the last one is the state. */
  steps: SentStep[];
}

/** What became of a message that an agent of this host sent. */
export interface SentRow {
  ref: MessageRef;
  agentId: AgentId;
  createdAtMs: number;
  recipients: SentRecipient[];
  /** Where it stands in its sender's view of the thread; null when the sender is a recipient too. */
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

/** What the relay said when it took a row's item. */
export interface RelayAcceptance {
  relayPubkey: PublicKey;
  epoch: Epoch;
  seq: number;
  accept: AcceptReceipt;
  sig: string;
  acceptedAtMs: number;
  /** How long it keeps the item, as it said then. */
  retentionMs: number;
  /** The relay's store went back in time since, without a new epoch. */
  mayBeLost?: true;
}

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
  /** When something is to be done about it: another attempt, or a deadline. Null when nothing is. */
  nextAtMs: number | null;
  /** Failed attempts over the LAN since the last success. */
  lanAttempts: number;
  relayAttempts: number;
  /** When its bytes may first have reached a relay. */
  firstPushAtMs: number | null;
  /** When the peer said over the LAN that it has it. Only a delivery receipt proves that. */
  lanAcceptedAtMs: number | null;
  acceptance: RelayAcceptance | null;
  /** When the sender was told that it is still not delivered. */
  alertedAtMs: number | null;
  lastError: string | null;
  /** Recipients whose delivery receipt came. */
  confirmed: Address[];
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
  pairedAtMs: number;
  unpairedAtMs: number | null;
  reachedAtMs: number | null;
  /** Failed LAN attempts since it was last reached. */
  lanFailures: number;
  /** What its agents are called, as it last said. */
  directory: { agents: DirectoryAgent[]; fetchedAtMs: number } | null;
  /** Whether it ever confirmed a delivery: an older program never does. */
  hasConfirmed: boolean;
  /** The key of this host that it was last known to have pinned: what came after is to be told. */
  pinnedOurKey: PublicKey;
}

export interface DirectoryAgent {
  name: string;
  roles: string[];
}

/** What the receiver may not accept is kept here, never dropped in silence. */
export interface QuarantineRow {
  number: number;
  via: 'lan' | 'relay';
  /** The relay's key, epoch and sequence number, which v1 does not tell; null for the LAN. */
  relay: { pubkey: PublicKey; epoch: Epoch; seq: number | null } | null;
  kind: ItemKind;
  itemId: string;
  /** Whoever brought it, by its hop or by the relay's word. */
  senderPubkey: PublicKey;
  /** The paired host that has this key. */
  peerId: PeerId | null;
  /** Whom it still waits for, when it went to others; null when nobody got it. */
  recipients: Address[] | null;
  reason: QuarantineReason;
  /** For people. */
  detail: string;
  wireHash: Sha256Hex;
  wireBytes: number;
  atMs: number;
}

/** What is kept in quarantine, of everybody or of one sender. */
export interface QuarantineUsage {
  items: number;
  bytes: number;
}

/** An envelope that came from a peer: what came before under its id. Kept for ever. */
export interface ArrivalRow {
  ref: MessageRef;
  /** SHA-256 of the envelope's signed bytes, its signature and hops left out. */
  contentHash: Sha256Hex;
  /** Of the wire bytes, which receipts name. */
  wireHash: Sha256Hex;
  /** The key that signed it, which receipts name. */
  senderPubkey: PublicKey;
  /** Which way it came first; of what came before this was kept nothing is known. */
  via?: 'lan' | 'relay';
  /** Of one that a relay brought: as it said. */
  relay?: QuarantineRow['relay'];
  /** Whom it was delivered to, by the addresses that it names. */
  recipients: { address: Address; agentId: AgentId }[];
  atMs: number;
}

/** The last receipt that this host issued for one recipient of one envelope. */
export interface ReceiptRow {
  seq: number;
  state: DeliveryState;
  atMs: number;
}

/** What an agent's idempotency key stood for. */
export interface IdempotencyRow {
  contentHash: Sha256Hex;
  ref: MessageRef;
  atMs: number;
  /** The result as it was given. */
  result: unknown;
}

/** Where the proof that a relay's authority asks for comes from, fresh each time: a file, or what a command prints. */
export type RelayProofSource = { type: 'file'; path: string } | { type: 'command'; command: string };

/** The relay that this host uses, by its pinned key. */
export interface RelayRow {
  /** Without a slash at its end. */
  url: string;
  pubkey: PublicKey;
  pinnedAtMs: number;
  /** Another key was shown at this address: nothing goes there until the owner confirms it. */
  seenKey: { pubkey: PublicKey; atMs: number } | null;
  proof: RelayProofSource | null;
  /** It answered 404 where v2 says who it is, and never anything else: it is spoken to in v1, which pins no key. */
  isV1?: true;
  /** The store generation that rows and positions are of; null before the relay was reached. */
  epoch: Epoch | null;
  /** `iat` of the newest sender list that was published: never gone behind. */
  sendersIatMs: number;
}

/** What a relay was made to know of this host, under one key in one epoch. A cache: it is made again when it is missing. */
export interface RelayEnrolmentRow {
  /** When the relay showed this host as enrolled. */
  checkedAtMs: number;
  authorizedBy: string | null;
  account: string | null;
  isCrowded: boolean;
  /** When a hosted enrolment runs out, as its token says. */
  validUntilMs: number | null;
  /** The key to seal to, as it was read back. */
  encKey: { encPub: string; at: number; checkedAtMs: number } | null;
  /** The list of paired hosts, as the relay answered for it. */
  senders: { hash: Sha256Hex; count: number; iat: number; checkedAtMs: number } | null;
}

/** How far the queue at a relay is dealt with: everything up to there is delivered, known or in quarantine. */
export interface RelayPositionRow {
  receivedThrough: number;
  /** Of a relay of v1, which tells no seq: what stands behind the last page that is dealt with. */
  cursor?: string;
  atMs: number;
}

/** The key parts of each table, in the order they sort by. */
export interface Keys {
  identity: [];
  counter: [name: string];
  agent: [AgentId];
  agentName: [foldedName: string];
  session: [AgentId, sessionId: string];
  message: [MessageRef];
  body: [MessageRef];
  mailbox: [AgentId];
  entry: [AgentId, position: number];
  unread: [AgentId, position: number];
  threadEntry: [AgentId, thread: MessageRef, position: number];
  place: [AgentId, MessageRef];
  held: [MessageRef];
  unacked: [AgentId, position: number];
  sent: [MessageRef];
  sentBy: [AgentId, createdAtMs: number, MessageRef];
  outbox: [rowId: number];
  outboxWire: [rowId: number];
  outboxDue: [PeerId, nextAtMs: number, rowId: number];
  outboxItem: [PeerId, itemId: string];
  peer: [PeerId];
  peerKey: [PublicKey];
  peerName: [foldedName: string];
  quarantine: [number: number];
  quarantineWire: [number: number];
  quarantineItem: [digest: Sha256Hex];
  quarantineUsage: [scope: string];
  arrival: [PeerId, id: string];
  receipt: [PeerId, id: string, recipient: string];
  idempotency: [AgentId, keyHash: Sha256Hex];
  idempotencyDue: [atMs: number, AgentId, keyHash: Sha256Hex];
  relay: [];
  relayEnrolment: [relayPubkey: PublicKey, Epoch, hostPubkey: PublicKey];
  relayPosition: [relayPubkey: PublicKey, Epoch, hostPubkey: PublicKey];
}

export interface Tables {
  identity: IdentityRow;
  /** Numbers that only go up: `outbox`, `quarantine`. */
  counter: number;
  agent: AgentRow;
  agentName: AgentNameRow;
  session: SessionRow;
  message: MessageRow;
  body: string;
  mailbox: MailboxRow;
  entry: EntryRow;
  /** Whether it wakes. */
  unread: boolean;
  /** What an agent received of a thread, and what it sent: those have positions too, and no entry. */
  threadEntry: MessageRef;
  place: number;
  /** How many mailboxes and senders keep a message. */
  held: number;
  unacked: true;
  sent: SentRow;
  sentBy: true;
  outbox: OutboxRow;
  outboxWire: Buffer;
  outboxDue: true;
  outboxItem: number;
  peer: PeerRow;
  peerKey: PeerId;
  peerName: PeerId;
  quarantine: QuarantineRow;
  quarantineWire: Buffer;
  quarantineItem: number;
  quarantineUsage: QuarantineUsage;
  arrival: ArrivalRow;
  receipt: ReceiptRow;
  idempotency: IdempotencyRow;
  idempotencyDue: true;
  relay: RelayRow;
  relayEnrolment: RelayEnrolmentRow;
  relayPosition: RelayPositionRow;
}

export type TableName = keyof Tables;
