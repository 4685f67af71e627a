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
import { caught, nothing } from '../../lib/caught.ts';
import type { ItemAccepted, ItemsAcked, LogEntry, RelayEvent, KeyRotated } from '../core/event.ts';
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
  listed,
  oneOf,
  orNull,
  tuple,
} from './packing.ts';
import { reader, writer } from './plain-forms.ts';
import { ACCEPTED_TAG, RECORD_HEAD_BYTES, RECORD_VERSION } from '../../protocol/log-leaf.ts';
import { ITEM_KINDS, PUSHED_KINDS } from '../../protocol/items.ts';
import type { ItemId } from '../../protocol/names.ts';
import type { DenySelectors, RestoreRow } from '../core/rows.ts';

/** A codec makes the body of the records of one type of event, and brings the event back. */
interface EventCodec<E extends RelayEvent = RelayEvent> {
  tag: number;
  /** The body, until the next call. */
  body(event: E): Buffer;
  /** To be called when `reader` stands behind the tag and the version of the record. */
  event(record: Buffer): E;
}

type Members<T extends RelayEvent['type']> = Omit<RelayEvent & { type: T }, 'type'>;

/** The events of which every item has some, and the one whose records end in two ways: see `rotationCodec`. */
type Special = 'ItemAccepted' | 'ItemsAcked' | 'KeyRotated';
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

const LAYOUTS_OF_ADMISSION = {
  DenyEntryAdded: [17, { ...selectors, reason: asIs, untilMs: asIs, atMs: asIs }],
  InviteIssued: [18, { inviteHash: hash, label: asIs, expiresAtMs: asIs, atMs: asIs }],
  InviteSpent: [19, { inviteHash: hash, hostPubkey: key, atMs: asIs }],
  AdmissionsLapsed: [30, { denied: listOf(tuple(selectors)), invites: listOf(hash), atMs: asIs }],
  SendersPublished: [13, { hostPubkey: key, senders: listOf(key), iatMs: asIs, atMs: asIs }],
  SendersRenewed: [31, { hostPubkey: key, iatMs: asIs, atMs: asIs }],
  SendersDated: [34, { hostPubkey: key, iatMs: asIs, atMs: asIs }],
  EncKeyPublished: [14, { hostPubkey: key, encPub: asIs, advertisedAtMs: asIs, sig: asIs, atMs: asIs }],
} satisfies Partial<Layouts>;

const LAYOUTS_OF_MAIL = {
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
const rotationCodec = arrayCodec<KeyRotated>(
  16,
  ({ signed, ...event }) => {
    const record = signed ? [signed.record, signed.oldSig, signed.newSig] : [];
    return [...rotation.pack(event), event.atMs, ...record];
  },
  (fields) => {
    const [atMs, record, oldSig = '', newSig = ''] = fields.slice(ROTATION_FIELDS) as [number, ...string[]];
    const signed = record === undefined ? null : { record, oldSig, newSig };
    return { type: 'KeyRotated', ...rotation.unpack(fields), signed, atMs };
  },
);

function beginBody(fields: number, tag: number): void {
  writer.begin();
  writer.array(2 + fields);
  writer.number(tag);
  writer.number(RECORD_VERSION);
}

const acceptedCodec: EventCodec<ItemAccepted> = {
  tag: ACCEPTED_TAG,
  body: (event) => {
    beginBody(7, ACCEPTED_TAG);
    writer.key(event.senderPubkey);
    writer.text(event.itemId);
    writer.number(PUSHED_KINDS.indexOf(event.kind));
    writer.array(event.targets.length);
    for (const { hostPubkey, seq, wireHash, bytes } of event.targets) {
      writer.array(4);
      writer.key(hostPubkey);
      writer.number(seq);
      writer.hash(wireHash);
      writer.number(bytes);
    }
    writer.number(event.acceptedAtMs);
    writer.number(event.expiresAtMs);
    writer.number(event.dedupUntilMs);
    return writer.taken;
  },
  event: () => {
    const senderPubkey = reader.key();
    const itemId = reader.text() as ItemId;
    const kind = listed(PUSHED_KINDS, reader.number());
    const targets: ItemAccepted['targets'] = [];
    for (let left = reader.array(); left > 0; left--) {
      reader.tuple(4);
      targets.push({
        hostPubkey: reader.key(),
        seq: reader.number(),
        wireHash: reader.hash(),
        bytes: reader.number(),
      });
    }
    const event: ItemAccepted = {
      type: 'ItemAccepted',
      senderPubkey,
      itemId,
      kind,
      targets,
      acceptedAtMs: reader.number(),
      expiresAtMs: reader.number(),
      dedupUntilMs: reader.number(),
    };
    reader.end();
    return event;
  },
};

const ACKED_TAG = 21;

const ackedCodec: EventCodec<ItemsAcked> = {
  tag: ACKED_TAG,
  body: (event) => {
    beginBody(8, ACKED_TAG);
    writer.key(event.targetPubkey);
    writer.number(event.through);
    writer.number(event.items);
    writer.number(event.bytes);
    writer.number(event.notices);
    writer.textOrNull(event.account);
    writer.array(event.shares.length);
    for (const { senderPubkey, items, bytes } of event.shares) {
      writer.array(3);
      writer.key(senderPubkey);
      writer.number(items);
      writer.number(bytes);
    }
    writer.number(event.atMs);
    return writer.taken;
  },
  event: () => {
    const targetPubkey = reader.key();
    const through = reader.number();
    const items = reader.number();
    const bytes = reader.number();
    const notices = reader.number();
    const account = reader.textOrNull();
    const shares: ItemsAcked['shares'] = [];
    for (let left = reader.array(); left > 0; left--) {
      reader.tuple(3);
      shares.push({ senderPubkey: reader.key(), items: reader.number(), bytes: reader.number() });
    }
    const atMs = reader.number();
    reader.end();
    return { type: 'ItemsAcked', targetPubkey, through, items, bytes, notices, account, shares, atMs };
  },
};

const EVENT_CODECS: { readonly [T in RelayEvent['type']]: EventCodec } = {
  ...codecsOf(LAYOUTS_OF_HOSTS),
  KeyRotated: rotationCodec,
  ...codecsOf(LAYOUTS_OF_ADMISSION),
  ItemAccepted: acceptedCodec,
  ItemsAcked: ackedCodec,
  ...codecsOf(LAYOUTS_OF_MAIL),
};

/** Returns the codec of an event that is made into an array of fields first. */
function arrayCodec<E extends RelayEvent>(
  tag: number,
  fieldsOf: (event: E) => unknown[],
  eventOf: (fields: unknown[]) => E,
): EventCodec<E> {
  return {
    tag,
    body: (event) => pack([tag, RECORD_VERSION, ...fieldsOf(event)]),
    event: (record) => eventOf(unpackArray(record.subarray(RECORD_HEAD_BYTES)).slice(2)),
  };
}

function codecsOf<T extends Partial<Layouts>>(layouts: T): { readonly [K in keyof T]: EventCodec } {
  const codecs = Object.entries(layouts).map(([type, [tag, layout]]) => {
    const { pack, unpack } = tuple<object>(layout);
    return [type, arrayCodec(tag, pack, (fields) => Object.assign({ type }, unpack(fields)) as RelayEvent)];
  });
  return Object.fromEntries(codecs) as { readonly [K in keyof T]: EventCodec };
}

const FORMAT = 1;

const byTag = new Map<number, EventCodec>(Object.values(EVENT_CODECS).map((codec) => [codec.tag, codec]));

/** Every event there is, by the name of its type. */
export const EVENT_TYPES: readonly RelayEvent['type'][] = Object.keys(EVENT_CODECS) as RelayEvent['type'][];

/** Thrown for bytes that are no record at this LSN: altered, moved, or of an unknown format. */
export class DamagedRecord extends Error {}

export function encodeRecord({ lsn, event }: LogEntry): Buffer {
  const body = EVENT_CODECS[event.type].body(event);
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
  return { lsn, event: eventIn(record, `log record ${lsn}`) };
}

/**
 * The event of a record whose bytes something else vouches for: a proof tells a place in a tree and no LSN. Throws
 * `DamagedRecord` for whatever it cannot read.
 */
export function decodeProvenRecord(record: Buffer): RelayEvent {
  if (record.length <= RECORD_HEAD_BYTES || record[0] !== FORMAT)
    throw new DamagedRecord('the record has no known format');
  return eventIn(record, 'the record');
}

/** Returns what altered bytes seem to say, for people and for nothing else; `undefined` when they say nothing. */
export function guessEvent(record: Buffer): RelayEvent | undefined {
  return caught(() => eventIn(record, 'the record'), DamagedRecord, nothing);
}

/** The LSN as it is hashed. Each use fills it and hashes it at once. */
const number = Buffer.alloc(8);

function checksum(lsn: number, body: Buffer): number {
  number.writeUInt32BE(Math.floor(lsn / 2 ** 32));
  number.writeUInt32BE(lsn % 2 ** 32, 4);
  return crc32(body, crc32(number));
}

/** The event of a record, whatever its head says. Throws `DamagedRecord`; `what` begins its sentence. */
function eventIn(record: Buffer, what: string): RelayEvent {
  try {
    reader.begin(record, RECORD_HEAD_BYTES);
    reader.array();
    const tag = reader.number();
    if (reader.number() !== RECORD_VERSION) throw new DamagedRecord(`${what} is of a newer version`);
    const codec = byTag.get(tag);
    if (!codec) throw new DamagedRecord(`${what} has the unknown tag ${tag}`);
    return codec.event(record);
  } catch (error) {
    if (error instanceof DamagedRecord) throw error;
    const why = error instanceof NotListed ? 'names an unknown kind' : 'is unreadable';
    throw new DamagedRecord(`${what} ${why}`, { cause: error });
  }
}
