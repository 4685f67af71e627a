/** The records of a log as events: each one checked and in its place, all of them or those that a choice selects. */
import type { PublicKey } from '../../protocol/public-key.ts';
import { eventTimeMs, type LogEntry } from '../core/event.ts';
import { logKey, lsnOf } from '../store/keys.ts';
import { DamagedRecord, decodeRecord } from '../store/record.ts';
import { runsOf } from '../store/scan.ts';
import { describeEvent, hostsOf } from '../core/describe-event.ts';
import type { OfflineStore } from './offline.ts';

export interface StoredEntry extends LogEntry {
  /** As it is stored. */
  record: Buffer;
}

export interface RecordRange {
  fromLsn?: number;
  throughLsn?: number;
}

/**
 * The records of the range that were not pruned, in runs. Throws `DamagedRecord` at the first record that is missing or
 * damaged, after the records before it.
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

/** Every choice that is made must be met. */
export interface EventChoice {
  /** Names one of these keys. */
  hosts?: ReadonlySet<PublicKey>;
  itemId?: string;
  types?: ReadonlySet<string>;
  sinceMs?: number;
  untilMs?: number;
  fromLsn?: number;
  /** No more than so many. */
  limit?: number;
}

/** Throws `DamagedRecord` at the first record that is not whole, after what was chosen before it. */
export async function* chosenEvents(offline: OfflineStore, choice: EventChoice): AsyncGenerator<LogEntry> {
  let left = choice.limit ?? Number.POSITIVE_INFINITY;
  for await (const run of auditedRecords(offline, { fromLsn: choice.fromLsn ?? 1 })) {
    for (const entry of run) {
      if (!isChosen(entry, choice)) continue;
      if (left-- <= 0) return;
      yield entry;
    }
  }
}

function isChosen({ event }: LogEntry, { hosts, itemId, types, sinceMs, untilMs }: EventChoice): boolean {
  if (types && !types.has(event.type)) return false;
  const timeMs = eventTimeMs(event);
  if (timeMs < (sinceMs ?? 0) || timeMs > (untilMs ?? Number.POSITIVE_INFINITY)) return false;
  if (itemId !== undefined && !describeEvent(event).itemIds.some((id) => id === itemId)) return false;
  return !hosts || [...hostsOf(event)].some((key) => hosts.has(key));
}
