/**
 * Log records, to the byte:
 *
 *   0      format, u8: 1
 *   1..4   CRC-32 (ISO-HDLC) of the LSN (u64) followed by the body, u32
 *   5..    body: a MessagePack array of the event's tag, its version and its fields (event-codec.ts)
 *
 * Numbers are big-endian. The checksum is our own because LevelDB's recovery passes over damage in silence, and it
 * covers the LSN so that no record is taken for another. The bytes as stored are also a Merkle leaf (RFC 6962).
 */
import { crc32 } from 'node:zlib';
import type { LogEntry, RelayEvent } from '../core/event.ts';
import { EVENT_CODECS, type EventCodec } from './event-codec.ts';
import { NotListed, pack, unpackArray } from './packing.ts';

const FORMAT = 1;
const HEADER_BYTES = 5;
const VERSION = 1;

const byTag = new Map<unknown, EventCodec>(Object.values(EVENT_CODECS).map((codec) => [codec.tag, codec]));

/** Every event there is, by the name of its type. */
export const EVENT_TYPES: readonly RelayEvent['type'][] = Object.keys(EVENT_CODECS) as RelayEvent['type'][];

/** Thrown for bytes that are no record at this LSN: altered, moved, or of an unknown format. */
export class DamagedRecord extends Error {}

export function encodeRecord({ lsn, event }: LogEntry): Buffer {
  const body = pack(encodeEvent(event));
  const record = Buffer.allocUnsafe(HEADER_BYTES + body.length);
  record[0] = FORMAT;
  record.writeUInt32BE(checksum(lsn, body), 1);
  body.copy(record, HEADER_BYTES);
  return record;
}

/** Whether the bytes are what was written at `lsn`; throws `DamagedRecord` otherwise. */
export function checkRecord(lsn: number, record: Buffer): void {
  if (record.length <= HEADER_BYTES || record[0] !== FORMAT)
    throw new DamagedRecord(`log record ${lsn} has no known format`);
  if (record.readUInt32BE(1) !== checksum(lsn, record.subarray(HEADER_BYTES))) {
    throw new DamagedRecord(`log record ${lsn} does not match its checksum`);
  }
}

/** Throws `DamagedRecord`. */
export function decodeRecord(lsn: number, record: Buffer): LogEntry {
  checkRecord(lsn, record);
  const event = decodeEvent(unpackArray(record.subarray(HEADER_BYTES)));
  if (typeof event === 'string') throw new DamagedRecord(`log record ${lsn} ${event}`);
  return { lsn, event };
}

/**
 * The event of a record whose bytes something else vouches for: a proof tells a place in a tree and no LSN. Throws
 * `DamagedRecord` for whatever it cannot read.
 */
export function decodeProvenRecord(record: Buffer): RelayEvent {
  if (record.length <= HEADER_BYTES || record[0] !== FORMAT) throw new DamagedRecord('the record has no known format');
  let event: RelayEvent | string;
  try {
    event = decodeEvent(unpackArray(record.subarray(HEADER_BYTES)));
  } catch {
    throw new DamagedRecord('the record is unreadable');
  }
  if (typeof event === 'string') throw new DamagedRecord(`the record ${event}`);
  return event;
}

/** What altered bytes seem to say, for people and for nothing else; `undefined` when they say nothing. */
export function guessEvent(record: Buffer): RelayEvent | undefined {
  try {
    const event = decodeEvent(unpackArray(record.subarray(HEADER_BYTES)));
    return typeof event === 'string' ? undefined : event;
  } catch {
    return undefined;
  }
}

function checksum(lsn: number, body: Buffer): number {
  const number = Buffer.allocUnsafe(8);
  number.writeBigUInt64BE(BigInt(lsn));
  return crc32(body, crc32(number));
}

function encodeEvent(event: RelayEvent): unknown[] {
  const codec = EVENT_CODECS[event.type];
  return [codec.tag, VERSION, ...codec.fields(event)];
}

/** The event, or why this software cannot read it. */
function decodeEvent([tag, version, ...fields]: unknown[]): RelayEvent | string {
  if (version !== VERSION) return 'is of a newer version';
  const codec = byTag.get(tag);
  if (!codec) return `has the unknown tag ${String(tag)}`;
  try {
    return codec.event(fields);
  } catch (error) {
    if (error instanceof NotListed) return 'names an unknown kind';
    throw error;
  }
}
