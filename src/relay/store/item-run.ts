/**
 * Runs: the items that one batch brought to one target, their rows as one value and their wire bytes as another. To the
 * byte (DO NOT CHANGE: add a form):
 *
 *   row run, under 40    0      form, u8: 2
 *                        1..4   CRC-32 (ISO-HDLC) of the key and of the bytes from 5 on
 *                        5..6   n, how many rows, at least 1, u16
 *                        7      flags, u8. Bit 0: the wire bytes lie under another key; the others are 0
 *                        8..    with bit 0: that key without its prefix, 40 bytes
 *                        then   n times: bound - seq, u32; length, u16
 *                        then   the rows, as row-codec.ts writes them, without a checksum
 *   wire run, under 41   0      form, u8: 2
 *                        1..4   CRC-32 of the key and of the bytes from 5 up to the first wire byte
 *                        5..6   n, at least 1, u16
 *                        7..    n times: bound - seq, u32; length, u32; CRC-32 of target 32, seq u64 and the wire bytes
 *                        then   the wire bytes one behind another
 *
 * Numbers are big-endian. The key of either ends in its bound: the seq of the last item at the time of writing, which
 * stays when that item has left. Seqs ascend, and all of a run lie above the bound of the run before. The wire bytes of
 * a row run lie under the same bound, unless a rotation moved the rows: the bytes stay at their place of acceptance.
 * What is left of a run from which some rows were moved names them too, since it shares them.
 *
 * A row alone, of form 1 (checksum.ts), is of schema 2, or was moved from one of schema 2; its wire bytes are raw. What
 * leaves the store, or is hashed, is as schema 2 has it: `rowPairs`.
 */
import { crc32 } from 'node:zlib';
import { caught, nothing } from '../../lib/caught.ts';
import type { Pair } from '../../lib/pair-block.ts';
import type { QueueRow } from '../core/rows.ts';
import { DamagedRow, verifiedBytes, withChecksum, withoutChecksum } from './checksum.ts';
import { KEY_BYTES, PREFIX, payloadKey, queueKey, seqOf, writeNumber } from './keys.ts';
import { decodeRow, rowBytes, rowOf } from './row-codec.ts';

const FORM = 2;
const CHECKED_FROM = 5;
const WIRE_HEAD_BYTES = 7;
const ROW_HEAD_BYTES = 8;
const ROW_ENTRY_BYTES = 6;
const WIRE_ENTRY_BYTES = 12;
const ELSEWHERE = 1;
const SEQ_AT = 33;
const PLACE_BYTES = 40;
const BEHIND_MAX = 0xffff_ffff;

export const RUN_ROWS_MAX = 256;
const RUN_WIRE_BYTES_MAX = 64 << 10;
/** An item of more wire bytes is a run of its own, so that no rewrite of a run touches it. */
const LONE_WIRE_BYTES = 16 << 10;

/** An item to be written; without wire bytes where those are gone already. */
export interface NewItem {
  row: QueueRow;
  wire: Buffer | undefined;
}

/** The stored pairs of one run. */
export interface PackedRun {
  pairs: Pair[];
  first: number;
  bound: number;
}

/** The runs of new items of one target, in the order of their seqs. Notes in each row where its wire bytes lie. */
export function* packedRuns(items: readonly NewItem[]): Generator<PackedRun> {
  for (const run of cutIntoRuns(items)) {
    const [{ row: first }, { row: last }] = [run[0] as NewItem, run.at(-1) as NewItem];
    const key = queueKey(first.targetPubkey, last.seq);
    const wireKey = payloadKey(first.targetPubkey, last.seq);
    const rows: RunRow[] = [];
    const entries: WireEntry[] = [];
    for (const { row, wire } of run) {
      row.payloadBound = last.seq;
      rows.push({ seq: row.seq, bytes: rowBytes('queue', row) });
      if (wire) entries.push(wireEntry(wireKey, row.seq, wire));
    }
    const pairs: Pair[] = [[key, encodeRowRun(key, rows)]];
    if (entries.length > 0) pairs.push([wireKey, encodeWireRun(wireKey, entries)]);
    yield { pairs, first: first.seq, bound: last.seq };
  }
}

/** Cuts items of one target, in the order of their seqs, into those of one run each. */
export function* cutIntoRuns<T extends { row: Pick<QueueRow, 'seq' | 'bytes'> }>(items: readonly T[]): Generator<T[]> {
  let run: T[] = [];
  let bytes = 0;
  for (const item of items) {
    const { row } = item;
    const isOver =
      run.length === RUN_ROWS_MAX ||
      bytes + row.bytes > RUN_WIRE_BYTES_MAX ||
      row.bytes > LONE_WIRE_BYTES ||
      row.seq - (run[0]?.row.seq ?? row.seq) > BEHIND_MAX;
    if (isOver && run.length > 0) {
      yield run;
      [run, bytes] = [[], 0];
    }
    run.push(item);
    bytes += row.bytes > LONE_WIRE_BYTES ? RUN_WIRE_BYTES_MAX : row.bytes;
  }
  if (run.length > 0) yield run;
}

/** A row of a run, by its own bytes. */
export interface RunRow {
  seq: number;
  bytes: Buffer;
}

export interface RowRun {
  key: Buffer;
  /** The key under which the wire bytes lie, and whether a rotation put the rows elsewhere. */
  wireKey: Buffer;
  isMoved: boolean;
  /** Ascending. */
  rows: RunRow[];
}

/** `wireKey`: where the wire bytes lie, when that is not under the same bound. */
export function encodeRowRun(key: Buffer, rows: readonly RunRow[], wireKey?: Buffer): Buffer {
  const headBytes = ROW_HEAD_BYTES + (wireKey ? PLACE_BYTES : 0);
  let size = headBytes;
  for (const { bytes } of rows) size += ROW_ENTRY_BYTES + bytes.length;
  const value = Buffer.allocUnsafe(size);
  value[0] = FORM;
  value.writeUInt16BE(rows.length, CHECKED_FROM);
  value[ROW_HEAD_BYTES - 1] = wireKey ? ELSEWHERE : 0;
  wireKey?.copy(value, ROW_HEAD_BYTES, 1);
  const bound = seqOf(key);
  let entry = headBytes;
  let at = headBytes + ROW_ENTRY_BYTES * rows.length;
  for (const { seq, bytes } of rows) {
    value.writeUInt32BE(bound - seq, entry);
    entry = value.writeUInt16BE(bytes.length, entry + 4);
    value.set(bytes, at);
    at += bytes.length;
  }
  value.writeUInt32BE(checksumOf(key, value, size), 1);
  return value;
}

/** `undefined` for what is no row run that was written under this key. */
export function decodeRowRun(key: Buffer, value: Buffer): RowRun | undefined {
  if (!isRun(value) || key.length !== KEY_BYTES[PREFIX.queue]) return undefined;
  if (value.readUInt32BE(1) !== checksumOf(key, value, value.length)) return undefined;
  const flags = value[ROW_HEAD_BYTES - 1] as number;
  const isMoved = flags === ELSEWHERE;
  const entries = ROW_HEAD_BYTES + (isMoved ? PLACE_BYTES : 0);
  const count = value.readUInt16BE(CHECKED_FROM);
  let at = entries + ROW_ENTRY_BYTES * count;
  if (flags > ELSEWHERE || count === 0 || at > value.length) return undefined;
  const bound = seqOf(key);
  const rows: RunRow[] = [];
  for (let entry = entries; rows.length < count; entry += ROW_ENTRY_BYTES) {
    const end = at + value.readUInt16BE(entry + 4);
    rows.push({ seq: bound - value.readUInt32BE(entry), bytes: value.subarray(at, end) });
    at = end;
  }
  if (at !== value.length || !ascend(rows)) return undefined;
  const place = isMoved ? value.subarray(ROW_HEAD_BYTES, entries) : key.subarray(1);
  return { key, wireKey: wireKeyOf(place), isMoved, rows };
}

/** Says whether the value is of a run, or was. */
export function isRun(value: Buffer): boolean {
  return value[0] === FORM && value.length > ROW_HEAD_BYTES;
}

function ascend(rows: readonly { seq: number }[]): boolean {
  return rows.every(({ seq }, at) => at === 0 || seq > (rows[at - 1] as { seq: number }).seq);
}

function wireKeyOf(place: Buffer): Buffer {
  const key = Buffer.allocUnsafe(1 + PLACE_BYTES);
  key[0] = PREFIX.payload;
  key.set(place, 1);
  return key;
}

/** Returns the key of the same prefix and target with another seq. */
export function keyAt(key: Buffer, seq: number): Buffer {
  const bytes = Buffer.from(key);
  writeNumber(bytes, seq, SEQ_AT);
  return bytes;
}

/** The pairs of a queue as schema 2 stores them: each row alone. What cannot be read is given as it lies there. */
export function rowPairs(pair: Pair): Pair[] {
  return bytesInRun(pair)?.map(([key, bytes]): Pair => [key, withChecksum(key, bytes)]) ?? [pair];
}

/** As `rowPairs`, the bytes of the rows alone. Throws `DamagedRow`. */
export function rowBytesOf(pair: Pair): Pair[] {
  return bytesInRun(pair) ?? [[pair[0], withoutChecksum(...pair)]];
}

/** The seqs of the rows of a stored pair, as far as that can be told. */
export function seqsIn([key, value]: Pair): number[] {
  return decodeRowRun(key, value)?.rows.map(({ seq }) => seq) ?? [seqOf(key)];
}

/** The rows of a run, each under its own key; `undefined` for a row alone, and for what cannot be read. */
function bytesInRun([key, value]: Pair): Pair[] | undefined {
  return decodeRowRun(key, value)?.rows.map(({ seq, bytes }): Pair => [keyAt(key, seq), bytes]);
}

/** Every row of a stored pair of a queue, with where its wire bytes lie. Throws `DamagedRow`. */
export function queueRowsOf([key, value]: Pair): QueueRow[] {
  if (!isRun(value)) return [decodeRow('queue', key, value)];
  const run = decodeRowRun(key, value);
  if (!run) throw new DamagedRow(key, 'does not match its checksum');
  return run.rows.map((row) => queueRowOf(run, row));
}

export function queueRowOf({ key, wireKey }: RowRun, { seq, bytes }: RunRow): QueueRow {
  const row = rowOf('queue', keyAt(key, seq), bytes);
  row.payloadBound = seqOf(wireKey);
  return row;
}

/** As `queueRowsOf`; `undefined` where they cannot be read. */
export function readableRowsOf(pair: Pair): QueueRow[] | undefined {
  return caught(() => queueRowsOf(pair), DamagedRow, nothing);
}

/** Says whether a stored row, or a run of rows, is what was written under its key. */
export function isWholeRow(key: Buffer, value: Buffer): boolean {
  if (key[0] === PREFIX.queue && isRun(value)) return decodeRowRun(key, value) !== undefined;
  return verifiedBytes(key, value) !== undefined;
}

export interface WireEntry {
  seq: number;
  wire: Buffer;
  /** Covers target, seq and wire bytes. */
  checksum: number;
}

/** Returns the entry of wire bytes that were accepted for the target of `key`. */
export function wireEntry(key: Buffer, seq: number, wire: Buffer): WireEntry {
  return { seq, wire, checksum: wireChecksum(key, seq, wire) };
}

function wireChecksum(key: Buffer, seq: number, wire: Buffer): number {
  place.set(key.subarray(1, SEQ_AT));
  writeNumber(place, seq, SEQ_AT - 1);
  const ofPlace = crc32(place);
  // Of no bytes zlib answers 0, or the checksum before them: that depends on whether they have memory.
  return wire.length === 0 ? ofPlace : crc32(wire, ofPlace);
}

const place = Buffer.alloc(PLACE_BYTES);

export function encodeWireRun(key: Buffer, entries: readonly WireEntry[]): Buffer {
  const headBytes = WIRE_HEAD_BYTES + WIRE_ENTRY_BYTES * entries.length;
  let size = headBytes;
  for (const { wire } of entries) size += wire.length;
  const value = Buffer.allocUnsafe(size);
  value[0] = FORM;
  let entry = value.writeUInt16BE(entries.length, CHECKED_FROM);
  const bound = seqOf(key);
  let at = headBytes;
  for (const { seq, wire, checksum } of entries) {
    entry = value.writeUInt32BE(bound - seq, entry);
    entry = value.writeUInt32BE(wire.length, entry);
    entry = value.writeUInt32BE(checksum, entry);
    value.set(wire, at);
    at += wire.length;
  }
  value.writeUInt32BE(checksumOf(key, value, headBytes), 1);
  return value;
}

/** The entries of a wire run, unchecked; `undefined` for what has no head of one that was written under this key. */
export function decodeWireRun(key: Buffer, value: Buffer): WireEntry[] | undefined {
  if (!isRun(value) || key.length !== KEY_BYTES[PREFIX.payload]) return undefined;
  const count = value.readUInt16BE(CHECKED_FROM);
  let at = WIRE_HEAD_BYTES + WIRE_ENTRY_BYTES * count;
  if (count === 0 || at > value.length || value.readUInt32BE(1) !== checksumOf(key, value, at)) return undefined;
  const bound = seqOf(key);
  const entries: WireEntry[] = [];
  for (let entry = WIRE_HEAD_BYTES; entries.length < count; entry += WIRE_ENTRY_BYTES) {
    const end = at + value.readUInt32BE(entry + 4);
    const seq = bound - value.readUInt32BE(entry);
    entries.push({ seq, wire: value.subarray(at, end), checksum: value.readUInt32BE(entry + 8) });
    at = end;
  }
  return at === value.length && ascend(entries) ? entries : undefined;
}

/** The wire bytes of an entry; `undefined` when they are not what was written. */
export function wholeWire(key: Buffer, { seq, wire, checksum }: WireEntry): Buffer | undefined {
  return wireChecksum(key, seq, wire) === checksum ? wire : undefined;
}

export const BOUND_BYTES = 8;
/** In place of a bound: wire bytes that lie raw under their own key. */
const ALONE = Buffer.alloc(BOUND_BYTES, 0xff);
const NO_WIRE = Buffer.alloc(0);

/**
 * The wire bytes of a stored pair, each under the key that schema 2 has for them with the bound of the run behind it
 * (`wirePlaceOf`); none in place of those that are not what their checksum is of.
 */
export function placedWires([key, value]: Pair): Pair[] {
  const entries = decodeWireRun(key, value);
  if (!entries) return [[Buffer.concat([key, ALONE]), value]];
  const bound = key.subarray(-BOUND_BYTES);
  return entries.map((entry) => [Buffer.concat([keyAt(key, entry.seq), bound]), wholeWire(key, entry) ?? NO_WIRE]);
}

/** The place that a row names for its wire bytes. These ascend as the wire bytes lie, but for rows that were moved. */
export function wirePlaceOf({ payloadTarget, payloadSeq, payloadBound }: QueueRow): Buffer {
  const bound = payloadBound === undefined ? ALONE : payloadKey(payloadTarget, payloadBound).subarray(-BOUND_BYTES);
  return Buffer.concat([payloadKey(payloadTarget, payloadSeq), bound]);
}

function checksumOf(key: Buffer, value: Buffer, end: number): number {
  return crc32(value.subarray(CHECKED_FROM, end), crc32(key));
}
