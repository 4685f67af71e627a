/**
 * The checksums of stored values, to the byte. DO NOT CHANGE: add a form.
 *
 * A row (every value under `ROW_PREFIXES`):
 *   0      form, u8: 1
 *   1..4   CRC-32 (ISO-HDLC) of the key followed by the bytes, u32, big-endian
 *   5..    the bytes: of a row (row-codec.ts), of a due entry, or how far a queue is collected (keys.ts)
 *
 * A checked value (tiles, first leaves, parts and marks of checkpoints, the mark of pruning):
 *   0..3   CRC-32 (ISO-HDLC) of the key followed by the bytes, u32, big-endian
 *   4..    the bytes, at least one
 *
 * LevelDB does not check what it reads, and a compaction gives a flipped bit a fresh checksum. These checksums cover
 * the key as well, so that no value passes for that of another key. Log records have a checksum of their own
 * (record.ts), and wire bytes are compared with their hash. Schema 1 stored rows without a checksum: none of them
 * begins with the form, and no due entry or mark of it has such a length.
 *
 * The checksum costs five bytes a row, and about half a microsecond to write and to read.
 *
 * What leaves the database goes without it: the rows of a checkpoint are hashed as the bytes alone.
 */
import { crc32 } from 'node:zlib';
import { DEDUP_RUN_BYTES, EXPIRY_RUN_BYTES, PREFIX, REPLAYED_TABLES, KEY_BYTES, firstNumberOf, seqOf } from './keys.ts';
import type { Pair } from '../../lib/pair-block.ts';
import { DamagedRecord } from './record.ts';
import { displayFingerprint, publicKeyFromBytes } from '../../protocol/public-key.ts';
import { isoTime } from '../../protocol/time.ts';

/** The first schema whose rows have it. */
export const CHECKSUM_SCHEMA = 2;

const FORM = 1;
const HEADER_BYTES = 5;
/** The place in a stored value at which the bytes of the row begin. */
export const ROW_AT = HEADER_BYTES;
const COLLECTED_BYTES = 8;

/** Everything that a decision may rest on and that has no other checksum, in the order of the keys. */
export const ROW_PREFIXES: readonly number[] = (
  [...REPLAYED_TABLES, 'heartbeat', 'expiry', 'collected', 'dedupUntil'] as const
)
  .map((kind) => PREFIX[kind])
  .toSorted((a, b) => a - b);

/**
 * The prefixes of values of which no event says anything. The relay writes them anew by and by, and asks nothing of one
 * that is damaged.
 */
export const MARK_PREFIXES: ReadonlySet<number | undefined> = new Set([PREFIX.heartbeat, PREFIX.collected]);

const rowPrefixes: ReadonlySet<number | undefined> = new Set(ROW_PREFIXES);

export function isRowKey(key: Buffer): boolean {
  return rowPrefixes.has(key[0]);
}

/** Thrown for a stored row that is not what was written under its key. The message may be logged: it names no host. */
export class DamagedRow extends Error {
  readonly key: Buffer;
  readonly #what: string;

  /** `what` completes a sentence that begins with the row. */
  constructor(key: Buffer, what: string, options?: ErrorOptions) {
    super(`${rowSort(key)} ${what}`, options);
    this.key = key;
    this.#what = what;
  }

  /** The message with the name of the row, for the operator. */
  get sentence(): string {
    return `${rowName(this.key)} ${this.#what}`;
  }
}

/** Returns what is stored under `key` for these bytes. */
export function withChecksum(key: Buffer, bytes: Buffer): Buffer {
  const value = Buffer.allocUnsafe(HEADER_BYTES + bytes.length);
  value[0] = FORM;
  value.writeUInt32BE(checksumOf(key, bytes), 1);
  value.set(bytes, HEADER_BYTES);
  return value;
}

/** The bytes that were stored under `key`. Throws `DamagedRow`. */
export function withoutChecksum(key: Buffer, value: Buffer): Buffer {
  const bytes = verifiedBytes(key, value);
  if (!bytes) throw new DamagedRow(key, 'does not match its checksum');
  return bytes;
}

/** As `withoutChecksum`; `undefined` for a value that was not written under `key`. */
export function verifiedBytes(key: Buffer, value: Buffer): Buffer | undefined {
  if (value.length <= HEADER_BYTES || value[0] !== FORM) return undefined;
  const bytes = value.subarray(HEADER_BYTES);
  return value.readUInt32BE(1) === checksumOf(key, bytes) ? bytes : undefined;
}

/**
 * Says whether schema 1 may have written the value. What has the checksum, or had it and is damaged, is none of these.
 */
export function mayBeOfSchemaOne(key: Buffer, value: Buffer): boolean {
  switch (key[0]) {
    case PREFIX.expiry:
      return value.length > 0 && value.length % EXPIRY_RUN_BYTES === 0;
    case PREFIX.dedupUntil:
      return value.length > 0 && value.length % DEDUP_RUN_BYTES === 0;
    case PREFIX.collected:
      return value.length === COLLECTED_BYTES;
    default:
      return isArray(value[0]);
  }
}

/** Returns how MessagePack begins an array of less than 2^16 values. */
function isArray(first: number | undefined): boolean {
  return first !== undefined && ((first & 0xf0) === 0x90 || first === 0xdc);
}

/** That of CRC-32, its lowest bit first. */
const POLYNOMIAL = 0xedb88320;

/** Returns a row, with its key, as it was written, if at most one bit of both has flipped since; else `undefined`. */
export function pairBeforeFlip(key: Buffer, value: Buffer): Pair | undefined {
  const written = Buffer.concat([key, value]);
  const pair: Pair = [written.subarray(0, key.length), written.subarray(key.length)];
  if (value.length <= HEADER_BYTES) return undefined;
  const checksum = checksumOf(key, value.subarray(HEADER_BYTES));
  const difference = (value.readUInt32BE(1) ^ checksum) >>> 0;
  pair[1][0] = FORM;
  if ((difference & (difference - 1)) === 0) pair[1].writeUInt32BE(checksum, 1);
  // What a bit changes in the checksum follows from what the one behind it changes.
  let change = POLYNOMIAL;
  for (const bytes of [pair[1].subarray(HEADER_BYTES), pair[0]])
    for (let bit = 8 * bytes.length - 1; bit >= 0; bit--) {
      if (change === difference) bytes[bit >>> 3]! ^= 1 << (bit & 7);
      change = (((change & 1) * POLYNOMIAL) ^ (change >>> 1)) >>> 0;
    }
  return verifiedBytes(...pair) && pair;
}

function checksumOf(key: Buffer, bytes: Buffer): number {
  return crc32(bytes, crc32(key));
}

export const CHECKSUM_BYTES = 4;

export function encodeChecked(key: Buffer, bytes: Buffer): Buffer {
  const checksum = Buffer.allocUnsafe(CHECKSUM_BYTES);
  checksum.writeUInt32BE(crc32(bytes, crc32(key)));
  return Buffer.concat([checksum, bytes]);
}

/** Throws `DamagedRecord` for bytes that were not written under this key; `what` begins its sentence. */
export function decodeChecked(key: Buffer, value: Buffer | undefined, what: string): Buffer {
  if (!value) throw new DamagedRecord(`${what} is missing`);
  const bytes = value.subarray(CHECKSUM_BYTES);
  if (value.length <= CHECKSUM_BYTES || value.readUInt32BE(0) !== crc32(bytes, crc32(key)))
    throw new DamagedRecord(`${what} does not match its checksum`);
  return bytes;
}

const KEY = 32;

const KINDS = new Map<number, string>(Object.entries(PREFIX).map(([kind, prefix]) => [prefix, kind]));

/** The table, or what else the prefix of the key is of. */
export function rowKind(key: Buffer): string {
  return KINDS.get(key[0] ?? 0) ?? 'unknown';
}

/** As "a target row", without a name of a host. */
function rowSort(key: Buffer): string {
  const kind = rowKind(key);
  return `${/^[aeiou]/.test(kind) ? 'an' : 'a'} ${kind} row`;
}

/** As "the target row of SHA256:…"; of one whose key is not known, "the target row that is missing". */
export function rowName(key: Buffer): string {
  const kind = rowKind(key);
  if (key.length === 1 && KEY_BYTES[key[0] ?? 0] !== 1) return `the ${kind} row that is missing`;
  if (KEY_BYTES[key[0] ?? 0] !== key.length) return `the ${kind} row under the key ${key.toString('hex')}`;
  switch (key[0]) {
    case PREFIX.expiry:
    case PREFIX.dedupUntil:
      return `the ${kind} entry of ${isoTime(firstNumberOf(key))}`;
    case PREFIX.collected:
      return `the mark that says how far the queue of ${hostAt(key, 0)} is collected`;
    default:
      return `the ${kind} row of ${rowOwner(key)}`;
  }
}

export function rowOwner(key: Buffer): string {
  switch (key[0]) {
    case PREFIX.relay:
    case PREFIX.heartbeat:
      return 'the relay';
    case PREFIX.restore:
      return `the restore of ${isoTime(firstNumberOf(key))}`;
    case PREFIX.queue:
      return `${hostAt(key, 0)} at seq ${seqOf(key)}`;
    case PREFIX.share:
      return `sender ${hostAt(key, 1)} at ${hostAt(key, 0)}`;
    case PREFIX.account:
    case PREFIX.deny:
    case PREFIX.dedup:
    case PREFIX.invite:
      return `key ${key.subarray(1).toString('hex')}`;
    default:
      return key.length > KEY ? hostAt(key, 0) : `key ${key.toString('hex')}`;
  }
}

function hostAt(key: Buffer, position: number): string {
  return displayFingerprint(publicKeyFromBytes(key.subarray(1 + position * KEY, 1 + (position + 1) * KEY)));
}
