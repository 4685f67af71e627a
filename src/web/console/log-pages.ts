/** What is shown of the log, and how answers of the relay come to it: older ones behind, newer ones before. */
import type { ConsoleLog, LoggedEvent } from '../../protocol/operator-documents.ts';
import { read } from '../shared/api.ts';

/** Events kept on the page while it is live. */
export const EVENTS_MAX = 500;
/** Answers without an event that one click goes on behind. */
const LOOKS_MAX = 25;

export interface Shown {
  /** The newest first. */
  events: readonly LoggedEvent[];
  /** The record that it was looked down to. */
  downTo: number;
  /** Whether there is nothing before that. */
  isAll: boolean;
}

/**
 * Goes back until something is found. An answer tells of a part of a long log only: somebody who filters for what was
 * long ago would have to ask a hundred times. What nobody wants any more is not gone on with.
 */
export async function lookBack(
  query: Record<string, string>,
  isWanted: () => boolean,
): Promise<Shown & { logPosition: number }> {
  let found = await read<ConsoleLog>('log', query);
  const { log_position: logPosition } = found;
  let askedFrom = Number(query['before'] ?? Number.POSITIVE_INFINITY);
  for (let looks = 1; looks < LOOKS_MAX; looks++) {
    if (found.events.length > 0 || isStart(found, askedFrom) || !isWanted()) break;
    askedFrom = found.searched_down_to;
    found = await read<ConsoleLog>('log', { ...query, before: String(askedFrom) });
  }
  return { events: found.events, downTo: found.searched_down_to, isAll: isStart(found, askedFrom), logPosition };
}

/** The first records may have been dropped: then an answer goes no further than it was asked from. */
function isStart({ searched_down_to: downTo }: ConsoleLog, askedFrom: number): boolean {
  return downTo <= 1 || downTo >= askedFrom;
}

/** Nothing when the page became another one while it was asked for. */
export function withOlder(before: Shown, { events, downTo, isAll }: Shown, askedFrom: number): Shown {
  if (before.downTo !== askedFrom) return before;
  return { events: [...before.events, ...events], downTo, isAll };
}

/** When more came than one page it begins anew, so that looking back leaves nothing out. */
export function withNewer(before: Shown, found: ConsoleLog, after: number): Shown {
  if (found.searched_down_to > after + 1) {
    return { events: found.events, downTo: found.searched_down_to, isAll: false };
  }
  const events = [...found.events, ...before.events];
  const last = events[EVENTS_MAX - 1];
  if (events.length <= EVENTS_MAX || !last) return { ...before, events };
  return { events: events.slice(0, EVENTS_MAX), downTo: last.lsn, isAll: false };
}
