/** The tables of the host's store: the key and the row of each. store/keys.ts has the keys to the byte. */
import type { Sha256Hex } from '../../protocol/digest.ts';
import type { Epoch } from '../../protocol/epoch.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { QuarantineLossRow, QuarantineRow, QuarantineUsage } from './quarantine.ts';
import type {
  AgentId,
  AgentNameRow,
  AgentRow,
  ArrivalRow,
  EntryRow,
  IdempotencyRow,
  IdentityRow,
  MailboxRow,
  MessageRef,
  MessageRow,
  OutboxRow,
  PeerId,
  PeerRow,
  ReceiptRow,
  RelayEnrolmentRow,
  RelayPositionRow,
  RelayRow,
  SentRow,
  SessionRow,
} from './rows.ts';

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
  quarantineOldest: [scope: string, number: number];
  quarantineLoss: [room: string];
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
  /** The messages of a thread that an agent received or sent; a sent one has a position, but no entry. */
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
  /** The rows of a scope that deletes its oldest first. */
  quarantineOldest: true;
  quarantineLoss: QuarantineLossRow;
  arrival: ArrivalRow;
  receipt: ReceiptRow;
  idempotency: IdempotencyRow;
  idempotencyDue: true;
  relay: RelayRow;
  relayEnrolment: RelayEnrolmentRow;
  relayPosition: RelayPositionRow;
}

export type TableName = keyof Tables;
