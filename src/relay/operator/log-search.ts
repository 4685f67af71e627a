/**
 * The console's view of the log: its events and its epochs, read backwards in small runs and in time slices. The
 * records that one request reads are limited, not those it finds, so that a filter without a match costs as much as any
 * other.
 */
import type { ConsoleLog, LoggedEvent, EpochBegun, EpochsRead } from '../../protocol/operator-documents.ts';
import { type LogEntry, type RelayEvent, eventTimeMs } from '../core/event.ts';
import { inTurns } from '../../lib/clock.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { type EventHost, describeEvent } from '../core/describe-event.ts';
import { epochBegunOf } from './activity.ts';

const EVENTS_PER_PAGE = 50;
/** Records that one request reads; the page asks for more. */
const RECORDS_LOOKED_AT_MAX = 20_000;

/** A restore can raise the floors of hundreds of queues. */
const HOSTS_SHOWN_MAX = 100;

/** The name under which a key enrolled; `undefined` when it never did. */
type NameOf = (key: PublicKey) => string | undefined;

export interface LogBack {
  readonly lastLsn: number;
  readonly firstLsn: number;
  readBack(beforeLsn: number): AsyncIterable<LogEntry[]>;
  read(fromLsn: number): AsyncIterable<LogEntry>;
  entry(lsn: number): Promise<LogEntry | undefined>;
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
  let lookedAt = 0;
  let downAt: number | null = null;
  let downTo = Math.min(query.beforeLsn, lastLsn + 1);
  const answer = (): ConsoleLog => ({
    events: found,
    searched_down_to: downTo,
    searched_down_at: downAt,
    log_position: lastLsn,
  });
  for await (const run of inTurns(log.readBack(downTo), monotonicMs)) {
    for (const entry of run) {
      if (entry.lsn <= query.afterLsn) return answer();
      downTo = entry.lsn;
      downAt = eventTimeMs(entry.event);
      lookedAt++;
      if (isWanted(entry.event, query)) found.push(loggedEvent(entry, nameOf));
      if (found.length === EVENTS_PER_PAGE || lookedAt === RECORDS_LOOKED_AT_MAX) return answer();
    }
  }
  // The records before were pruned, or there are none.
  downTo = 1;
  return answer();
}

/** The clock may go back, so the time of a record says nothing about the records before it. */
export function isWanted(event: RelayEvent, { type, keys, itemId, sinceMs, untilMs }: LogQuery): boolean {
  const atMs = eventTimeMs(event);
  if (atMs < sinceMs || atMs > untilMs) return false;
  if (type !== undefined && event.type !== type) return false;
  if (itemId === undefined && keys === undefined) return true;
  const { hosts, itemIds } = describeEvent(event);
  if (itemId !== undefined && !itemIds.some((id) => id === itemId)) return false;
  return keys === undefined || hosts.some(({ key }) => keys.has(key));
}

export function loggedEvent({ lsn, event }: LogEntry, nameOf: NameOf): LoggedEvent {
  const { hosts, facts } = describeEvent(event);
  return {
    lsn,
    type: event.type,
    at: eventTimeMs(event),
    hosts: hosts.slice(0, HOSTS_SHOWN_MAX).map((one) => namedKey(one, nameOf)),
    item_id: 'itemId' in event ? event.itemId : null,
    facts: [...facts],
  };
}

export function namedKey({ role, key }: EventHost, nameOf: NameOf): LoggedEvent['hosts'][number] {
  return { role, host_pubkey: key, name: nameOf(key) ?? null };
}

interface EpochHistoryOptions {
  log: LogBack;
  monotonicMs: () => number;
  onError: (error: unknown) => void;
}

/**
 * The epochs in the log, which is read once, when an operator first looks; meanwhile the console shows what it found.
 */
export class EpochHistory {
  readonly #options: EpochHistoryOptions;
  readonly #found: EpochBegun[] = [];
  #reading: Promise<void> | undefined;
  #state: EpochsRead = 'under way';
  #isClosed = false;

  constructor(options: EpochHistoryOptions) {
    this.#options = options;
  }

  /**
   * Returns how far the log was read. A failure is final: a log that cannot be read now cannot be read a second later.
   */
  get state(): EpochsRead {
    return this.#state;
  }

  /** The epochs found so far, the newest first. The first call starts the reading. */
  found(): readonly EpochBegun[] {
    this.#reading ??= this.#read().catch((error: unknown) => {
      this.#state = 'failed';
      this.#options.onError(error);
    });
    return this.#found;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#reading;
  }

  async #read(): Promise<void> {
    const { log, monotonicMs } = this.#options;
    for await (const run of inTurns(log.readBack(Number.POSITIVE_INFINITY), monotonicMs)) {
      for (const entry of run) {
        const epoch = epochBegunOf(entry);
        if (epoch) this.#found.push(epoch);
      }
      if (this.#isClosed) return;
    }
    this.#state = log.firstLsn > 1 ? 'pruned' : 'whole';
  }
}
