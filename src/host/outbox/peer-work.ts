/**
 * The dispatcher's work for one peer (requests under way, and when it looks at the peer next), and the interface of a
 * carrier, which sends one request over the LAN or to the relay. A carrier neither chooses rows nor stores
 * what became of them; the dispatcher does (`dispatcher.ts`).
 */
import type { OutboxEvent } from '../core/outbox-event.ts';
import type { OutboxRow, PeerRow } from '../core/rows.ts';
import { isToSend, type RelayFacts } from '../core/transport-choice.ts';

/** Over what a request goes. */
export type Way = 'lan' | 'relay';

/** The request of one peer that is under way over one transport. */
export interface Lane {
  rowIds: ReadonlySet<number>;
  /** The first message among its rows that nobody has taken yet; `Infinity` without one. */
  firstMessage: number;
  /** A time of the monotonic clock. */
  sinceMs: number;
  ended: Promise<void>;
}

/** The dispatcher's knowledge of one peer. */
export interface PeerWork {
  look: Promise<void> | undefined;
  /** Something happened after the look under way began. */
  isStale: boolean;
  lanes: Partial<Record<Way, Lane>>;
  /** A request of which all rows were taken, while its answer is being stored. */
  settling: Lane | undefined;
  /** Raised when an answer came and when it was stored: a look that finds another number has read old rows. */
  answers: number;
  /** Rows wait for the end of a request that is under way. */
  isBlocked: boolean;
  /** The relay is being asked about the peer. */
  asking: Promise<void> | undefined;
  /** When it is looked at next, if nothing happens before; null when nothing is to be waited for. */
  nextMs: number | null;
}

export function newPeerWork(): PeerWork {
  return {
    look: undefined,
    isStale: false,
    lanes: {},
    settling: undefined,
    answers: 0,
    isBlocked: false,
    asking: undefined,
    nextMs: null,
  };
}

export function lookAgainBy(work: PeerWork, atMs: number | null): void {
  work.nextMs = earliest([work.nextMs, atMs]);
}

export function lanesOf({ lanes, settling }: PeerWork): Lane[] {
  return [lanes.lan, lanes.relay, settling].filter((lane) => lane !== undefined);
}

export function isUnderWay(work: PeerWork, rowId: number): boolean {
  return lanesOf(work).some(({ rowIds }) => rowIds.has(rowId));
}

/** Tells whether messages behind the rows of a request need not wait until its answer is stored. */
export function isAllTaken({ events, lan }: Sent): boolean {
  return lan !== 'unreached' && events.length > 0 && events.every(({ event }) => isTaken(event));
}

function isTaken(event: OutboxEvent): boolean {
  if (event.type === 'relay-accepted') return event.isVerified;
  return event.type === 'lan-accepted' || event.type === 'lan-quarantined';
}

/** The fate of the mail of one request over the LAN; undefined when it was none. */
export function becameOfMail(events: Sent['events'], lan: Sent['lan']): 'taken' | 'failed' | 'unreached' | undefined {
  const types = events.map(({ event }) => event.type);
  if (types.some((type) => type === 'lan-accepted' || type === 'lan-quarantined')) return 'taken';
  if (!types.some((type) => type === 'lan-failed' || type === 'lan-rejected')) return undefined;
  return lan === 'unreached' ? 'unreached' : 'failed';
}

export function earliest(moments: readonly (number | null)[]): number | null {
  const known = moments.filter((moment) => moment !== null);
  return known.length === 0 ? null : Math.min(...known);
}

export function firstMessageOf(rows: readonly OutboxRow[]): number {
  return rows.find(isToSend)?.rowId ?? Infinity;
}

/** Tells whether a request with this event alone brought nothing on: what is due besides would fare the same now. */
export function isFailure({ type }: OutboxEvent): boolean {
  return type === 'lan-failed' || type === 'relay-failed';
}

export interface RowEvent {
  rowId: number;
  event: OutboxEvent;
}

/** The result of one request. */
export interface Sent {
  /** Events of the rows that the request was about; the other rows are as due as before. */
  events: RowEvent[];
  /** Tells whether the host answered over the LAN; absent when the request shows neither. */
  lan?: 'reached' | 'unreached';
}

export interface Carrier {
  /**
   * Sends the first of these rows, as many as one request holds. A request that fails after `signal` was aborted brings
   * no events. Throws only what is a fault of this program or of the store.
   */
  send(peer: PeerRow, rows: readonly OutboxRow[], signal: AbortSignal): Promise<Sent>;
}

export interface RelayTransport extends Carrier {
  /** True when a relay can be used at all now. */
  readonly isUsable: boolean;
  /** The time for which nothing may be sent to the relay. */
  readonly pauseMs: number;
  /** The relay's facts about a peer, as far as it was asked lately; null when no relay can be used. */
  factsFor(peer: PeerRow): RelayFacts | null | 'unknown';
  /** Asks the relay about the peer. Does not throw when the relay does not answer. */
  ask(peer: PeerRow): Promise<void>;
}
