/**
 * Every key of the relay's LevelDB, to the byte. DO NOT CHANGE a prefix or a layout: add one.
 *
 * Keys are fixed-width per prefix and big-endian, so that byte order is the order of the numbers. Textual ids are
 * hashed: no id of a stranger ever shapes a key. The values of rows, of 42, 43 and 51 have a checksum (checksum.ts).
 *
 *   prefix  then                                   value
 *   01                                             schema version, u32
 *   02                                             relay row
 *   03                                             heartbeat row
 *   04      time u64, epoch 26 ASCII               restore row
 *   05                                             which log this database is a view of, and how far (marks.ts)
 *   10      lsn u64                                log record (record.ts), or the run of records of one batch of which
 *                                                  this is the last (record-run.ts)
 *   11      first lsn u64, level u8, index u64     hash tile of the tree that begins there (log-tree.ts)
 *   12      first lsn u64                          first leaf of the tree that begins there (log-tree.ts)
 *   13      lsn u64, part u32                      part of the rows after that record (row-checkpoints.ts)
 *   14      lsn u64                                lsn u64 of the event that vouches for those rows
 *                                                  (row-checkpoints.ts)
 *   15                                             how far the log was pruned (marks.ts)
 *   20      host key 32                            enrolment row
 *   21      host key 32                            lineage row
 *   22      host key 32                            senders row
 *   23      host key 32                            encryption key row
 *   24      SHA-256 of the selectors 32            deny row
 *   25      hash of the token 32                   invite row
 *   26      rotated key 32                         rotation row
 *   30      target key 32                          target row
 *   31      target key 32, sender key 32           share row
 *   32      SHA-256 of the account 32              account row
 *   33      sender key 32                          sender row
 *   34      rotated key 32                         move row
 *   40      target key 32, seq u64                 queue row
 *   41      target key 32, seq u64                 wire bytes, as received
 *   42      expires at u64, lsn u64                the queue rows of that batch that expire then: 40-byte runs of
 *                                                  target key 32, seq u64; those that are gone are passed over
 *   43      target key 32                          u64: queue rows up to this seq are collected
 *   50      SHA-256 of sender, target, item id     dedup row
 *   51      dedup until u64, lsn u64               the dedup rows of that batch that may go then: 64-byte runs of
 *                                                  sender key 32, key of 50 without the prefix 32
 *
 * Payloads (41) are keyed by target and not by arrival: under a long push-and-ack run pages read 1.3 times as fast and
 * write amplification is lower, at twice the disk space. A queue row names its payload's key,
 * so a rotation moves rows and no bytes.
 */
import { hash } from 'node:crypto';
import {
  PUBLIC_KEY_CHARACTERS,
  type PublicKey,
  publicKeyBytes,
  publicKeyFromBytes,
} from '../../protocol/public-key.ts';
import type { TableName } from '../core/rows.ts';

const KEY = 32;
const NUMBER = 8;
const PART = 4;
const EPOCH_CHARACTERS = 26;
const WORD = 2 ** 32;

export const PREFIX = {
  schema: 0x01,
  relay: 0x02,
  heartbeat: 0x03,
  restore: 0x04,
  view: 0x05,
  log: 0x10,
  tile: 0x11,
  logLink: 0x12,
  checkpointPart: 0x13,
  checkpoint: 0x14,
  pruned: 0x15,
  enrolment: 0x20,
  lineage: 0x21,
  senders: 0x22,
  encKey: 0x23,
  deny: 0x24,
  invite: 0x25,
  rotation: 0x26,
  target: 0x30,
  share: 0x31,
  account: 0x32,
  sender: 0x33,
  move: 0x34,
  queue: 0x40,
  payload: 0x41,
  expiry: 0x42,
  collected: 0x43,
  dedup: 0x50,
  dedupUntil: 0x51,
} as const;

/** The length of what a due entry says of one queue row, and of one dedup row. */
export const EXPIRY_RUN_BYTES = KEY + NUMBER;
export const DEDUP_RUN_BYTES = 2 * KEY;

/** The length of the keys of every kind. */
const LENGTHS = [
  [1, ['schema', 'relay', 'heartbeat', 'view', 'pruned']],
  [1 + NUMBER, ['log', 'logLink', 'checkpoint']],
  [1 + NUMBER + PART, ['checkpointPart']],
  [1 + NUMBER + EPOCH_CHARACTERS, ['restore']],
  [1 + 2 * NUMBER, ['expiry', 'dedupUntil']],
  [2 + 2 * NUMBER, ['tile']],
  [1 + KEY, ['enrolment', 'lineage', 'senders', 'encKey', 'deny', 'invite', 'rotation', 'target', 'account']],
  [1 + KEY, ['sender', 'move', 'collected', 'dedup']],
  [1 + KEY + NUMBER, ['queue', 'payload']],
  [1 + 2 * KEY, ['share']],
] as const satisfies [bytes: number, kinds: (keyof typeof PREFIX)[]][];
/** Every kind has a length, or this does not compile. */
type Unmeasured = Exclude<keyof typeof PREFIX, (typeof LENGTHS)[number][1][number]>;

/** The length of the keys under each prefix. */
export const KEY_BYTES: Readonly<Record<number, [Unmeasured] extends [never] ? number : never>> = Object.fromEntries(
  LENGTHS.flatMap(([bytes, kinds]) => kinds.map((kind) => [PREFIX[kind], bytes])),
);

/** The tables that a replay gives, in the order of their keys. */
export const REPLAYED_TABLES = [
  'relay',
  'restore',
  'enrolment',
  'lineage',
  'senders',
  'encKey',
  'deny',
  'invite',
  'rotation',
  'target',
  'share',
  'account',
  'sender',
  'move',
  'queue',
  'dedup',
] as const satisfies readonly TableName[];

/** The prefixes of what is kept of the hash trees: all of it follows from the records. */
export const TREE_PREFIXES: readonly number[] = [PREFIX.tile, PREFIX.logLink];

export const CHECKPOINT_PREFIXES: readonly number[] = [PREFIX.checkpointPart, PREFIX.checkpoint];

export const SCHEMA_KEY: Buffer = Buffer.of(PREFIX.schema);
export const PRUNED_KEY: Buffer = Buffer.of(PREFIX.pruned);
export const VIEW_KEY: Buffer = Buffer.of(PREFIX.view);

export function rowKeyBytes(table: TableName, key: string): Buffer {
  switch (table) {
    case 'relay':
    case 'heartbeat':
      return Buffer.of(PREFIX[table]);
    case 'restore': {
      const [atMs = '', epoch = ''] = key.split(' ');
      return Buffer.concat([numberUnder(PREFIX.restore, Number(atMs)), Buffer.from(epoch, 'latin1')]);
    }
    case 'enrolment':
    case 'lineage':
    case 'senders':
    case 'encKey':
    case 'rotation':
    case 'target':
    case 'sender':
    case 'move':
      return keyUnder(PREFIX[table], key as PublicKey);
    case 'share':
      return Buffer.concat([
        keyUnder(PREFIX.share, head(key)),
        publicKeyBytes(key.slice(PUBLIC_KEY_CHARACTERS) as PublicKey),
      ]);
    case 'account':
    case 'deny':
      return Buffer.concat([Buffer.of(PREFIX[table]), hash('sha256', key, 'buffer')]);
    case 'invite':
      return Buffer.concat([Buffer.of(PREFIX.invite), Buffer.from(key, 'hex')]);
    case 'queue':
      return queueKey(head(key), Number(key.slice(PUBLIC_KEY_CHARACTERS)));
    case 'dedup': {
      const bytes = Buffer.allocUnsafe(1 + KEY);
      bytes[0] = PREFIX.dedup;
      // As a string of bytes: a buffer would cost twice as much, and every item has such a row.
      bytes.write(hash('sha256', key, 'binary'), 1, 'latin1');
      return bytes;
    }
  }
}

export function logKey(lsn: number): Buffer {
  return numberUnder(PREFIX.log, lsn);
}

/** Returns the key of a tile of the tree whose first record is at `firstLsn`. */
export function tileKey(firstLsn: number, level: number, index: number): Buffer {
  const bytes = numberUnder(PREFIX.tile, firstLsn, 1 + NUMBER);
  bytes[1 + NUMBER] = level;
  writeNumber(bytes, index, 2 + NUMBER);
  return bytes;
}

export function tileLevelOf(key: Buffer): number {
  return key.readUInt8(1 + NUMBER);
}

export function tileIndexOf(key: Buffer): number {
  return numberAt(key, 2 + NUMBER);
}

export function logLinkKey(firstLsn: number): Buffer {
  return numberUnder(PREFIX.logLink, firstLsn);
}

/** The rows after the record at `lsn`, in parts. */
export function checkpointPartKey(lsn: number, part: number): Buffer {
  const bytes = numberUnder(PREFIX.checkpointPart, lsn, PART);
  bytes.writeUInt32BE(part, 1 + NUMBER);
  return bytes;
}

export function checkpointPartOf(key: Buffer): number {
  return key.readUInt32BE(1 + NUMBER);
}

export function checkpointKey(lsn: number): Buffer {
  return numberUnder(PREFIX.checkpoint, lsn);
}

/** Returns the LSN of a log key, and of the first leaf of a tree; 0 for a key that is of neither. */
export function lsnOf(key: Buffer): number {
  return key.length === KEY_BYTES[PREFIX.log] ? firstNumberOf(key) : 0;
}

export function queueKey(target: PublicKey, seq: number): Buffer {
  return keyAndNumberUnder(PREFIX.queue, target, seq);
}

/** The range of a queue behind `after`. */
export function queueBehind(target: PublicKey, after: number): { gt: Buffer; lte: Buffer } {
  return { gt: queueKey(target, after), lte: queueKey(target, Number.MAX_SAFE_INTEGER) };
}

export function payloadKey(target: PublicKey, seq: number): Buffer {
  return keyAndNumberUnder(PREFIX.payload, target, seq);
}

export function seqOf(key: Buffer): number {
  return numberAt(key, 1 + KEY);
}

/** The 32-byte key that follows the prefix. */
export function firstKeyOf(key: Buffer): PublicKey {
  return publicKeyFromBytes(key.subarray(1, 1 + KEY));
}

/** The number that follows the prefix: a time, or the LSN with which a tree begins or that a checkpoint is of. */
export function firstNumberOf(key: Buffer): number {
  return numberAt(key, 1);
}

/**
 * Returns the key of what becomes due together: one entry for each batch and time, not one for each row. `lsn` is the
 * batch's first.
 */
export function dueKey(prefix: number, dueMs: number, lsn: number): Buffer {
  const bytes = numberUnder(prefix, dueMs, NUMBER);
  writeNumber(bytes, lsn, 1 + NUMBER);
  return bytes;
}

/** The first LSN of the batch of a due entry, or the number that a rebuild gave it. */
export function dueLsnOf(key: Buffer): number {
  return numberAt(key, 1 + NUMBER);
}

export function collectedKey(target: PublicKey): Buffer {
  return keyUnder(PREFIX.collected, target);
}

/** The place in the key of a share row at which the sender's key begins. */
export const SHARE_SENDER_AT = 1 + KEY;

/** Returns the key of a dedup row, by the SHA-256 under which it is stored. */
export function dedupKey(name: Buffer): Buffer {
  return Buffer.concat([Buffer.of(PREFIX.dedup), name]);
}

export function sharesOf(target: PublicKey): { gte: Buffer; lte: Buffer } {
  const first = keyUnder(PREFIX.share, target);
  return { gte: first, lte: Buffer.concat([first, Buffer.alloc(KEY, 0xff)]) };
}

export function prefixRange(prefix: number): { gte: Buffer; lt: Buffer } {
  return { gte: Buffer.of(prefix), lt: Buffer.of(prefix + 1) };
}

function head(key: string): PublicKey {
  return key.slice(0, PUBLIC_KEY_CHARACTERS) as PublicKey;
}

function keyUnder(prefix: number, key: PublicKey): Buffer {
  const bytes = Buffer.allocUnsafe(1 + KEY);
  bytes[0] = prefix;
  bytes.write(key, 1, 'base64');
  return bytes;
}

/** `rest`: bytes that the caller writes behind. */
function numberUnder(prefix: number, value: number, rest = 0): Buffer {
  const bytes = Buffer.allocUnsafe(1 + NUMBER + rest);
  bytes[0] = prefix;
  writeNumber(bytes, value, 1);
  return bytes;
}

function keyAndNumberUnder(prefix: number, key: PublicKey, value: number): Buffer {
  const bytes = Buffer.allocUnsafe(1 + KEY + NUMBER);
  bytes[0] = prefix;
  bytes.write(key, 1, 'base64');
  writeNumber(bytes, value, 1 + KEY);
  return bytes;
}

/** Returns the bytes of a number as keys have them. */
export function numberBytes(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(NUMBER);
  writeNumber(bytes, value, 0);
  return bytes;
}

/** As u64. Without a BigInt, which costs more than all the rest. */
export function writeNumber(bytes: Buffer, value: number, at: number): void {
  bytes.writeUInt32BE(Math.floor(value / WORD), at);
  bytes.writeUInt32BE(value % WORD, at + NUMBER / 2);
}

/** A u64 that a double holds. */
export function numberAt(bytes: Buffer, at: number): number {
  return bytes.readUInt32BE(at) * WORD + bytes.readUInt32BE(at + NUMBER / 2);
}
