/**
 * Log records, to the byte:
 *
 *   0      format, u8: 1
 *   1..4   CRC-32 (ISO-HDLC) of the LSN (u64) followed by the body, u32
 *   5..    body: a MessagePack array of the event's tag, its version and its fields in the order of the layouts below
 *
 * Numbers are big-endian. The checksum is our own because LevelDB's recovery passes over damage in silence, and it
 * covers the LSN so that no record is taken for another. The bytes as stored are also a Merkle leaf (RFC 6962).
 *
 * DO NOT CHANGE a tag or the order of the fields of an event: add a version.
 */
import { crc32 } from 'node:zlib';
import type { LogEntry, RelayEvent, KeyRotated } from '../core/event.ts';
import {
  ENROLMENT_LAYOUT,
  NotListed,
  pack,
  unpackArray,
  type Layout,
  asIs,
  hash,
  key,
  listOf,
  oneOf,
  orNull,
  tuple,
} from './packing.ts';
import { ACKED_TAG, packedEvent, plainEvent } from './plain-items.ts';
import { ACCEPTED_TAG, RECORD_HEAD_BYTES, RECORD_VERSION } from '../../protocol/log-leaf.ts';
import { ITEM_KINDS, PUSHED_KINDS } from '../../protocol/items.ts';
import type { DenySelectors, RestoreRow } from '../core/rows.ts';

/** A codec makes an array of one type of event, and brings it back. */
interface EventCodec<E extends RelayEvent = RelayEvent> {
  tag: number;
  fields(event: E): unknown[];
  event(fields: unknown[]): E;
}

type Members<T extends RelayEvent['type']> = Omit<RelayEvent & { type: T }, 'type'>;

/** The one event whose records end in two ways: see `rotationCodec`. */
type Special = 'KeyRotated';
type Layouts = {
  readonly [T in Exclude<RelayEvent['type'], Special>]: readonly [tag: number, layout: Layout<Members<T>>];
};

const restore: Layout<RestoreRow> = {
  epoch: asIs,
  backupEpoch: asIs,
  backupLsn: asIs,
  backupCreatedAtMs: asIs,
  replacedEpoch: asIs,
  replacedLsn: asIs,
  atMs: asIs,
};
const selectors: Layout<DenySelectors> = { hostFp: orNull(hash), clientId: asIs, account: asIs, org: asIs };
const usage = { items: asIs, bytes: asIs };
const item = { itemId: asIs, senderPubkey: key, pushedTo: key };

const LAYOUTS_OF_HOSTS = {
  RelayInitialised: [1, { relayPubkey: key, epoch: asIs, schemaVersion: asIs, atMs: asIs }],
  EpochRotated: [2, { epoch: asIs, reason: asIs, atMs: asIs }],
  RelayRestored: [3, { ...restore, earlier: listOf(tuple(restore)) }],
  SchemaMigrated: [5, { schemaVersion: asIs, atMs: asIs }],
  CheckpointTaken: [4, { throughLsn: asIs, rows: asIs, rowsHash: hash, dueHash: hash, atMs: asIs }],
  HostEnrolled: [
    10,
    { hostPubkey: key, ...ENROLMENT_LAYOUT, formerAccount: asIs, chargedItems: asIs, chargedBytes: asIs, atMs: asIs },
  ],
  HostSeen: [11, { hostPubkey: key, atMs: asIs }],
  V2HopMade: [33, { hostPubkey: key, atMs: asIs }],
  EnrolmentLapsed: [12, { hostPubkey: key, account: asIs, releasedItems: asIs, releasedBytes: asIs, atMs: asIs }],
  HostRevoked: [15, { hostPubkey: key, cause: asIs, atMs: asIs }],
} satisfies Partial<Layouts>;

const LAYOUTS_OF_MAIL = {
  DenyEntryAdded: [17, { ...selectors, reason: asIs, untilMs: asIs, atMs: asIs }],
  InviteIssued: [18, { inviteHash: hash, label: asIs, expiresAtMs: asIs, atMs: asIs }],
  InviteSpent: [19, { inviteHash: hash, hostPubkey: key, atMs: asIs }],
  AdmissionsLapsed: [30, { denied: listOf(tuple(selectors)), invites: listOf(hash), atMs: asIs }],
  SendersPublished: [13, { hostPubkey: key, senders: listOf(key), iatMs: asIs, atMs: asIs }],
  SendersRenewed: [31, { hostPubkey: key, iatMs: asIs, atMs: asIs }],
  SendersDated: [34, { hostPubkey: key, iatMs: asIs, atMs: asIs }],
  EncKeyPublished: [14, { hostPubkey: key, encPub: asIs, advertisedAtMs: asIs, sig: asIs, atMs: asIs }],
  ItemAccepted: [
    ACCEPTED_TAG,
    {
      senderPubkey: key,
      itemId: asIs,
      kind: oneOf(PUSHED_KINDS),
      targets: listOf(tuple({ hostPubkey: key, seq: asIs, wireHash: hash, bytes: asIs })),
      acceptedAtMs: asIs,
      expiresAtMs: asIs,
      dedupUntilMs: asIs,
    },
  ],
  ItemsAcked: [
    ACKED_TAG,
    {
      targetPubkey: key,
      through: asIs,
      ...usage,
      notices: asIs,
      account: asIs,
      shares: listOf(tuple({ senderPubkey: key, ...usage })),
      atMs: asIs,
    },
  ],
  ItemsExpired: [
    22,
    {
      targetPubkey: key,
      relayPubkey: key,
      items: listOf(tuple({ seq: asIs, kind: oneOf(ITEM_KINDS), ...item, bytes: asIs })),
      account: asIs,
      dedupUntilMs: asIs,
      notices: listOf(
        tuple({ targetPubkey: key, seq: asIs, itemId: asIs, wire: asIs, wireHash: hash, expiresAtMs: asIs }),
      ),
      atMs: asIs,
    },
  ],
  DedupExtended: [32, { targetPubkey: key, items: listOf(tuple(item)), dedupUntilMs: asIs, atMs: asIs }],
  DedupPurged: [24, { beforeMs: asIs, senders: listOf(tuple({ senderPubkey: key, rows: asIs })), atMs: asIs }],
  ItemLost: [
    23,
    {
      targetPubkey: key,
      seq: asIs,
      kind: oneOf(ITEM_KINDS),
      senderPubkey: key,
      itemId: asIs,
      pushedTo: key,
      bytes: asIs,
      account: asIs,
      reason: asIs,
      atMs: asIs,
    },
  ],
  ItemsMoved: [25, { oldPubkey: key, newPubkey: key, fromSeqs: asIs, firstSeq: asIs, left: asIs, atMs: asIs }],
  SeqFloorsRaised: [26, { floors: listOf(tuple({ targetPubkey: key, headSeq: asIs })), atMs: asIs }],
} satisfies Partial<Layouts>;

const rotation = tuple<Omit<KeyRotated, 'type' | 'signed' | 'atMs'>>({
  oldPubkey: key,
  newPubkey: key,
  iatMs: asIs,
  ...ENROLMENT_LAYOUT,
  seen: asIs,
  lineage: listOf(tuple({ hostPubkey: key, retiredAtMs: asIs })),
  movesSenders: asIs,
  firstSeq: asIs,
  moved: asIs,
  ...usage,
  charges: listOf(tuple({ account: asIs, ...usage })),
});
const ROTATION_FIELDS = 19;

/** Ends with the time, and the signed record in three fields; records from before it was kept end with the time. */
const rotationCodec: EventCodec<KeyRotated> = {
  tag: 16,
  fields: ({ signed, ...event }) => {
    const record = signed ? [signed.record, signed.oldSig, signed.newSig] : [];
    return [...rotation.pack(event), event.atMs, ...record];
  },
  event: (fields) => {
    const [atMs, record, oldSig = '', newSig = ''] = fields.slice(ROTATION_FIELDS) as [number, ...string[]];
    const signed = record === undefined ? null : { record, oldSig, newSig };
    return { type: 'KeyRotated', ...rotation.unpack(fields), signed, atMs };
  },
};

const EVENT_CODECS: { readonly [T in RelayEvent['type']]: EventCodec } = {
  ...codecsOf(LAYOUTS_OF_HOSTS),
  KeyRotated: rotationCodec,
  ...codecsOf(LAYOUTS_OF_MAIL),
};

function codecsOf<T extends Partial<Layouts>>(layouts: T): { readonly [K in keyof T]: EventCodec } {
  const codecs = Object.entries(layouts).map(([type, [tag, layout]]) => {
    const { pack, unpack } = tuple<object>(layout);
    const codec: EventCodec = {
      tag,
      fields: pack,
      event: (fields) => Object.assign({ type }, unpack(fields)) as RelayEvent,
    };
    return [type, codec];
  });
  return Object.fromEntries(codecs) as { readonly [K in keyof T]: EventCodec };
}

const FORMAT = 1;

const byTag = new Map<unknown, EventCodec>(Object.values(EVENT_CODECS).map((codec) => [codec.tag, codec]));

/** Every event there is, by the name of its type. */
export const EVENT_TYPES: readonly RelayEvent['type'][] = Object.keys(EVENT_CODECS) as RelayEvent['type'][];

/** Thrown for bytes that are no record at this LSN: altered, moved, or of an unknown format. */
export class DamagedRecord extends Error {}

export function encodeRecord({ lsn, event }: LogEntry): Buffer {
  const body = packedEvent(event) ?? pack(encodeEvent(event));
  const record = Buffer.allocUnsafe(RECORD_HEAD_BYTES + body.length);
  record[0] = FORMAT;
  record.writeUInt32BE(checksum(lsn, body), 1);
  record.set(body, RECORD_HEAD_BYTES);
  return record;
}

/** Throws `DamagedRecord` where the bytes are not what was written at `lsn`. */
export function checkRecord(lsn: number, record: Buffer): void {
  if (record.length <= RECORD_HEAD_BYTES || record[0] !== FORMAT)
    throw new DamagedRecord(`log record ${lsn} has no known format`);
  if (record.readUInt32BE(1) !== checksum(lsn, record.subarray(RECORD_HEAD_BYTES))) {
    throw new DamagedRecord(`log record ${lsn} does not match its checksum`);
  }
}

export function decodeRecord(lsn: number, record: Buffer): LogEntry {
  checkRecord(lsn, record);
  return decodeWholeRecord(lsn, record);
}

/** As `decodeRecord`, of bytes known to be whole. Throws `DamagedRecord` for what this software does not know. */
export function decodeWholeRecord(lsn: number, record: Buffer): LogEntry {
  const event = plainEvent(record, RECORD_HEAD_BYTES) ?? decodeEvent(unpackArray(record.subarray(RECORD_HEAD_BYTES)));
  if (typeof event === 'string') throw new DamagedRecord(`log record ${lsn} ${event}`);
  return { lsn, event };
}

/**
 * The event of a record whose bytes something else vouches for: a proof tells a place in a tree and no LSN. Throws
 * `DamagedRecord` for whatever it cannot read.
 */
export function decodeProvenRecord(record: Buffer): RelayEvent {
  if (record.length <= RECORD_HEAD_BYTES || record[0] !== FORMAT)
    throw new DamagedRecord('the record has no known format');
  const event = readEvent(record);
  if (event === undefined) throw new DamagedRecord('the record is unreadable');
  if (typeof event === 'string') throw new DamagedRecord(`the record ${event}`);
  return event;
}

/** Returns what altered bytes seem to say, for people and for nothing else; `undefined` when they say nothing. */
export function guessEvent(record: Buffer): RelayEvent | undefined {
  const event = readEvent(record);
  return typeof event === 'string' ? undefined : event;
}

/** What `decodeEvent` makes of bytes that nobody vouches for; `undefined` when they cannot be read. */
function readEvent(record: Buffer): RelayEvent | string | undefined {
  try {
    return decodeEvent(unpackArray(record.subarray(RECORD_HEAD_BYTES)));
  } catch {
    return undefined;
  }
}

/** The LSN as it is hashed. Each use fills it and hashes it at once. */
const number = Buffer.alloc(8);

function checksum(lsn: number, body: Buffer): number {
  number.writeUInt32BE(Math.floor(lsn / 2 ** 32));
  number.writeUInt32BE(lsn % 2 ** 32, 4);
  return crc32(body, crc32(number));
}

function encodeEvent(event: RelayEvent): unknown[] {
  const codec = EVENT_CODECS[event.type];
  return [codec.tag, RECORD_VERSION, ...codec.fields(event)];
}

/** The event, or why this software cannot read it. */
function decodeEvent([tag, version, ...fields]: unknown[]): RelayEvent | string {
  if (version !== RECORD_VERSION) return 'is of a newer version';
  const codec = byTag.get(tag);
  if (!codec) return `has the unknown tag ${String(tag)}`;
  try {
    return codec.event(fields);
  } catch (error) {
    if (error instanceof NotListed) return 'names an unknown kind';
    throw error;
  }
}
