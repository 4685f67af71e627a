/**
 * The records and rows of which every item has some, in the forms that they almost always have (plain-forms.ts): read
 * and written without an array of fields. `undefined` where something has another form: record.ts and row-codec.ts,
 * which keep the layouts, then go the general way, which gives the same.
 */
import type { ItemAccepted, ItemsAcked, RelayEvent } from '../core/event.ts';
import type { DedupRow, QueueRow } from '../core/rows.ts';
import { ACCEPTED_TAG } from '../../protocol/log-leaf.ts';
import { ITEM_KINDS, PUSHED_KINDS } from '../../protocol/items.ts';
import type { ItemId } from '../../protocol/names.ts';
import { PUBLIC_KEY_CHARACTERS, type PublicKey, keyTextAt } from '../../protocol/public-key.ts';
import { seqOf } from './keys.ts';
import { PlainReader, PlainWriter } from './plain-forms.ts';

/** DO NOT CHANGE: the tag is that of record.ts, the version of rows that of row-codec.ts. */
export const ACKED_TAG = 21;
const VERSION = 1;

const ACCEPTED_FIELDS = 9;
const ACKED_FIELDS = 10;
const QUEUE_FIELDS = 8;
const DEDUP_FIELDS = 8;

/** One of each, as nothing is read or written before the last was taken. */
const reader = new PlainReader();
const writer = new PlainWriter();

/** The event of a record whose MessagePack begins at `at`. */
export function plainEvent(record: Buffer, at: number): ItemAccepted | ItemsAcked | undefined {
  const tag = record[at + 1];
  if (tag !== ACCEPTED_TAG && tag !== ACKED_TAG) return undefined;
  reader.begin(record, at);
  const fields = reader.array();
  reader.number();
  if (reader.number() !== VERSION) return undefined;
  const event = tag === ACCEPTED_TAG ? acceptedOf(fields) : ackedOf(fields);
  return reader.isWhole ? event : undefined;
}

function acceptedOf(fields: number): ItemAccepted | undefined {
  if (fields !== ACCEPTED_FIELDS) return undefined;
  const senderPubkey = reader.key();
  const itemId = reader.text() as ItemId;
  const kind = PUSHED_KINDS[reader.number()];
  if (kind === undefined) return undefined;
  const targets: ItemAccepted['targets'] = [];
  for (let left = reader.array(); left > 0 && reader.isPlain; left--) {
    if (reader.array() !== 4) return undefined;
    targets.push({
      hostPubkey: reader.key(),
      seq: reader.number(),
      wireHash: reader.hash(),
      bytes: reader.number(),
    });
  }
  return {
    type: 'ItemAccepted',
    senderPubkey,
    itemId,
    kind,
    targets,
    acceptedAtMs: reader.number(),
    expiresAtMs: reader.number(),
    dedupUntilMs: reader.number(),
  };
}

function ackedOf(fields: number): ItemsAcked | undefined {
  if (fields !== ACKED_FIELDS) return undefined;
  const targetPubkey = reader.key();
  const through = reader.number();
  const items = reader.number();
  const bytes = reader.number();
  const notices = reader.number();
  const account = reader.textOrNull();
  const shares: ItemsAcked['shares'] = [];
  for (let left = reader.array(); left > 0 && reader.isPlain; left--) {
    if (reader.array() !== 3) return undefined;
    shares.push({ senderPubkey: reader.key(), items: reader.number(), bytes: reader.number() });
  }
  return {
    type: 'ItemsAcked',
    targetPubkey,
    through,
    items,
    bytes,
    notices,
    account,
    shares,
    atMs: reader.number(),
  };
}

/** The MessagePack of the event's record, until the next call. */
export function packedEvent(event: RelayEvent): Buffer | undefined {
  if (event.type === 'ItemAccepted') return packedAccepted(event);
  return event.type === 'ItemsAcked' ? packedAcked(event) : undefined;
}

function packedAccepted(event: ItemAccepted): Buffer | undefined {
  writer.begin();
  writer.array(ACCEPTED_FIELDS);
  writer.number(ACCEPTED_TAG);
  writer.number(VERSION);
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
}

function packedAcked(event: ItemsAcked): Buffer | undefined {
  writer.begin();
  writer.array(ACKED_FIELDS);
  writer.number(ACKED_TAG);
  writer.number(VERSION);
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
}

/** The queue row of bytes that lie under `key`, of an item that was not moved. */
export function plainQueueRow(key: Buffer, bytes: Buffer): QueueRow | undefined {
  reader.begin(bytes, 0);
  if (reader.array() !== QUEUE_FIELDS || reader.number() !== VERSION) return undefined;
  const kind = ITEM_KINDS[reader.number()];
  if (kind === undefined) return undefined;
  const targetPubkey = keyTextAt(key, 1);
  const seq = seqOf(key);
  const row: QueueRow = {
    targetPubkey,
    seq,
    kind,
    itemId: reader.text() as ItemId,
    senderPubkey: reader.key(),
    wireHash: reader.hash(),
    bytes: reader.number(),
    acceptedAtMs: reader.number(),
    expiresAtMs: reader.number(),
    payloadTarget: targetPubkey,
    payloadSeq: seq,
    payloadBound: undefined,
  };
  return reader.isWhole ? row : undefined;
}

/** The MessagePack of the row, until the next call. */
export function packedQueueRow(row: QueueRow): Buffer | undefined {
  if (row.payloadTarget !== row.targetPubkey || row.payloadSeq !== row.seq) return undefined;
  writer.begin();
  writer.array(QUEUE_FIELDS);
  writer.number(VERSION);
  writer.number(ITEM_KINDS.indexOf(row.kind));
  writer.text(row.itemId);
  writer.key(row.senderPubkey);
  writer.hash(row.wireHash);
  writer.number(row.bytes);
  writer.number(row.acceptedAtMs);
  writer.number(row.expiresAtMs);
  return writer.taken;
}

/** The dedup row of these bytes and this textual key, of an item that was not moved. */
export function plainDedupRow(text: string, stored: Buffer): DedupRow | undefined {
  reader.begin(stored, 0);
  if (reader.array() !== DEDUP_FIELDS || reader.number() !== VERSION) return undefined;
  const targetPubkey = text.slice(PUBLIC_KEY_CHARACTERS, 2 * PUBLIC_KEY_CHARACTERS) as PublicKey;
  const wireHash = reader.hash();
  const seq = reader.number();
  const bytes = reader.number();
  const acceptedAtMs = reader.number();
  const dedupUntilMs = reader.number();
  const expired = reader.boolean();
  const lsn = reader.number();
  if (!reader.isWhole) return undefined;
  return {
    senderPubkey: text.slice(0, PUBLIC_KEY_CHARACTERS) as PublicKey,
    targetPubkey,
    itemId: text.slice(2 * PUBLIC_KEY_CHARACTERS) as ItemId,
    wireHash,
    seq,
    bytes,
    acceptedAtMs,
    dedupUntilMs,
    queuedTarget: targetPubkey,
    queuedSeq: seq,
    lsn,
    expired,
  };
}

/** The MessagePack of the row, until the next call. */
export function packedDedupRow(row: DedupRow): Buffer | undefined {
  if (row.queuedTarget !== row.targetPubkey || row.queuedSeq !== row.seq) return undefined;
  writer.begin();
  writer.array(DEDUP_FIELDS);
  writer.number(VERSION);
  writer.hash(row.wireHash);
  writer.number(row.seq);
  writer.number(row.bytes);
  writer.number(row.acceptedAtMs);
  writer.number(row.dedupUntilMs);
  writer.boolean(row.expired);
  writer.number(row.lsn);
  return writer.taken;
}
