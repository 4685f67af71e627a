/**
 * Rows to stored values and back. A row is an array whose first element is the version of its layout; around it stands
 * the checksum of checksum.ts, which every decoding checks.
 *
 * What a row's textual key already says is not stored again. DO NOT CHANGE a layout: add a version.
 */
import { ITEM_KINDS } from '../../protocol/items.ts';
import type { ItemId } from '../../protocol/names.ts';
import { PUBLIC_KEY_CHARACTERS, type PublicKey } from '../../protocol/public-key.ts';
import type { AuthorityName, TableName, Tables } from '../core/rows.ts';
import { DamagedRow, ROW_AT, withChecksum, withoutChecksum } from './checksum.ts';
import { firstKeyOf, queueRowKey } from './keys.ts';
import {
  ENROLMENT_LAYOUT,
  hashBytes,
  hashFrom,
  keyBytes,
  keyFrom,
  listed,
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
import { packedDedupRow, packedQueueRow, plainDedupRow, plainQueueRow } from './plain-items.ts';

interface Codec<Row> {
  fields(row: Row): unknown[];
  row(fields: unknown[], key: string): Row;
}

const VERSION = 1;

/** DO NOT CHANGE the order: stored as its position. */
const AUTHORITIES: readonly AuthorityName[] = ['host-key', 'account-token'];

const usage = { items: asIs, bytes: asIs };
type Marks = 'madeV2Hop' | 'invited' | 'sendersDatedMs';
const enrolment = tuple<Omit<Tables['enrolment'], 'hostPubkey' | Marks>>({
  ...ENROLMENT_LAYOUT,
  authorizedBy: oneOf(AUTHORITIES),
  revokedAtMs: asIs,
  rotatedTo: orNull(key),
  seen: asIs,
});

const ENROLMENT_FIELDS = 11;

/** By hand, as is that of dedup rows: every item has one of each. The place of moved items is stored at the end. */
const queueCodec: Codec<Tables['queue']> = {
  fields: (row) => {
    const own = row.payloadTarget === row.targetPubkey && row.payloadSeq === row.seq;
    const payload = own ? [] : [keyBytes(row.payloadTarget), row.payloadSeq];
    const { itemId, senderPubkey, wireHash, bytes, acceptedAtMs, expiresAtMs } = row;
    const kind = ITEM_KINDS.indexOf(row.kind);
    return [kind, itemId, keyBytes(senderPubkey), hashBytes(wireHash), bytes, acceptedAtMs, expiresAtMs, ...payload];
  },
  row: ([kind, itemId, sender, wireHash, bytes, acceptedAtMs, expiresAtMs, payloadTarget, payloadSeq], key) => {
    const targetPubkey = key.slice(0, PUBLIC_KEY_CHARACTERS) as PublicKey;
    const seq = Number(key.slice(PUBLIC_KEY_CHARACTERS));
    return {
      targetPubkey,
      seq,
      kind: listed(ITEM_KINDS, kind),
      itemId: itemId as ItemId,
      senderPubkey: keyFrom(sender),
      wireHash: hashFrom(wireHash),
      bytes: bytes as number,
      acceptedAtMs: acceptedAtMs as number,
      expiresAtMs: expiresAtMs as number,
      payloadTarget: payloadTarget === undefined ? targetPubkey : keyFrom(payloadTarget),
      payloadSeq: payloadSeq === undefined ? seq : (payloadSeq as number),
    };
  },
};

/** The first byte that MessagePack has for the array of a queue row whose bytes lie under its own key. */
const UNMOVED_ARRAY = 0x98;

/** Says whether a stored queue row may name a payload under another key than its own, without reading all of it. */
export function namesAnother(value: Buffer): boolean {
  return value[ROW_AT] !== UNMOVED_ARRAY;
}

const dedupCodec: Codec<Tables['dedup']> = {
  fields: (row) => {
    const { wireHash, seq, bytes, acceptedAtMs, dedupUntilMs, expired, lsn, queuedTarget, queuedSeq } = row;
    const unmoved = queuedTarget === row.targetPubkey && queuedSeq === seq;
    const moved = unmoved ? [] : [keyBytes(queuedTarget), queuedSeq];
    return [hashBytes(wireHash), seq, bytes, acceptedAtMs, dedupUntilMs, expired, lsn, ...moved];
  },
  row: ([wireHash, seq, bytes, acceptedAtMs, dedupUntilMs, expired, lsn, queuedTarget, queuedSeq], key) => {
    const targetPubkey = key.slice(PUBLIC_KEY_CHARACTERS, 2 * PUBLIC_KEY_CHARACTERS) as PublicKey;
    return {
      senderPubkey: key.slice(0, PUBLIC_KEY_CHARACTERS) as PublicKey,
      targetPubkey,
      itemId: key.slice(2 * PUBLIC_KEY_CHARACTERS) as ItemId,
      wireHash: hashFrom(wireHash),
      seq: seq as number,
      bytes: bytes as number,
      acceptedAtMs: acceptedAtMs as number,
      dedupUntilMs: dedupUntilMs as number,
      queuedTarget: queuedTarget === undefined ? targetPubkey : keyFrom(queuedTarget),
      queuedSeq: (queuedSeq ?? seq) as number,
      lsn: lsn as number,
      expired: expired as boolean,
    };
  },
};

const codecs: { [T in TableName]: Codec<Tables[T]> } = {
  relay: codecOf({ relayPubkey: key, epoch: asIs, schemaVersion: asIs, initialisedAtMs: asIs, dedupPurgedMs: asIs }),
  heartbeat: codecOf({ atMs: asIs }),
  restore: codecOf({
    atMs: asIs,
    epoch: asIs,
    backupEpoch: asIs,
    backupLsn: asIs,
    backupCreatedAtMs: asIs,
    replacedEpoch: asIs,
    replacedLsn: asIs,
  }),
  enrolment: {
    // A row ends with its last mark, so that one without any has the bytes that it always had.
    fields: (row) => {
      const marks = [row.madeV2Hop, row.invited, row.sendersDatedMs ?? false];
      return [...enrolment.pack(row), ...marks.slice(0, marks.findLastIndex((mark) => mark !== false) + 1)];
    },
    row: (fields, hostPubkey) => {
      const [madeV2Hop = false, invited = false, datedMs = false] = fields.slice(ENROLMENT_FIELDS);
      return {
        hostPubkey: hostPubkey as PublicKey,
        ...enrolment.unpack(fields),
        madeV2Hop: madeV2Hop === true,
        invited: invited === true,
        sendersDatedMs: datedMs === false ? null : (datedMs as number),
      };
    },
  },
  lineage: codecOf({ members: listOf(tuple({ hostPubkey: key, retiredAtMs: asIs })) }),
  senders: codecOf({ senders: listOf(key), iatMs: asIs }),
  encKey: codecOf({ encPub: asIs, atMs: asIs, sig: asIs }),
  deny: codecOf({ hostFp: orNull(hash), clientId: asIs, account: asIs, org: asIs, reason: asIs, untilMs: asIs }),
  invite: codecOf({ label: asIs, issuedAtMs: asIs, expiresAtMs: asIs }),
  rotation: codecOf({ record: asIs, oldSig: asIs, newSig: asIs }),
  target: codecOf({ headSeq: asIs, ackedThrough: asIs, queueItems: asIs, queueBytes: asIs }),
  share: codecOf(usage),
  account: codecOf(usage),
  sender: codecOf({ dedupRows: asIs }),
  move: codecOf({ newPubkey: key, nextSeq: asIs, left: asIs }),
  queue: queueCodec,
  dedup: dedupCodec,
};

/** Returns the codec of a row that is stored whole. */
function codecOf<Row extends object>(layout: Layout<Row>): Codec<Row> {
  const { pack: fields, unpack: row } = tuple(layout);
  return { fields, row };
}

/** Returns what is stored under `key` for a row of the table. */
export function encodeRow<T extends TableName>(table: T, key: Buffer, row: Tables[T]): Buffer {
  return withChecksum(key, packRow(table, row));
}

/** The bytes of the row without a checksum, until the next call. */
export function packRow<T extends TableName>(table: T, row: Tables[T]): Buffer {
  return packedRow(table, row) ?? pack([VERSION, ...codecs[table].fields(row)]);
}

/** Returns the bytes of a row without a checksum: what is hashed, and what lies in a run. */
export function rowBytes<T extends TableName>(table: T, row: Tables[T]): Buffer {
  return Buffer.from(packedRow(table, row) ?? pack([VERSION, ...codecs[table].fields(row)]));
}

/** In the form that almost every row has, of the tables of which every item has one. */
function packedRow<T extends TableName>(table: T, row: Tables[T]): Buffer | undefined {
  if (table === 'queue') return packedQueueRow(row as Tables['queue']);
  return table === 'dedup' ? packedDedupRow(row as Tables['dedup']) : undefined;
}

/**
 * The row that is stored under `key`. `text` is its textual key, which only a dedup row needs to say whose it is: of a
 * hash it cannot be told. Throws `DamagedRow` for what was not written under this key, or has a layout that this
 * software does not know.
 */
export function decodeRow<T extends TableName>(table: T, key: Buffer, value: Buffer, text?: string): Tables[T] {
  return rowOf(table, key, withoutChecksum(key, value), text);
}

/** The row of bytes that have no checksum, as schema 1 and the parts of a checkpoint have them. Throws `DamagedRow`. */
export function rowOf<T extends TableName>(table: T, key: Buffer, bytes: Buffer, text?: string): Tables[T] {
  return (plainRow(table, key, bytes, text) as Tables[T] | undefined) ?? anyRowOf(table, key, bytes, text);
}

/** As `packedRow`. */
function plainRow(table: TableName, key: Buffer, bytes: Buffer, text = ''): Tables['queue' | 'dedup'] | undefined {
  if (table === 'queue') return plainQueueRow(key, bytes);
  return table === 'dedup' ? plainDedupRow(text, bytes) : undefined;
}

function anyRowOf<T extends TableName>(table: T, key: Buffer, bytes: Buffer, text?: string): Tables[T] {
  let unpacked: unknown[];
  try {
    unpacked = unpackArray(bytes);
  } catch (error) {
    throw new DamagedRow(key, 'cannot be read', { cause: error });
  }
  const [version, ...fields] = unpacked;
  if (version !== VERSION) throw new DamagedRow(key, `has layout ${String(version)}, not ${VERSION}`);
  try {
    return codecs[table].row(fields, text ?? textualKey(table, key));
  } catch (error) {
    throw new DamagedRow(key, 'cannot be read', { cause: error });
  }
}

/** As much of the textual key as the decoders want. */
function textualKey(table: TableName, key: Buffer): string {
  if (table === 'queue') return queueRowKey(key);
  return table === 'enrolment' ? firstKeyOf(key) : '';
}
