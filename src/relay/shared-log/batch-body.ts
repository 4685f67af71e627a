/**
 * The body of a batch in a shared log, to the byte. DO NOT CHANGE: add a format.
 *
 *   0      format, u8: 1
 *   1..4   CRC-32 (ISO-HDLC) of what follows, u32
 *   5..8   how many records, u32
 *   then   each record: its length, u32, and its bytes (store/record.ts)
 *   then   what else the batch does: a MessagePack array of
 *            due entries of items that are forgotten: pairs of due time and LSN
 *            due entries of dedup rows that are forgotten: the same
 *            dedup rows that are forgotten: 32 bytes each (store/keys.ts, 50)
 *            null, or what is collected of one queue: target key 32, collected through, the seqs of its rows, and where
 *            the wire bytes lie of those rows that were moved: triples of seq, target key 32, seq
 *
 * Numbers are big-endian.
 */
import { crc32 } from 'node:zlib';
import type { CollectedSlice } from '../store/collect.ts';
import type { DueEntryName, Forgotten } from '../store/durable-log.ts';
import { publicKeyBytes, publicKeyFromBytes } from '../../protocol/public-key.ts';
import { pack, unpackArray } from '../store/packing.ts';

export const BATCH_FORMAT = 1;
const HEADER_BYTES = 9;
const LENGTH_BYTES = 4;

/** A batch does this to the keys of the log beside what its records say. */
export interface SharedPart {
  forgotten: Forgotten;
  collected: CollectedSlice | undefined;
}

/** Thrown for bytes that are no body of this format. */
export class DamagedBatch extends Error {}

export function encodeBody(records: readonly Buffer[], shared: Buffer): Buffer {
  const bytes = HEADER_BYTES + records.reduce((sum, record) => sum + LENGTH_BYTES + record.length, shared.length);
  const body = Buffer.allocUnsafe(bytes);
  body[0] = BATCH_FORMAT;
  body.writeUInt32BE(records.length, 5);
  let at = HEADER_BYTES;
  for (const record of records) {
    at = body.writeUInt32BE(record.length, at);
    at += record.copy(body, at);
  }
  shared.copy(body, at);
  body.writeUInt32BE(crc32(body.subarray(5)), 1);
  return body;
}

/** Throws `DamagedBatch`. */
export function decodeBody(body: Buffer): { records: Buffer[]; shared: Buffer } {
  if (body.length < HEADER_BYTES || body[0] !== BATCH_FORMAT)
    throw new DamagedBatch('a batch of the log has no known format');
  if (body.readUInt32BE(1) !== crc32(body.subarray(5)))
    throw new DamagedBatch('a batch of the log does not match its checksum');
  const records: Buffer[] = [];
  let at = HEADER_BYTES;
  for (let left = body.readUInt32BE(5); left > 0; left--) {
    const from = at + LENGTH_BYTES;
    at = from + body.readUInt32BE(at);
    records.push(body.subarray(from, at));
  }
  return { records, shared: body.subarray(at) };
}

export function encodeShared({ forgotten, collected }: SharedPart): Buffer {
  const { expiryEntries, dedupEntries, dedupRows } = forgotten;
  return pack([names(expiryEntries), names(dedupEntries), dedupRows, collected ? collectedFields(collected) : null]);
}

function names(entries: readonly DueEntryName[]): number[][] {
  return entries.map(({ dueMs, lsn }) => [dueMs, lsn]);
}

function collectedFields({ targetPubkey, through, items }: CollectedSlice): unknown[] {
  const moved = items.filter(
    ({ seq, payloadTarget, payloadSeq }) => payloadTarget !== targetPubkey || payloadSeq !== seq,
  );
  return [
    publicKeyBytes(targetPubkey),
    through,
    items.map(({ seq }) => seq),
    moved.map(({ seq, payloadTarget, payloadSeq }) => [seq, publicKeyBytes(payloadTarget), payloadSeq]),
  ];
}

type StoredNames = [dueMs: number, lsn: number][];
type StoredCollected = [target: Buffer, through: number, seqs: number[], moved: [number, Buffer, number][]];

export function decodeShared(shared: Buffer): SharedPart {
  const [expiry, dedup, rows, collected] = unpackArray(shared) as [
    StoredNames,
    StoredNames,
    Buffer[],
    StoredCollected | null,
  ];
  const entries = (names: StoredNames): DueEntryName[] => names.map(([dueMs, lsn]) => ({ dueMs, lsn }));
  const forgotten = { expiryEntries: entries(expiry), dedupEntries: entries(dedup), dedupRows: rows };
  return { forgotten, collected: collected ? collectedSlice(collected) : undefined };
}

function collectedSlice([target, through, seqs, moved]: StoredCollected): CollectedSlice {
  const targetPubkey = publicKeyFromBytes(target);
  const places = new Map(
    moved.map(([seq, place, payloadSeq]) => [seq, { payloadTarget: publicKeyFromBytes(place), payloadSeq }]),
  );
  const items = seqs.map((seq) => ({ seq, ...(places.get(seq) ?? { payloadTarget: targetPubkey, payloadSeq: seq }) }));
  return { targetPubkey, items, through };
}
