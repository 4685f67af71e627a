/**
 * Log records as they lie under their keys, to the byte. DO NOT CHANGE: add a form.
 *
 * A lone record is the value under its LSN, as record.ts writes it; its first byte is 1. Two or more records of one
 * batch lie in runs, each under the LSN of its last record:
 *
 *   0      form, u8: 2
 *   1..4   CRC-32 (ISO-HDLC) of the key and of bytes 5 up to the first record, u32
 *   5..6   how many records, u16, at least 2
 *   7..    the length of each, u32
 *   then   the records one behind another, each as record.ts writes it, with its own checksum
 *
 * Numbers are big-endian. A run has at most 256 records and, as it is stored, 64 KiB: a record that is larger is alone.
 * The run that holds a record is the first at or behind its LSN. Each record has the bytes that it would have alone, so
 * the hash tree does not know of runs.
 *
 * All that reads records does so by the walks and reads here, which go by LSN and give them undecoded and unchecked.
 */
import { crc32 } from 'node:zlib';
import type { Pair } from '../../lib/pair-block.ts';
import { keepRecent } from '../../lib/recent.ts';
import { logKey, lsnOf, PREFIX, prefixRange } from './keys.ts';
import type { Level } from './level.ts';
import { DamagedRecord } from './record.ts';
import { runsOf, type RunsOptions } from './scan.ts';

const RECORDS = prefixRange(PREFIX.log);
/** Records that are decoded in one turn of the event loop, about. */
const SHORT_RUN = { pairs: 100, bytes: 256 << 10 };

const FORM = 2;
const CHECKSUM_AT = 1;
const COUNT_AT = 5;
const LENGTHS_AT = 7;
const LENGTH_BYTES = 4;
const RECORDS_MAX = 256;
const BYTES_MAX = 64 << 10;

export type StoredRecord = [lsn: number, record: Buffer];

/** The records of one batch, the first at `firstLsn`, as they are stored. */
export function* recordPairs(firstLsn: number, records: readonly Buffer[]): Generator<Pair> {
  let from = 0;
  let bytes = LENGTHS_AT;
  for (const [at, { length }] of records.entries()) {
    const isFull = at - from === RECORDS_MAX || bytes + LENGTH_BYTES + length > BYTES_MAX;
    if (isFull && at > from) {
      yield pairOf(firstLsn + from, records.slice(from, at));
      [from, bytes] = [at, LENGTHS_AT];
    }
    bytes += LENGTH_BYTES + length;
  }
  if (from < records.length) yield pairOf(firstLsn + from, records.slice(from));
}

/** Says whether a value that `recordPairs` gave is of a form that schema 2 did not have. */
export function isRun(value: Buffer): boolean {
  return value[0] === FORM;
}

function pairOf(firstLsn: number, records: readonly Buffer[]): Pair {
  const key = logKey(firstLsn + records.length - 1);
  const [first] = records;
  if (first && records.length === 1) return [key, first];
  const firstAt = LENGTHS_AT + records.length * LENGTH_BYTES;
  const value = Buffer.allocUnsafe(records.reduce((bytes, { length }) => bytes + length, firstAt));
  value[0] = FORM;
  value.writeUInt16BE(records.length, COUNT_AT);
  let at = firstAt;
  for (const [position, record] of records.entries()) {
    value.writeUInt32BE(record.length, LENGTHS_AT + position * LENGTH_BYTES);
    value.set(record, at);
    at += record.length;
  }
  value.writeUInt32BE(checksumOf(key, value, firstAt), CHECKSUM_AT);
  return [key, value];
}

/** The records of a stored pair, ascending, unchecked. Throws `DamagedRecord` for a run that does not say which. */
export function recordsIn(pair: Pair): StoredRecord[] {
  const { first, value, places } = runOf(pair);
  return Array.from({ length: places.length - 1 }, (_none, at) => [
    first + at,
    value.subarray(places[at], places[at + 1]),
  ]);
}

/** A stored pair with the LSN of its first record and the places at which its records begin, and the last one ends. */
interface Run {
  first: number;
  value: Buffer;
  places: readonly number[];
}

/** One of those records; `undefined` when it is not among them. */
function recordIn({ first, value, places }: Run, lsn: number): Buffer | undefined {
  const [from, end] = [places[lsn - first], places[lsn - first + 1]];
  return from === undefined || end === undefined ? undefined : value.subarray(from, end);
}

function runOf([key, value]: Pair): Run {
  const last = lsnOf(key);
  if (!isRun(value)) return { first: last, value, places: [0, value.length] };
  const count = value.length > LENGTHS_AT ? value.readUInt16BE(COUNT_AT) : 0;
  let at = LENGTHS_AT + count * LENGTH_BYTES;
  const isWhole = count > 1 && count <= last && at < value.length;
  if (!isWhole || value.readUInt32BE(CHECKSUM_AT) !== checksumOf(key, value, at)) throw damagedRun(last);
  const places = [at];
  for (let nth = 0; nth < count; nth++) places.push((at += value.readUInt32BE(LENGTHS_AT + nth * LENGTH_BYTES)));
  if (at !== value.length) throw damagedRun(last);
  return { first: last - count + 1, value, places };
}

/** As `recordsIn`; none of a run that does not say which. */
export function readableRecordsIn(pair: Pair): StoredRecord[] {
  try {
    return recordsIn(pair);
  } catch {
    return [];
  }
}

function damagedRun(last: number): DamagedRecord {
  return new DamagedRecord(`the run of log records that ends with ${last} does not match its checksum`);
}

function checksumOf(key: Buffer, value: Buffer, firstAt: number): number {
  return crc32(value.subarray(COUNT_AT, firstAt), crc32(key));
}

/**
 * The records from `fromLsn` through `throughLsn`, in runs. Throws `DamagedRecord` at the first that is missing, after
 * the records before it.
 */
export async function* recordRuns(
  level: Level,
  fromLsn: number,
  throughLsn: number,
  options?: RunsOptions,
): AsyncGenerator<StoredRecord[]> {
  if (fromLsn > throughLsn) return;
  let expected = fromLsn;
  for await (const run of runsOf(level, { gte: logKey(fromLsn), lt: RECORDS.lt }, options)) {
    const records: StoredRecord[] = [];
    try {
      for (const one of recordsBetween(run, fromLsn, throughLsn)) {
        if (one[0] !== expected) throw missingRecord(expected);
        records.push(one);
        expected++;
      }
    } catch (error) {
      yield records;
      throw error;
    }
    yield records;
    if (expected > throughLsn) return;
  }
  throw missingRecord(expected);
}

function* recordsBetween(run: readonly Pair[], fromLsn: number, throughLsn: number): Generator<StoredRecord> {
  for (const pair of run)
    for (const one of recordsIn(pair)) {
      if (one[0] > throughLsn) return;
      // A key that is none of theirs has no LSN.
      if (one[0] >= fromLsn || one[0] === 0) yield one;
    }
}

/** As `recordRuns`, the newest first, in short runs. */
export async function* recordRunsBack(
  level: Level,
  throughLsn: number,
  fromLsn: number,
): AsyncGenerator<StoredRecord[]> {
  if (fromLsn > throughLsn) return;
  let expected = throughLsn;
  const [last] = await level.keys({ gte: logKey(throughLsn), lt: RECORDS.lt, limit: 1 }).all();
  if (!last) throw missingRecord(expected);
  let records: StoredRecord[] = [];
  for await (const run of runsOf(level, { gte: logKey(fromLsn), lte: last, reverse: true }, SHORT_RUN))
    for (const pair of run) {
      for (const one of [...recordsBetween([pair], fromLsn, throughLsn)].toReversed()) {
        if (one[0] !== expected) throw missingRecord(expected);
        records.push(one);
        expected--;
      }
      if (records.length < SHORT_RUN.pairs) continue;
      yield records;
      records = [];
    }
  if (expected >= fromLsn) throw missingRecord(expected);
  yield records;
}

/** As `recordRuns`, one by one, read in short runs: a relay that serves reads them too. */
export async function* storedRecords(level: Level, fromLsn: number, throughLsn: number): AsyncGenerator<StoredRecord> {
  for await (const run of recordRuns(level, fromLsn, throughLsn, SHORT_RUN)) yield* run;
}

/** The bytes of one record, unchecked; `undefined` when it is not there. */
export async function recordAt(level: Level, lsn: number): Promise<Buffer | undefined> {
  const run = await runAt(level, lsn);
  return run && recordIn(run, lsn);
}

/** The stored pair that holds the record at `lsn`, if any does. */
async function runAt(level: Level, lsn: number): Promise<Run | undefined> {
  const iterator = level.iterator({ gte: logKey(lsn), lt: RECORDS.lt });
  try {
    // `all` would ask again, for what is behind it.
    const [pair] = await iterator.nextv(1);
    return pair && runOf(pair);
  } finally {
    await iterator.close();
  }
}

/** Runs that stay: 1 MiB. */
const RUNS_MAX = 16;

/**
 * Reads single records, as `recordAt`. The runs that were read last stay, as a durable record never changes: a host
 * asks for one after another of those that one batch wrote. What is pruned is not to be asked for.
 */
export class RecentRuns {
  readonly #level: Level;
  /** By their first LSN. */
  readonly #runs = new Map<number, Run>();

  constructor(level: Level) {
    this.#level = level;
  }

  async recordAt(lsn: number): Promise<Buffer | undefined> {
    for (const run of this.#runs.values()) {
      const record = recordIn(run, lsn);
      if (!record) continue;
      keepRecent(this.#runs, run.first, run, RUNS_MAX);
      return record;
    }
    const run = await runAt(this.#level, lsn);
    // A record that lies alone may be large.
    if (run && run.places.length > 2) keepRecent(this.#runs, run.first, run, RUNS_MAX);
    return run && recordIn(run, lsn);
  }
}

/** The first record that is stored and can be told, whatever keys lie there besides; 0 when there is none. */
export async function firstStoredLsn(level: Level): Promise<number> {
  for await (const pair of level.iterator(RECORDS)) {
    const [first] = readableRecordsIn(pair);
    if (first && first[0] > 0) return first[0];
  }
  return 0;
}

/** The last record that is stored, whatever keys lie there besides; 0 when there is none. */
export async function lastStoredLsn(level: Level): Promise<number> {
  for await (const key of level.keys({ ...RECORDS, reverse: true })) if (lsnOf(key) > 0) return lsnOf(key);
  return 0;
}

/** The last record up to `lsn` with which a stored pair ends, so that the log can be cut behind it; 0 for none. */
export async function lastEndUpTo(level: Level, lsn: number): Promise<number> {
  const [key] = await level.keys({ gte: RECORDS.gte, lte: logKey(lsn), reverse: true, limit: 1 }).all();
  return key ? lsnOf(key) : 0;
}

export function missingRecord(lsn: number): DamagedRecord {
  return new DamagedRecord(`log record ${lsn} is missing`);
}
