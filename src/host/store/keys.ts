/**
 * The tables of the host's store (the key and the row of each), and their keys to the byte: one prefix byte for the
 * table, then the parts of the key in order.
 *
 *     number   8 bytes, big endian
 *     text     UTF-8 without NUL, ended by one NUL byte
 *
 * So keys of one table sort by their parts, and all keys that begin with the same parts are one range.
 */
import type { Sha256Hex } from '../../protocol/digest.ts';
import type { Epoch } from '../../protocol/epoch.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { QuarantineLossRow, QuarantineRow, QuarantineUsage } from '../core/quarantine.ts';
import type {
  AgentId,
  AgentNameRow,
  AgentRow,
  ArrivalRow,
  ClockRow,
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
} from '../core/rows.ts';
import type { SessionRow } from '../core/session-rows.ts';

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
  clock: [];
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
  clock: ClockRow;
}

export type TableName = keyof Tables;

/** DO NOT CHANGE: persisted. Never give a used number to another table. */
export const PREFIX: { readonly [T in TableName]: number } = {
  identity: 0x01,
  counter: 0x02,
  agent: 0x03,
  agentName: 0x04,
  session: 0x05,
  message: 0x10,
  body: 0x11,
  mailbox: 0x12,
  entry: 0x13,
  unread: 0x14,
  threadEntry: 0x15,
  place: 0x16,
  sent: 0x17,
  sentBy: 0x18,
  held: 0x19,
  unacked: 0x1a,
  outbox: 0x20,
  outboxWire: 0x21,
  outboxDue: 0x22,
  outboxItem: 0x23,
  peer: 0x30,
  peerKey: 0x31,
  peerName: 0x32,
  quarantine: 0x40,
  quarantineWire: 0x41,
  arrival: 0x42,
  receipt: 0x43,
  quarantineItem: 0x44,
  quarantineUsage: 0x45,
  quarantineOldest: 0x46,
  quarantineLoss: 0x47,
  idempotency: 0x50,
  idempotencyDue: 0x51,
  relay: 0x60,
  relayEnrolment: 0x61,
  relayPosition: 0x62,
  clock: 0x70,
};

/** DO NOT CHANGE: how each part of a key is written. */
const PARTS: { readonly [T in TableName]: readonly ('text' | 'number')[] } = {
  identity: [],
  counter: ['text'],
  agent: ['text'],
  agentName: ['text'],
  session: ['text', 'text'],
  message: ['text'],
  body: ['text'],
  mailbox: ['text'],
  entry: ['text', 'number'],
  unread: ['text', 'number'],
  threadEntry: ['text', 'text', 'number'],
  place: ['text', 'text'],
  sent: ['text'],
  sentBy: ['text', 'number', 'text'],
  held: ['text'],
  unacked: ['text', 'number'],
  outbox: ['number'],
  outboxWire: ['number'],
  outboxDue: ['text', 'number', 'number'],
  outboxItem: ['text', 'text'],
  peer: ['text'],
  peerKey: ['text'],
  peerName: ['text'],
  quarantine: ['number'],
  quarantineWire: ['number'],
  quarantineItem: ['text'],
  quarantineUsage: ['text'],
  quarantineOldest: ['text', 'number'],
  quarantineLoss: ['text'],
  arrival: ['text', 'text'],
  receipt: ['text', 'text', 'text'],
  idempotency: ['text', 'text'],
  idempotencyDue: ['number', 'text', 'text'],
  relay: [],
  relayEnrolment: ['text', 'text', 'text'],
  relayPosition: ['text', 'text', 'text'],
  clock: [],
};

/** The prefix of the schema's version, which is in no table. DO NOT CHANGE. */
export const SCHEMA_KEY = Buffer.from([0x00]);

const NUMBER_BYTES = 8;
/** Its UTF-8 is one byte for each character. Nearly all text in keys is so. */
const ASCII = /^\p{ASCII}*$/u;

/** The first parts of a key: all keys that begin with them are one range. */
export type KeyStart<T extends TableName> = Keys[T] extends [...infer Parts] ? StartOf<Parts> : never;
type StartOf<Parts extends unknown[]> = Parts extends [...infer Rest, unknown] ? Parts | StartOf<Rest> : Parts;

/** The bytes of a key, or of its first parts. Throws `RangeError` for a part that no key can hold. */
export function keyBytes<T extends TableName>(table: T, parts: KeyStart<T>): Buffer {
  return Buffer.from(keyText(table, parts), 'latin1');
}

/** As `keyBytes`, each byte as one character: such texts sort as the bytes do, and maps find them. */
export function keyText<T extends TableName>(table: T, parts: KeyStart<T>): string {
  const values: readonly unknown[] = parts;
  const kinds = PARTS[table];
  let text = String.fromCharCode(PREFIX[table]);
  for (let at = 0; at < values.length; at++) {
    text += kinds[at] === 'number' ? numberText(values[at]) : `${textBytes(values[at])}\0`;
  }
  return text;
}

function numberText(part: unknown): string {
  if (typeof part !== 'number' || !Number.isSafeInteger(part) || part < 0) {
    throw new RangeError('invariant: a number in a key is a whole one, not below zero');
  }
  const high = Math.floor(part / 2 ** 32);
  return fourBytes(high) + fourBytes(part - high * 2 ** 32);
}

function fourBytes(value: number): string {
  return String.fromCharCode(value >>> 24, (value >>> 16) & 0xff, (value >>> 8) & 0xff, value & 0xff);
}

/** The UTF-8 of a text, each byte as one character. */
function textBytes(part: unknown): string {
  if (typeof part !== 'string' || part.includes('\0') || !part.isWellFormed()) {
    throw new RangeError('invariant: a text in a key is Unicode without NUL');
  }
  return ASCII.test(part) ? part : Buffer.from(part, 'utf8').toString('latin1');
}

/** The parts of a stored key. Throws `RangeError` when the bytes are no key of the table. */
export function keyParts<T extends TableName>(table: T, bytes: Buffer): Keys[T] {
  const parts: unknown[] = [];
  let at = 1;
  for (const part of PARTS[table]) {
    const end = part === 'number' ? at + NUMBER_BYTES : bytes.indexOf(0, at);
    if (end < at || end > bytes.length) throw new RangeError('the key is too short');
    parts.push(part === 'number' ? Number(bytes.readBigUInt64BE(at)) : bytes.toString('utf8', at, end));
    at = part === 'number' ? end : end + 1;
  }
  if (bytes[0] !== PREFIX[table] || at !== bytes.length) throw new RangeError(`the key is none of ${table}`);
  return parts as Keys[T];
}

/** The bytes that follow every key that begins with `start`. */
export function endOfRange(start: Buffer): Buffer {
  const end = Buffer.from(start);
  for (let at = end.length - 1; at >= 0; at--) {
    const byte = end[at] ?? 0;
    if (byte < 0xff) {
      end[at] = byte + 1;
      return end.subarray(0, at + 1);
    }
  }
  throw new RangeError('invariant: no prefix is all ones');
}
