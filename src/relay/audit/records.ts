/** The log's records for whoever reads all of them: each checked, each at its place, as events. */
import type { LogEntry } from '../core/event.ts';
import { logKey, lsnOf } from '../store/keys.ts';
import type { OfflineStore } from '../store/offline.ts';
import { runsOf } from '../store/pairs.ts';
import { DamagedRecord, decodeRecord } from '../store/record.ts';

export interface StoredEntry extends LogEntry {
  /** As it is stored. */
  record: Buffer;
}

export interface RecordRange {
  fromLsn?: number;
  throughLsn?: number;
}

/**
 * Runs of the records in the range that are kept: those that were pruned are left out. Throws `DamagedRecord` at the first that is not whole, after what stands
 * before it.
 */
export async function* auditedRecords(
  { level, store }: OfflineStore,
  { fromLsn = 1, throughLsn = store.lastLsn }: RecordRange = {},
): AsyncGenerator<StoredEntry[]> {
  let expected = Math.max(fromLsn, store.firstLsn);
  for await (const run of runsOf(level, { gte: logKey(expected), lte: logKey(throughLsn) })) {
    const entries: StoredEntry[] = [];
    try {
      for (const [key, bytes] of run) {
        if (lsnOf(key) !== expected) throw missing(expected);
        entries.push({ ...decodeRecord(expected, bytes), record: bytes });
        expected++;
      }
    } catch (error) {
      yield entries;
      throw error;
    }
    yield entries;
  }
  if (expected <= throughLsn) throw missing(expected);
}

function missing(lsn: number): DamagedRecord {
  return new DamagedRecord(`log record ${lsn} is missing`);
}
