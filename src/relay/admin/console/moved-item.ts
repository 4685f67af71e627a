/**
 * Finds the record that moved an item to another key, without reading the log from the item's acceptance on.
 *
 * The time of the rotation is known and the records are about in the order of their times, so a search by halves comes
 * near; from there the log is read forwards. Times of records may go back, so nothing may rest on finding one: whoever
 * asks reads the log then.
 */
import type { PublicKey } from '../../../protocol/public-key.ts';
import { type LogEntry, eventTimeMs } from '../../core/event.ts';
import type { Stretch } from '../../engine/stretch.ts';
import type { LogBack } from './log-search.ts';

/** Commands are stamped before they wait for each other, so that neighbours may be out of order by so much. */
const OUT_OF_ORDER_MS = 1000;
const RECORDS_LOOKED_AT_MAX = 20_000;

export interface Queued {
  target: PublicKey;
  seq: number;
}

/** The move of the item that lay at `place`, of the key that was rotated at `rotatedAtMs`: above `afterLsn`. */
export async function findMove(
  log: LogBack,
  place: Queued,
  rotatedAtMs: number,
  afterLsn: number,
  stretch: Stretch,
): Promise<LogEntry | undefined> {
  const fromLsn = firstSince(log, rotatedAtMs - OUT_OF_ORDER_MS, afterLsn);
  if (fromLsn > log.lastLsn) return undefined;
  for await (const entry of log.read(fromLsn)) {
    if (isMoveOf(entry, place)) return entry;
    if (entry.lsn - fromLsn >= RECORDS_LOOKED_AT_MAX) return undefined;
    if (stretch.isOver) await stretch.pause();
  }
  return undefined;
}

/** The first record above `afterLsn` that is not older than `atMs`, if times never go back. */
function firstSince(log: LogBack, atMs: number, afterLsn: number): number {
  let [low, high] = [afterLsn + 1, log.lastLsn + 1];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const entry = log.entry(middle);
    if (entry && eventTimeMs(entry.event) < atMs) low = middle + 1;
    else high = middle;
  }
  return low;
}

function isMoveOf({ event }: LogEntry, { target, seq }: Queued): boolean {
  return event.type === 'ItemsMoved' && event.oldPubkey === target && event.fromSeqs.includes(seq);
}
