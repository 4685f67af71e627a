/** What the statements of a log in PostgreSQL give and take, as the relay has it. */
import { decodeBody } from './batch-body.ts';
import type { FollowedBatch, FoundBatch, LogState, StoredPayload, Tenure } from './shared-log.ts';

const PLACE_KEY_BYTES = 32;

export interface IdentityRow {
  system_identifier: string;
  timeline: number;
  now_ms: string;
  has_tables: boolean;
  standby_names: string;
}

export interface StateRow {
  log_id: string;
  state: string;
  format: number;
  term: string;
  tenure: string | null;
  is_free: boolean;
  holder: string;
  beat: string;
  beat_ms: string;
  settings: Buffer;
  doubt: string | null;
  wanted_by: string | null;
  system_identifier: string;
  timeline: number;
  pruned_no: string;
  snapshot_no: string;
  last_no: string;
  last_lsn: string | null;
  acked_no: string;
}

export interface RenewalRow {
  holds: boolean;
  doubt: string | null;
  wanted_by: string | null;
  now_ms: string;
  system_identifier: string;
  timeline: number;
  standby_names: string;
}

export interface AppendRow {
  appended: number;
  doubt: string | null;
}

export interface LackingRow {
  table_name: string;
  right_name: string;
  lacks_table: boolean;
}

export interface NodeRow {
  name: string;
  version: string;
  format: number;
  seen_ms: string;
}

export interface NamesRow {
  names: string;
}

export interface BatchRow {
  no: string;
  first_lsn: string;
  last_lsn: string;
  term: string;
  effects: Buffer;
  body: Buffer;
}

/** Without a batch when the log holds none of that number. */
export interface FoundRow {
  pruned_no: string;
  term: string | null;
  effects: Buffer | null;
  last_lsn: string | null;
}

export function foundBatch(row: FoundRow | undefined, no: number): FoundBatch | 'pruned' | undefined {
  if (!row) return undefined;
  const { term, effects, last_lsn, pruned_no } = row;
  if (effects) return { term: Number(term), effects, lastLsn: Number(last_lsn) };
  return no <= Number(pruned_no) ? 'pruned' : undefined;
}

export function stateOf(row: StateRow): LogState {
  return {
    logId: row.log_id,
    state: row.state,
    format: row.format,
    term: Number(row.term),
    tenure: row.tenure ?? undefined,
    isFree: row.is_free,
    holder: row.holder,
    beat: Number(row.beat),
    beatMs: Number(row.beat_ms),
    lastNo: Number(row.last_no),
    lastLsn: Number(row.last_lsn ?? 0),
    ackedNo: Number(row.acked_no),
    ledOn: { systemId: row.system_identifier, timeline: row.timeline },
    settings: row.settings,
    doubt: row.doubt ?? undefined,
    wantedBy: row.wanted_by ?? undefined,
    prunedNo: Number(row.pruned_no),
    snapshotNo: Number(row.snapshot_no),
  };
}

export function followedBatch({ no, first_lsn, last_lsn, term, effects, body }: BatchRow): FollowedBatch {
  const numbers = { no: Number(no), firstLsn: Number(first_lsn), lastLsn: Number(last_lsn), term: Number(term) };
  return { ...numbers, effects, ...decodeBody(body) };
}

export function named({ logId, term, tenure }: Tenure): [string, number, string] {
  return [logId, term, tenure];
}

export function putOf(payloads: readonly StoredPayload[]): [keys: Buffer, seqs: Buffer, wires: Buffer] {
  const places = payloads.map(({ place }) => place);
  return [keysOf(places), seqsOf(places), byteaArray(payloads.map(({ wire }) => wire))];
}

export function keysOf(places: readonly Buffer[]): Buffer {
  return byteaArray(places.map((place) => place.subarray(0, PLACE_KEY_BYTES)));
}

export function seqsOf(places: readonly Buffer[]): Buffer {
  return int8Array(places.map((place) => place.readBigInt64BE(PLACE_KEY_BYTES)));
}

/**
 * Arrays are sent as PostgreSQL's binary format has them: `pg` sends a Buffer parameter as it is, so the bytes of a
 * bytea[] go without hex. Layout: number of dimensions i32, 0 i32, OID of the elements i32, length i32, lower bound i32
 * (1), then each element: its length i32 and its bytes (PostgreSQL's array_send).
 */
const BYTEA = 17;
const INT8 = 20;
const HEADER_BYTES = 20;
const LENGTH_BYTES = 4;
const INT8_BYTES = 8;

function byteaArray(values: readonly Buffer[]): Buffer {
  if (values.length === 0) return emptyArray(BYTEA);
  const bytes = values.reduce((sum, value) => sum + LENGTH_BYTES + value.length, HEADER_BYTES);
  const array = headed(bytes, BYTEA, values.length);
  let at = HEADER_BYTES;
  for (const value of values) {
    at = array.writeInt32BE(value.length, at);
    at += value.copy(array, at);
  }
  return array;
}

function int8Array(values: readonly (number | bigint)[]): Buffer {
  if (values.length === 0) return emptyArray(INT8);
  const array = headed(HEADER_BYTES + values.length * (LENGTH_BYTES + INT8_BYTES), INT8, values.length);
  let at = HEADER_BYTES;
  for (const value of values) {
    at = array.writeInt32BE(INT8_BYTES, at);
    at = array.writeBigInt64BE(BigInt(value), at);
  }
  return array;
}

function headed(bytes: number, oid: number, length: number): Buffer {
  const array = Buffer.allocUnsafe(bytes);
  for (const [position, value] of [1, 0, oid, length, 1].entries()) array.writeInt32BE(value, position * 4);
  return array;
}

function emptyArray(oid: number): Buffer {
  const array = Buffer.alloc(12);
  array.writeInt32BE(oid, 8);
  return array;
}
