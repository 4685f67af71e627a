/**
 * Rows to stored values and back. A row is an array whose first element is the version of its layout; around it stands
 * the checksum of checksum.ts, which every decoding checks.
 *
 * What a row's textual key already says is not stored again. DO NOT CHANGE a layout: add a version.
 */
import { ITEM_KINDS } from '../../protocol/items.ts';
import type { ItemId } from '../../protocol/names.ts';
import { PUBLIC_KEY_CHARACTERS, type PublicKey, keyTextAt } from '../../protocol/public-key.ts';
import { type AuthorityName, type TableName, type Tables, isMoved } from '../core/rows.ts';
import { DamagedRow, withChecksum, withoutChecksum } from './checksum.ts';
import { firstKeyOf, seqOf } from './keys.ts';
import {
  ENROLMENT_LAYOUT,
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
import { reader, writer } from './plain-forms.ts';

interface Codec<Row> {
  /** The bytes of a row, until the next call. */
  bytes(row: Row): Buffer;
  /**
   * The row of bytes under a key, when `reader` stands behind their version; `text` is its textual key where the caller
   * knows it. `length`: of the array that the bytes are.
   */
  row(bytes: Buffer, length: number, key: Buffer, text: string): Row;
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

/** The length of a queue or dedup row whose item was not moved; the place of one that was stands behind. */
const UNMOVED_FIELDS = 8;

function beginItem(isOfMoved: boolean): void {
  writer.begin();
  writer.array(isOfMoved ? UNMOVED_FIELDS + 2 : UNMOVED_FIELDS);
  writer.number(VERSION);
}

const queueCodec: Codec<Tables['queue']> = {
  bytes: (row) => {
    beginItem(isMoved(row));
    writer.number(ITEM_KINDS.indexOf(row.kind));
    writer.text(row.itemId);
    writer.key(row.senderPubkey);
    writer.hash(row.wireHash);
    writer.number(row.bytes);
    writer.number(row.acceptedAtMs);
    writer.number(row.expiresAtMs);
    if (isMoved(row)) {
      writer.key(row.payloadTarget);
      writer.number(row.payloadSeq);
    }
    return writer.taken;
  },
  row: (_bytes, length, key) => {
    const targetPubkey = keyTextAt(key, 1);
    const seq = seqOf(key);
    const row: Tables['queue'] = {
      targetPubkey,
      seq,
      kind: listed(ITEM_KINDS, reader.number()),
      itemId: reader.text() as ItemId,
      senderPubkey: reader.key(),
      wireHash: reader.hash(),
      bytes: reader.number(),
      acceptedAtMs: reader.number(),
      expiresAtMs: reader.number(),
      payloadTarget: length > UNMOVED_FIELDS ? reader.key() : targetPubkey,
      payloadSeq: length > UNMOVED_FIELDS ? reader.number() : seq,
      payloadBound: undefined,
    };
    reader.end();
    return row;
  },
};

const dedupCodec: Codec<Tables['dedup']> = {
  bytes: (row) => {
    const isOfMoved = row.queuedTarget !== row.targetPubkey || row.queuedSeq !== row.seq;
    beginItem(isOfMoved);
    writer.hash(row.wireHash);
    writer.number(row.seq);
    writer.number(row.bytes);
    writer.number(row.acceptedAtMs);
    writer.number(row.dedupUntilMs);
    writer.boolean(row.expired);
    writer.number(row.lsn);
    if (isOfMoved) {
      writer.key(row.queuedTarget);
      writer.number(row.queuedSeq);
    }
    return writer.taken;
  },
  row: (_bytes, length, _key, text) => {
    const targetPubkey = text.slice(PUBLIC_KEY_CHARACTERS, 2 * PUBLIC_KEY_CHARACTERS) as PublicKey;
    const wireHash = reader.hash();
    const seq = reader.number();
    const bytes = reader.number();
    const acceptedAtMs = reader.number();
    const dedupUntilMs = reader.number();
    const expired = reader.boolean();
    const lsn = reader.number();
    const queuedTarget = length > UNMOVED_FIELDS ? reader.key() : targetPubkey;
    const queuedSeq = length > UNMOVED_FIELDS ? reader.number() : seq;
    reader.end();
    return {
      senderPubkey: text.slice(0, PUBLIC_KEY_CHARACTERS) as PublicKey,
      targetPubkey,
      itemId: text.slice(2 * PUBLIC_KEY_CHARACTERS) as ItemId,
      wireHash,
      seq,
      bytes,
      acceptedAtMs,
      dedupUntilMs,
      queuedTarget,
      queuedSeq,
      lsn,
      expired,
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
  enrolment: arrayCodec(
    // A row ends with its last mark, so that one without any has the bytes that it always had.
    (row) => {
      const marks = [row.madeV2Hop, row.invited, row.sendersDatedMs ?? false];
      return [...enrolment.pack(row), ...marks.slice(0, marks.findLastIndex((mark) => mark !== false) + 1)];
    },
    (fields, key) => {
      const [madeV2Hop = false, invited = false, datedMs = false] = fields.slice(ENROLMENT_FIELDS);
      return {
        hostPubkey: firstKeyOf(key),
        ...enrolment.unpack(fields),
        madeV2Hop: madeV2Hop === true,
        invited: invited === true,
        sendersDatedMs: datedMs === false ? null : (datedMs as number),
      };
    },
  ),
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
  const { pack: fieldsOf, unpack: rowOf } = tuple(layout);
  return arrayCodec(fieldsOf, rowOf);
}

/** Returns the codec of a row that is made into an array of fields first. */
function arrayCodec<Row>(
  fieldsOf: (row: Row) => unknown[],
  rowOf: (fields: unknown[], key: Buffer) => Row,
): Codec<Row> {
  return {
    bytes: (row) => pack([VERSION, ...fieldsOf(row)]),
    row: (bytes, _length, key) => rowOf(unpackArray(bytes).slice(1), key),
  };
}

/** Returns what is stored under `key` for a row of the table. */
export function encodeRow<T extends TableName>(table: T, key: Buffer, row: Tables[T]): Buffer {
  return withChecksum(key, packRow(table, row));
}

/** The bytes of the row without a checksum, until the next call. */
export function packRow<T extends TableName>(table: T, row: Tables[T]): Buffer {
  return codecs[table].bytes(row);
}

/** Returns the bytes of a row without a checksum: what is hashed, and what lies in a run. */
export function rowBytes<T extends TableName>(table: T, row: Tables[T]): Buffer {
  return Buffer.from(packRow(table, row));
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
export function rowOf<T extends TableName>(table: T, key: Buffer, bytes: Buffer, text = ''): Tables[T] {
  try {
    reader.begin(bytes);
    const length = reader.array();
    const version = reader.number();
    if (version !== VERSION) throw new DamagedRow(key, `has layout ${version}, not ${VERSION}`);
    return codecs[table].row(bytes, length, key, text);
  } catch (error) {
    throw error instanceof DamagedRow ? error : new DamagedRow(key, 'cannot be read', { cause: error });
  }
}
