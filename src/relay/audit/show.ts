/** The log's events, chosen by host, item, type and time. */
import type { PublicKey } from '../../protocol/public-key.ts';
import { type LogEntry, eventTimeMs } from '../core/event.ts';
import type { OfflineStore } from '../store/offline.ts';
import { hostsOf, itemsOf } from './event-words.ts';
import { auditedRecords } from './records.ts';

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
  if (itemId !== undefined && !itemsOf(event).some((id) => id === itemId)) return false;
  return !hosts || [...hostsOf(event)].some((key) => hosts.has(key));
}
