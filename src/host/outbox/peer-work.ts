/**
 * The dispatcher's work for one peer (requests under way, and when it looks at the peer next), and the interface of a
 * carrier, which sends one request over the LAN or to the relay. A carrier neither chooses rows nor stores
 * what became of them; the dispatcher does (`dispatcher.ts`).
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { HostContext } from '../base/context.ts';
import type { OutboxClock, OutboxEvent } from '../core/outbox-event.ts';
import { lanDoubtAtMs, earliest } from '../core/outbox-row.ts';
import type { CopyReason } from '../core/relay-acceptance.ts';
import {
  isElsewhere,
  type PeerHome,
  type PeerRelays,
  type RelayLane,
  UNCONFIRMED_SECOND_COPIES,
} from '../core/relay-lanes.ts';
import type { RelayRole } from '../core/relay-rows.ts';
import type { OutboxRow, PeerId, PeerRow } from '../core/rows.ts';
import { isOutOfReach, isToSend, mayNeedRelay, type RelayFacts } from '../core/transport-choice.ts';
import type { Reader } from '../store/host-store.ts';
import { openRows } from './outbox.ts';

/** Over what a request goes: the LAN, or the relay of this key. */
export type Way = 'lan' | PublicKey;

/** The request of one peer that is under way over one transport. */
export interface UnderWay {
  way: Way;
  rowIds: ReadonlySet<number>;
  /** Why each of them goes over this one of several relays. */
  why: ReadonlyMap<number, CopyReason>;
  /** The first message among its rows that nobody has taken yet; `Infinity` without one. */
  firstMessage: number;
  /** A time of the monotonic clock. */
  sinceMs: number;
  ended: Promise<void>;
}

/** What is known of a peer at the relays. Where there is one, nothing but its lane changes in it. */
export interface PeerLane extends PeerHome {
  /** The last one. */
  lane: RelayLane | undefined;
  /** The relay that could carry its mail at the last look; null for none, undefined before the first. */
  carrying: PublicKey | null | undefined;
  /** What was found in all its open rows; undefined when they are to be read anew. */
  survey: Survey | undefined;
  /** Relays that refused mail for it, until then by the monotonic clock. */
  refusedUntilMs: Map<PublicKey, number>;
  /** Relays that said of any item that its time was up before it was, in the last day. */
  wrong: readonly PublicKey[];
  /** What it showed lately, the oldest first: times are of this host's wall clock, `wroteAtMs` of the peer's. */
  heard: { rowId: number; wroteAtMs: number; fromMs: number; atMs: number }[];
  shown: PeerRelays['shown'];
  /** Rows with several copies that it confirmed, and when it is looked at over which relays. */
  suspects: { rowId: number; atMs: number }[];
}

export interface Survey {
  /** The relays of this host then. */
  own: string;
  /** The messages that each relay lacks, and that are unconfirmed and elsewhere, by the numbers of their rows. */
  lacking: Map<PublicKey, Set<number>>;
  secondCopyLast: number;
  /** When to read the rows anew, if nothing happens before. */
  nextMs: number | null;
  /** A relay that turns up and down has them read no sooner. */
  restedMs: number;
}

/** A relay that turns has the open rows of a peer read anew, but not before so long for each row has passed. */
const REST_PER_ROW_MS = 10;

/** All open rows of the peer, and what is found in them. `own`: the relays of this host. */
export async function surveyOf(
  reader: Reader,
  { peerId, hasConfirmed }: PeerRow,
  own: readonly PublicKey[],
  nowMs: number,
): Promise<{ rows: OutboxRow[]; survey: Survey }> {
  const rows: OutboxRow[] = [];
  for await (const row of openRows(reader, peerId)) rows.push(row);
  const lackedBy = (relayPubkey: PublicKey): Set<number> =>
    new Set(rows.filter((row) => isElsewhere(row, relayPubkey)).map(({ rowId }) => rowId));
  const survey = {
    own: own.join(),
    lacking: new Map(own.map((relayPubkey) => [relayPubkey, lackedBy(relayPubkey)])),
    secondCopyLast: hasConfirmed ? Infinity : await lastOfFirstRows(reader, peerId),
    nextMs: null,
    restedMs: nowMs + rows.length * REST_PER_ROW_MS,
  };
  return { rows, survey };
}

/** The last of the first rows for a peer that never confirmed. Ids of messages sort by time, and before others. */
async function lastOfFirstRows(reader: Reader, peerId: PeerId): Promise<number> {
  let last = 0;
  const limit = UNCONFIRMED_SECOND_COPIES;
  for await (const { row: rowId } of reader.range('outboxItem', [peerId], { until: [peerId, 'a'], limit }))
    last = Math.max(last, rowId);
  return last;
}

/** The dispatcher's knowledge of one peer. */
export interface PeerWork {
  look: Promise<void> | undefined;
  /** Something happened after the look under way began. */
  isStale: boolean;
  /** At most one over each way. */
  requests: Map<Way, UnderWay>;
  /** A request of which all rows were taken, while its answer is being stored. */
  settling: UnderWay | undefined;
  /** Raised when an answer came and when it was stored: a look that finds another number has read old rows. */
  answers: number;
  /** Rows wait for the end of a request that is under way. */
  isBlocked: boolean;
  /** Relays that are being asked about the peer. */
  asking: Map<PublicKey, Promise<void>>;
  /** When it is looked at next, if nothing happens before; null when nothing is to be waited for. */
  nextMs: number | null;
  atRelays: PeerLane;
}

export function newPeerWork(): PeerWork {
  return {
    look: undefined,
    isStale: false,
    requests: new Map(),
    settling: undefined,
    answers: 0,
    isBlocked: false,
    asking: new Map(),
    nextMs: null,
    atRelays: {
      home: null,
      lane: undefined,
      carrying: undefined,
      survey: undefined,
      refusedUntilMs: new Map(),
      heard: [],
      shown: { rowId: 0, wroteAtMs: 0 },
      wrong: [],
      suspects: [],
    },
  };
}

export function lookAgainBy(work: PeerWork, atMs: number | null): void {
  work.nextMs = earliest([work.nextMs, atMs]);
}

export function requestsOf({ requests, settling }: PeerWork): UnderWay[] {
  return [...requests.values(), ...(settling ? [settling] : [])];
}

/** Two relays may be sent one row at a time: a silent one holds up nothing. Nothing is twice under way over one way. */
export function isUnderWay(work: PeerWork, rowId: number, way: Way): boolean {
  return requestsOf(work).some(
    (request) => (way === 'lan' || request.way === 'lan' || request.way === way) && request.rowIds.has(rowId),
  );
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

/** Tells whether a relay has the row, so that it goes to another one besides: it is not due, and found by a survey. */
export function isCopied({ state }: OutboxRow): boolean {
  return state === 'relay-accepted';
}

export function firstMessageOf(rows: readonly OutboxRow[]): number {
  return rows.find(isToSend)?.rowId ?? Infinity;
}

/** Tells whether a request with this event alone brought nothing on: what is due besides would fare the same now. */
export function isFailure({ type }: OutboxEvent): boolean {
  return type === 'lan-failed' || type === 'relay-failed';
}

/** Tells whether the row, which waits, could go to the relay now, should the relay know the peer. */
export function isForRelay(row: OutboxRow, peer: PeerRow, now: OutboxClock): boolean {
  if (peer.unpairedAtMs !== null || !mayNeedRelay(row, peer)) return false;
  // It was accepted once; in another epoch the relay refused it.
  if (row.state === 'relay-accepted') return row.relayAttempts > 0;
  return row.state !== 'lan-accepted' || isOutOfReach(peer) || now.nowMs >= lanDoubtAtMs(row, now);
}

/** A relay refuses a receipt that is signed by a key which it does not know for one of this host. */
export function isRefusedReceipt(event: OutboxEvent): boolean {
  return event.type === 'relay-refused' && event.code === 'bad receipt';
}

export function isTooLarge(event: OutboxEvent): boolean {
  return event.type === 'relay-refused' && event.code === 'too large';
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

/** Adds to each acceptance by one of several relays why the row went there. */
export function withReasons(answer: Sent | undefined, reasons: UnderWay['why']): Sent {
  const { events, ...sent } = answer ?? { events: [] };
  const reasoned = events.map(({ rowId, event }): RowEvent => {
    const why = reasons.get(rowId);
    return { rowId, event: why && event.type === 'relay-accepted' ? { why, ...event } : event };
  });
  return { events: reasoned, ...sent };
}

export interface Carrier {
  /**
   * Sends the first of these rows, as many as one request holds. A request that fails after `signal` was aborted brings
   * no events. Throws only what is a fault of this program or of the store.
   */
  send(peer: PeerRow, rows: readonly OutboxRow[], signal: AbortSignal): Promise<Sent>;
}

/** The carrier of one relay, and what is known of it. */
export interface RelayTransport extends Carrier {
  readonly relayPubkey: PublicKey;
  readonly role: RelayRole;
  /** True when the relay can be used at all now. */
  readonly isUsable: boolean;
  /** The time for which nothing may be sent to the relay. */
  readonly pauseMs: number;
  /** Its last requests failed or have no answer, or there is no session. */
  readonly isDown: boolean;
  /** The time since it was heard, when it counts as not heard; else 0. */
  readonly unheardMs: number;
  readonly hasTwoHistories: boolean;
  /** This host is leaving it (core/relay-move.ts): mail goes there where there is no other way. */
  readonly isLeft: boolean;
  /** The relay's facts about a peer, as far as it was asked lately; null when it cannot be used. */
  factsFor(peer: PeerRow): RelayFacts | null | 'unknown';
  /** Asks the relay about the peer. Does not throw when the relay does not answer. */
  ask(peer: PeerRow): Promise<void>;
}

/** In the owner's order, one for each of this host's relays. */
export interface RelayTransports {
  readonly all: readonly RelayTransport[];
}

/** Knows whether a relay reaches a host. */
export interface RelayReach {
  /** The facts of the relay that mail for the peer takes now; null when there is none. */
  factsFor(peer: PeerRow): RelayFacts | null | 'unknown';
}

/** The timer is set for no longer than this, as the clock may be set to another time meanwhile. */
const TIMER_MAX_MS = 60_000;
/** When both clocks of this machine differ by this more than before, one was set. */
const CLOCK_STEP_MS = 1_000;

/** One timer, for the first moment of all peers. */
export class MomentTimer {
  readonly #clock: Pick<HostContext, 'nowMs' | 'monotonicMs'>;
  readonly #passed: (untilMs: number) => void;
  #timer: NodeJS.Timeout | undefined;

  /** `passed` is told which moments are over: all of them when a clock was set. */
  constructor(clock: Pick<HostContext, 'nowMs' | 'monotonicMs'>, passed: (untilMs: number) => void) {
    this.#clock = clock;
    this.#passed = passed;
  }

  clear(): void {
    clearTimeout(this.#timer);
  }

  set(soonestMs: number | null): void {
    this.clear();
    if (soonestMs === null) return;
    const clock = this.#clock;
    const aheadMs = clock.nowMs() - clock.monotonicMs();
    const inMs = Math.min(TIMER_MAX_MS, Math.max(0, soonestMs - clock.nowMs()));
    this.#timer = setTimeout(() => {
      const nowMs = clock.nowMs();
      const isClockChanged = Math.abs(nowMs - clock.monotonicMs() - aheadMs) > CLOCK_STEP_MS;
      // What is not due yet by a clock that stood still is looked at once more.
      this.#passed(isClockChanged ? Infinity : Math.max(nowMs, inMs < TIMER_MAX_MS ? soonestMs : 0));
    }, inMs);
  }
}

export interface LaneSettings {
  /** A relay that was not heard for so long, or up to half of it more by chance, does not hold its rows any more. */
  retryElsewhereMs: number;
  /** Null: an only copy gets no second one. */
  secondCopyMs: number | null;
}

export const LANE_SETTINGS: LaneSettings = { retryElsewhereMs: 300_000, secondCopyMs: 3_600_000 };
