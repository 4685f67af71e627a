/**
 * The tables of the host's store: the key, the row and the layout of each, what their keys are to the byte (one prefix
 * byte for the table, then the parts of the key in order), and the bytes of their rows.
 *
 *     number   8 bytes, big endian
 *     text     UTF-8 without NUL, ended by one NUL byte
 *
 * So keys of one table sort by their parts, and all keys that begin with the same parts are one range.
 */
import { Packr } from 'msgpackr';
import type { Sha256Hex } from '../../protocol/encodings.ts';
import type { Epoch } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { AskedRow, OwedRow } from '../core/debts.ts';
import type { HomeDocumentRow, PeerHomeRow } from '../core/home-documents.ts';
import type { KeptEvidence, KeptNote, PendingNote, RelayTrustRow } from '../core/relay-trust.ts';
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
  SentRow,
} from '../core/rows.ts';
import type { RelayMoveRow } from '../core/relay-move.ts';
import type { FurtherRelayRow, RelayEnrolmentRow, RelayPositionRow, RelayRow } from '../core/relay-rows.ts';
import type { SessionRow } from '../core/session-rows.ts';
import type { WordBlockRow, WordChunkRow } from '../core/words.ts';

/** The owner's page keeps this. */
export interface PageRow {
  /** The port that it took where the config names none; null before. */
  port: number | null;
  /** 256 random bits, as base64url: the page seals in the browser what its owner has not sent yet. */
  draftsKey: string;
}

/** The parts of a key as they are written. */
type PartKinds<Key extends readonly unknown[]> = {
  readonly [At in keyof Key]: Key[At] extends number ? 'number' : 'text';
};

/**
 * The rows of a table that stay in memory: of a small one every row that was read; of mail those that were written or
 * read last, and what was not found.
 */
type Keeping = 'small' | 'of mail' | 'none';

declare const typesOf: unique symbol;

interface Table<Key extends readonly unknown[], Row> {
  prefix: number;
  parts: PartKinds<Key>;
  keeping: Keeping;
  [typesOf]?: { key: Key; row: Row };
}

function table<Key extends readonly unknown[], Row>(
  prefix: number,
  parts: PartKinds<Key>,
  keeping: Keeping = 'none',
): Table<Key, Row> {
  return { prefix, parts, keeping };
}

/** DO NOT CHANGE a prefix or how a key is written: persisted. Never give a used number to another table. */
export const TABLES = {
  identity: table<[], IdentityRow>(0x01, [], 'small'),
  /** Numbers that only go up: `outbox`, `quarantine`. */
  counter: table<[name: string], number>(0x02, ['text'], 'small'),
  agent: table<[AgentId], AgentRow>(0x03, ['text'], 'small'),
  agentName: table<[foldedName: string], AgentNameRow>(0x04, ['text'], 'small'),
  session: table<[AgentId, sessionId: string], SessionRow>(0x05, ['text', 'text'], 'small'),
  message: table<[MessageRef], MessageRow>(0x10, ['text'], 'of mail'),
  body: table<[MessageRef], string>(0x11, ['text']),
  mailbox: table<[AgentId], MailboxRow>(0x12, ['text'], 'of mail'),
  entry: table<[AgentId, position: number], EntryRow>(0x13, ['text', 'number']),
  /** True when the message wakes. */
  unread: table<[AgentId, position: number], boolean>(0x14, ['text', 'number']),
  /** The messages of a thread that an agent received or sent; a sent one has a position, but no entry. */
  threadEntry: table<[AgentId, thread: MessageRef, position: number], MessageRef>(0x15, ['text', 'text', 'number']),
  place: table<[AgentId, MessageRef], number>(0x16, ['text', 'text'], 'of mail'),
  sent: table<[MessageRef], SentRow>(0x17, ['text'], 'of mail'),
  sentBy: table<[AgentId, createdAtMs: number, MessageRef], true>(0x18, ['text', 'number', 'text']),
  /** The number of mailboxes and senders that keep a message. */
  held: table<[MessageRef], number>(0x19, ['text'], 'of mail'),
  unacked: table<[AgentId, position: number], true>(0x1a, ['text', 'number']),
  /** The questions of a mailbox that its agent has neither answered nor acked, and those to remind it of. */
  owed: table<[AgentId, position: number], OwedRow>(0x1b, ['text', 'number'], 'of mail'),
  owedDue: table<[sinceMs: number, AgentId, position: number], true>(0x1c, ['number', 'text', 'number']),
  /** The questions that an agent sent and that somebody still owes an answer to. */
  asked: table<[AgentId, MessageRef], AskedRow>(0x1d, ['text', 'text'], 'of mail'),
  /** Present once the three tables above hold what a store from before them had open. */
  debtsKept: table<[], { sinceMs: number }>(0x1e, []),
  /** The words of a mailbox by blocks of positions; mailbox/word-blocks.ts has the layout. */
  wordBlock: table<[AgentId, block: number], WordBlockRow>(0x1f, ['text', 'number'], 'of mail'),
  wordChunk: table<[AgentId, block: number, chunk: number], WordChunkRow>(0x24, ['text', 'number', 'number']),
  outbox: table<[rowId: number], OutboxRow>(0x20, ['number'], 'of mail'),
  outboxWire: table<[rowId: number], Buffer>(0x21, ['number']),
  outboxDue: table<[PeerId, nextAtMs: number, rowId: number], true>(0x22, ['text', 'number', 'number']),
  outboxItem: table<[PeerId, itemId: string], number>(0x23, ['text', 'text'], 'of mail'),
  peer: table<[PeerId], PeerRow>(0x30, ['text'], 'small'),
  peerKey: table<[PublicKey], PeerId>(0x31, ['text'], 'small'),
  peerName: table<[foldedName: string], PeerId>(0x32, ['text'], 'small'),
  quarantine: table<[number: number], QuarantineRow>(0x40, ['number']),
  quarantineWire: table<[number: number], Buffer>(0x41, ['number']),
  arrival: table<[PeerId, id: string], ArrivalRow>(0x42, ['text', 'text'], 'of mail'),
  receipt: table<[PeerId, id: string, recipient: string], ReceiptRow>(0x43, ['text', 'text', 'text'], 'of mail'),
  quarantineItem: table<[digest: Sha256Hex], number>(0x44, ['text'], 'of mail'),
  quarantineUsage: table<[scope: string], QuarantineUsage>(0x45, ['text']),
  /** The rows of a scope that deletes its oldest first. */
  quarantineOldest: table<[scope: string, number: number], true>(0x46, ['text', 'number']),
  quarantineLoss: table<[room: string], QuarantineLossRow>(0x47, ['text']),
  idempotency: table<[AgentId, keyHash: Sha256Hex], IdempotencyRow>(0x50, ['text', 'text']),
  idempotencyDue: table<[atMs: number, AgentId, keyHash: Sha256Hex], true>(0x51, ['number', 'text', 'text']),
  /** The first of this host's relays, and the others. */
  relay: table<[], RelayRow>(0x60, [], 'small'),
  relayEnrolment: table<KeyAtRelay, RelayEnrolmentRow>(0x61, ['text', 'text', 'text']),
  relayPosition: table<KeyAtRelay, RelayPositionRow>(0x62, ['text', 'text', 'text'], 'of mail'),
  /** A relay signed these for this host, or paired hosts showed them: kept for ever, and for relays of before. */
  checkpoint: table<[relayPubkey: PublicKey, Epoch], KeptNote>(0x63, ['text', 'text'], 'small'),
  relayTrust: table<[relayPubkey: PublicKey], RelayTrustRow>(0x64, ['text'], 'small'),
  pendingNote: table<[relayPubkey: PublicKey, PeerId, Epoch], PendingNote>(0x65, ['text', 'text', 'text'], 'small'),
  evidence: table<[relayPubkey: PublicKey, digest: Sha256Hex], KeptEvidence>(0x66, ['text', 'text'], 'small'),
  relayMore: table<[relayPubkey: PublicKey], FurtherRelayRow>(0x67, ['text'], 'small'),
  /** Most hosts have neither, and nearly every message asks: that there is none is kept too. */
  homeDocument: table<[], HomeDocumentRow>(0x68, [], 'of mail'),
  peerHome: table<[PeerId], PeerHomeRow>(0x69, ['text'], 'of mail'),
  /** The move from one relay to another that is under way, or the last one. */
  relayMove: table<[], RelayMoveRow>(0x6a, [], 'small'),
  clock: table<[], ClockRow>(0x70, []),
  /** Present once the owner's page was opened. */
  page: table<[], PageRow>(0x71, []),
};

type KeyAtRelay = [relayPubkey: PublicKey, Epoch, hostPubkey: PublicKey];
export type TableName = keyof typeof TABLES;
type TypesOf<T extends TableName> = NonNullable<(typeof TABLES)[T][typeof typesOf]>;
export type Keys = { [T in TableName]: TypesOf<T>['key'] };
export type Tables = { [T in TableName]: TypesOf<T>['row'] };

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

/** Makes what `keyBytes` does, each byte as one character: such texts sort as the bytes do, and maps find them. */
export function keyText<T extends TableName>(table: T, parts: KeyStart<T>): string {
  const values: readonly unknown[] = parts;
  const { prefix, parts: kinds } = TABLES[table];
  let text = String.fromCharCode(prefix);
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
  for (const part of TABLES[table].parts) {
    const end = part === 'number' ? at + NUMBER_BYTES : bytes.indexOf(0, at);
    if (end < at || end > bytes.length) throw new RangeError('the key is too short');
    parts.push(part === 'number' ? Number(bytes.readBigUInt64BE(at)) : bytes.toString('utf8', at, end));
    at = part === 'number' ? end : end + 1;
  }
  if (bytes[0] !== TABLES[table].prefix || at !== bytes.length) throw new RangeError(`the key is none of ${table}`);
  return parts as Keys[T];
}

export function beginsWith<T extends TableName>(key: Keys[T], start: KeyStart<T>): boolean {
  const parts: readonly unknown[] = start;
  return parts.every((part, at) => part === key[at]);
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

export interface RangeOptions<T extends TableName> {
  /** Keys before this one are left out. */
  from?: KeyStart<T>;
  /** Keys from this one on are left out. */
  until?: KeyStart<T>;
  /** True: the last key comes first. */
  reverse?: boolean;
  /** The most rows to return. */
  limit?: number;
}

/** Keys from `gte` on, and before `lt`. */
export interface KeyRange {
  gte: Buffer;
  lt: Buffer;
  /** True: the last key comes first. */
  reverse: boolean;
}

/** The keys that begin with `start`, cut at both ends where that is asked; `undefined` when none is left. */
export function rangeOf<T extends TableName>(
  table: T,
  start: KeyStart<T>,
  { from, until, reverse = false }: RangeOptions<T>,
): KeyRange | undefined {
  const first = keyBytes(table, start);
  const end = endOfRange(first);
  const cutFrom = from && keyBytes(table, from);
  const cutUntil = until && keyBytes(table, until);
  const gte = cutFrom && Buffer.compare(first, cutFrom) < 0 ? cutFrom : first;
  const lt = cutUntil && Buffer.compare(end, cutUntil) > 0 ? cutUntil : end;
  return Buffer.compare(gte, lt) < 0 ? { gte, lt, reverse } : undefined;
}

/** DO NOT CHANGE what a version means: a row that changes its meaning gets a version of its own and is read as both. */
const VERSION = 1;
/** A row of the outbox whose receipt was signed with others. Software of version 1 alone would show it unsigned. */
const RECEIPT_IN_TREE = 2;

function versionOf<T extends TableName>(table: T, row: Tables[T]): number {
  const { acceptance } = table === 'outbox' ? (row as OutboxRow) : { acceptance: null };
  return acceptance && 'proof' in acceptance ? RECEIPT_IN_TREE : VERSION;
}

function isVersion(table: TableName, version: unknown): boolean {
  return version === VERSION || (table === 'outbox' && version === RECEIPT_IN_TREE);
}

// Every row must be readable by itself, and own its bytes.
const packr = new Packr({ useRecords: false, copyBuffers: true });

/** The row of the tables whose keys say everything. */
const TRUE_ROW = Buffer.from(packr.pack([VERSION, true]));

/** msgpack of `[version, row]`; wire bytes and bodies stand as they are. The bytes are for a batch, not to be kept. */
export function encodeRow<T extends TableName>(table: T, row: Tables[T]): Buffer {
  if (table === 'outboxWire' || table === 'quarantineWire') return row as Buffer;
  if (table === 'body') return Buffer.from(row as string, 'utf8');
  return row === true ? TRUE_ROW : packr.pack([versionOf(table, row), row]);
}

/** Throws when the bytes are no row: the store is damaged. */
export function decodeRow<T extends TableName>(table: T, bytes: Buffer): Tables[T] {
  if (table === 'outboxWire' || table === 'quarantineWire') return Buffer.from(bytes) as Tables[T];
  if (table === 'body') return bytes.toString('utf8') as Tables[T];
  const stored: unknown = packr.unpack(bytes);
  if (!Array.isArray(stored) || stored.length !== 2 || !isVersion(table, stored[0])) {
    throw new RangeError(`a row of ${table} has a layout that this software does not know`);
  }
  return stored[1] as Tables[T];
}
