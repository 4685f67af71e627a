/**
 * Every walk over log records, and the look-up of one of them, by LSN. How records lie under their keys is nobody
 * else's concern: each walk yields a record with its LSN, undecoded and unchecked.
 */
import type { Pair } from '../../lib/pair-block.ts';
import { logKey, lsnOf, PREFIX, prefixRange } from './keys.ts';
import type { Level } from './level.ts';
import { DamagedRecord } from './record.ts';
import { runsOf, type RunsOptions } from './scan.ts';

/** Records that are decoded in one turn of the event loop, about. */
const SHORT_RUN = { pairs: 100, bytes: 256 << 10 };

const RECORDS = prefixRange(PREFIX.log);

export type StoredRecord = [lsn: number, record: Buffer];

/** The records of a stored pair, ascending. */
export function recordsIn([key, value]: Pair): StoredRecord[] {
  return [[lsnOf(key), value]];
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
      if (one[0] >= fromLsn) yield one;
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

/** As `recordRuns`, one by one. */
export async function* storedRecords(level: Level, fromLsn: number, throughLsn: number): AsyncGenerator<StoredRecord> {
  for await (const run of recordRuns(level, fromLsn, throughLsn)) yield* run;
}

/** The bytes of one record, unchecked; `undefined` when it is not there. */
export async function recordAt(level: Level, lsn: number): Promise<Buffer | undefined> {
  const [pair] = await level.iterator({ gte: logKey(lsn), lt: RECORDS.lt, limit: 1 }).all();
  return pair && recordsIn(pair).find(([at]) => at === lsn)?.[1];
}

/** The first record that is stored, whatever keys lie there besides; 0 when there is none. */
export async function firstStoredLsn(level: Level): Promise<number> {
  for await (const pair of level.iterator(RECORDS)) {
    const [first] = lsnOf(pair[0]) > 0 ? recordsIn(pair) : [];
    if (first) return first[0];
  }
  return 0;
}

/** As `firstStoredLsn`, of the last one. */
export async function lastStoredLsn(level: Level): Promise<number> {
  for await (const key of level.keys({ ...RECORDS, reverse: true })) if (lsnOf(key) > 0) return lsnOf(key);
  return 0;
}

export function missingRecord(lsn: number): DamagedRecord {
  return new DamagedRecord(`log record ${lsn} is missing`);
}
