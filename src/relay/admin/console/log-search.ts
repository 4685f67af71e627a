/**
 * The log as a timeline: read back from a record in small runs, filtered, a page at a time. Bounded by what is looked at,
 * not by what is found, so that a filter that fits nothing costs as much as any other.
 */
import type { ConsoleLog } from '../../../protocol/operator-documents.ts';
import { type LogEntry, type RelayEvent, eventTimeMs } from '../../core/event.ts';
import { Stretch } from '../../engine/stretch.ts';
import { type NameOf, isAbout, isOfItem, loggedEvent } from './logged-event.ts';

const EVENTS_PER_PAGE = 50;
/** Records one request looks at; the page asks for more. */
const RECORDS_LOOKED_AT_MAX = 20_000;

/** What the log gives to whoever looks, durable. */
export interface LogBack {
  readonly lastLsn: number;
  /** The first record that is kept. */
  readonly firstLsn: number;
  readBack(beforeLsn: number): AsyncIterable<LogEntry[]>;
  read(fromLsn: number): AsyncIterable<LogEntry>;
  /** One record; `undefined` when there is none. */
  entry(lsn: number): LogEntry | undefined;
}

export interface LogQuery {
  /** Records below this one. */
  beforeLsn: number;
  /** Records above this one. */
  afterLsn: number;
  type?: string;
  /** Every key of one host. */
  keys?: ReadonlySet<string>;
  itemId?: string;
  sinceMs: number;
  untilMs: number;
}

export interface LogSearchOptions {
  log: LogBack;
  nameOf: NameOf;
  monotonicMs: () => number;
}

export async function searchLog(query: LogQuery, { log, nameOf, monotonicMs }: LogSearchOptions): Promise<ConsoleLog> {
  const { lastLsn } = log;
  const found: ConsoleLog['events'] = [];
  const stretch = new Stretch(monotonicMs);
  let lookedAt = 0;
  let downTo = Math.min(query.beforeLsn, lastLsn + 1);
  const answer = (): ConsoleLog => ({ events: found, searched_down_to: downTo, log_position: lastLsn });
  for await (const run of log.readBack(downTo)) {
    for (const entry of run) {
      if (entry.lsn <= query.afterLsn) return answer();
      downTo = entry.lsn;
      lookedAt++;
      if (isWanted(entry.event, query)) found.push(loggedEvent(entry, nameOf));
      if (found.length === EVENTS_PER_PAGE || lookedAt === RECORDS_LOOKED_AT_MAX) return answer();
    }
    if (stretch.isOver) await stretch.pause();
  }
  // What stands before was pruned, or never was.
  downTo = 1;
  return answer();
}

/** The clock may go back, so that a time says nothing of the records before it. */
function isWanted(event: RelayEvent, { type, keys, itemId, sinceMs, untilMs }: LogQuery): boolean {
  const atMs = eventTimeMs(event);
  if (atMs < sinceMs || atMs > untilMs) return false;
  if (type !== undefined && event.type !== type) return false;
  if (itemId !== undefined && !isOfItem(event, itemId)) return false;
  return keys === undefined || isAbout(event, keys);
}
