/**
 * Sends what is in the outbox. For each paired host it reads the rows that are due, chooses the transport of each,
 * hands them to the carrier of that transport (`lan/send-batch.ts`, `relay/push-batch.ts`), and stores what became of
 * them.
 *
 *     wake(peer) ─▶ due rows, in sending order ─▶ transport of each ─▶ carrier: one request ─▶ events
 *         ▲                                            └─▶ none: `time-passed`                   │
 *         └───────────────────────────── one transaction ◀───────────────────────────────────────┘
 *
 * A peer is looked at when a row of it was queued or may be tried again (`outbox-changed`), when a request to it ended,
 * and when its next row is due: one timer waits for the first of these moments of all peers. Nothing is polled. When
 * all rows of a request were taken, the next request leaves while that is stored.
 *
 * Invariants:
 *   - of one peer one look runs at a time, one request at most is under way over each transport, and no row is in two;
 *   - no peer waits for another one, and what the LAN reaches does not wait for a relay;
 *   - messages for one peer leave in the order in which they were sent (`core/transport-choice.ts`). While an earlier
 *     one is under way over one transport, a later one does not leave over the other before `ORDER_WAIT_MS` have
 *     passed;
 *   - a row that no transport can take gets `time-passed`, so that its deadlines hold.
 */
import type { OutboxClock, OutboxEvent } from '../core/outbox-event.ts';
import { lanDoubtAtMs } from '../core/outbox-times.ts';
import type { OutboxRow, PeerId, PeerRow } from '../core/rows.ts';
import { chooseTransport, isOutOfReach, isToSend, mayNeedRelay, type RelayFacts } from '../core/transport-choice.ts';
import { type HostContext, isStoreFailure } from '../base/context.ts';
import { signReceiptAnew } from './receipts.ts';
import { noteMailOverLan, markReached, markUnreached, afterAttempt, dueRows, nextOpenRow } from './outbox.ts';
import {
  type Carrier,
  type RelayTransport,
  type Sent,
  earliest,
  firstMessageOf,
  becameOfMail,
  isAllTaken,
  isFailure,
  isUnderWay,
  type Lane,
  lanesOf,
  lookAgainBy,
  newPeerWork,
  type PeerWork,
  type Way,
} from './peer-work.ts';

/** Due rows of a peer that one look reads: for a request, and to note that the peer did not answer. */
const DUE_MAX = 2000;
/** A later message waits no longer than this for an earlier one that is under way over the other transport. */
const ORDER_WAIT_MS = 2_000;
/** The time until the next look at a peer to which nothing could be sent, unless an event comes first. */
const REST_MS = 5_000;
/** The time until a relay that did not know a peer is asked about it again. */
const ASK_RELAY_MS = 60_000;
/** A look that failed for a reason of this program is repeated after this. */
const BROKEN_MS = 60_000;
/** The timer is set for no longer than this, as the clock may be set to another time meanwhile. */
const TIMER_MAX_MS = 60_000;
/** When both clocks of this machine differ by this more than before, one was set. */
const CLOCK_STEP_MS = 1_000;

interface DispatcherOptions {
  context: HostContext;
  lan: Carrier;
  relay: RelayTransport;
}

export class OutboxDispatcher {
  readonly #options: DispatcherOptions;
  readonly #peers = new Map<PeerId, PeerWork>();
  readonly #stopping = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #unsubscribe: () => void = () => undefined;

  constructor(options: DispatcherOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    this.#unsubscribe = this.#options.context.subscribe('outbox', {
      'outbox-changed': ({ peerId }) => this.wake(peerId),
    });
    await this.wakeAll();
  }

  /** Looks at every host there is a row for. Rows of one that was unpaired have deadlines too. */
  async wakeAll(): Promise<void> {
    const peerIds = await this.#options.context.store.read(async (reader) => {
      const found: PeerId[] = [];
      for await (const { row } of reader.range('peer', [])) found.push(row.peerId);
      return found;
    });
    for (const peerId of peerIds) this.wake(peerId);
  }

  /** Looks at what is due to a host now, or once more when that is under way. */
  wake(peerId: PeerId): void {
    if (this.#stopping.signal.aborted) return;
    const work = this.#workOf(peerId);
    work.isStale = true;
    work.look ??= this.#lookWhileStale(peerId, work);
  }

  /** Resolves when nothing is under way. The maker of the carriers ends their requests. */
  async stop(): Promise<void> {
    this.#unsubscribe();
    this.#stopping.abort();
    clearTimeout(this.#timer);
    const underWay = (): Promise<void>[] =>
      [...this.#peers.values()].flatMap(({ look, asking, lanes, settling }) =>
        [look, asking, lanes.lan?.ended, lanes.relay?.ended, settling?.ended].filter((one) => one !== undefined),
      );
    for (let ending = underWay(); ending.length > 0; ending = underWay()) await Promise.all(ending);
  }

  #workOf(peerId: PeerId): PeerWork {
    const known = this.#peers.get(peerId);
    if (known) return known;
    const work = newPeerWork();
    this.#peers.set(peerId, work);
    return work;
  }

  async #lookWhileStale(peerId: PeerId, work: PeerWork): Promise<void> {
    // The promise of the look is kept before it can end.
    await Promise.resolve();
    try {
      while (work.isStale && !this.#stopping.signal.aborted) {
        work.isStale = false;
        work.isBlocked = false;
        work.nextMs = null;
        const next = await this.#look(peerId, work);
        // What ended meanwhile may have set a moment of its own.
        lookAgainBy(work, next);
      }
    } catch (error) {
      work.isStale = false;
      this.#noteBroken(work, error);
    } finally {
      work.look = undefined;
      this.#setTimer();
    }
  }

  /** Starts what can leave now. Answers when to look again if nothing happens before; null when only an event helps. */
  async #look(peerId: PeerId, work: PeerWork): Promise<number | null> {
    const { context, relay } = this.#options;
    const nowMs = context.nowMs();
    const { answers } = work;
    const peer = await context.store.read((reader) => reader.get('peer', peerId));
    if (!peer) return null;
    if (this.#isBusy(peer, work)) {
      work.isBlocked = true;
      return null;
    }
    const rowsUnderWay = lanesOf(work).reduce((sum, { rowIds }) => sum + rowIds.size, 0);
    const found = await dueRows(context, peerId, DUE_MAX + rowsUnderWay);
    // A request ended meanwhile, so what was read of its rows may be older than its answer: all is read again.
    if (work.answers !== answers) {
      work.isStale = true;
      return null;
    }
    const due = found.filter(({ rowId }) => !isUnderWay(work, rowId));
    const moments = [await this.#dispatch(peer, due, work)];
    if (due.length > 0 && relay.pauseMs > 0) moments.push(nowMs + relay.pauseMs);
    const next = await context.store.read((reader) => nextOpenRow(reader, peerId, nowMs));
    moments.push(next?.nextAtMs ?? null);
    // Rows that the relay did not take, as it did not know the peer, go there as soon as it does.
    if (next && isForRelay(next, peer, nowOf(context))) moments.push(this.#untilRelayKnows(peer, work));
    return earliest(moments);
  }

  /** Tells whether every transport for the peer has a request under way: the end of one brings the next look. */
  #isBusy({ address, unpairedAtMs }: PeerRow, { lanes }: PeerWork): boolean {
    if (!lanes.lan && !lanes.relay) return false;
    if (unpairedAtMs !== null) return false;
    return (
      (address === null || lanes.lan !== undefined) && (!this.#options.relay.isUsable || lanes.relay !== undefined)
    );
  }

  /** Sends each row its way. Answers when to look again for those that have to wait for others. */
  async #dispatch(peer: PeerRow, due: readonly OutboxRow[], work: PeerWork): Promise<number | null> {
    const asking = peer.unpairedAtMs === null ? due.filter((row) => mayNeedRelay(row, peer)) : [];
    if (asking.length === 0) return this.#sendEach(peer, due, null, work);
    const facts = this.#options.relay.factsFor(peer);
    if (facts !== 'unknown') return this.#sendEach(peer, due, facts, work);
    this.#ask(peer, work);
    // What is behind a message that may go over the relay waits with it, and the rest does not.
    if (asking.some(isToSend)) return null;
    const others = due.filter((row) => !asking.includes(row));
    return this.#sendEach(peer, others, null, work);
  }

  async #sendEach(
    peer: PeerRow,
    rows: readonly OutboxRow[],
    facts: RelayFacts | null,
    work: PeerWork,
  ): Promise<number | null> {
    const now = nowOf(this.#options.context);
    const by = { lan: [], relay: [], wait: [] } as Record<Way | 'wait', OutboxRow[]>;
    for (const row of rows) by[chooseTransport(row, peer, facts, now)].push(row);
    const ways: Way[] = firstMessageOf(by.relay) < firstMessageOf(by.lan) ? ['relay', 'lan'] : ['lan', 'relay'];
    // First, while what was read of the rows still holds: a request may end while others are put off.
    const nextMs = earliest(ways.map((way) => this.#sendOver(way, peer, by[way], work)));
    if (by.wait.length > 0) await this.#putOff(peer, by.wait, work);
    return nextMs;
  }

  /** Notes that time passed for rows that can go nowhere, unless a relay can be used since they were chosen. */
  async #putOff(peer: PeerRow, rows: readonly OutboxRow[], work: PeerWork): Promise<void> {
    const { context, relay } = this.#options;
    await context.store.transact((tx) => {
      const facts = relay.factsFor(peer);
      const now = nowOf(context);
      for (const row of rows) {
        const isAsking = peer.unpairedAtMs === null && mayNeedRelay(row, peer);
        const isStuck = facts !== 'unknown' && chooseTransport(row, peer, facts, now) === 'wait';
        if (isStuck || !isAsking) afterAttempt(tx, context, row.rowId, { type: 'time-passed' });
        else work.isStale = true;
      }
    });
    // There may be more than one look reads.
    if (rows.length >= DUE_MAX) work.isStale = true;
  }

  /** Starts a request when none is under way. Answers when to look again for messages behind the other transport. */
  #sendOver(way: Way, peer: PeerRow, chosen: readonly OutboxRow[], work: PeerWork): number | null {
    const { context, relay } = this.#options;
    if (chosen.length === 0 || this.#stopping.signal.aborted) return null;
    if (work.lanes[way]) {
      work.isBlocked = true;
      return null;
    }
    if (way === 'relay' && relay.pauseMs > 0) return null;
    const other = work.lanes[way === 'lan' ? 'relay' : 'lan'];
    const heldMs = other ? other.sinceMs + ORDER_WAIT_MS - context.monotonicMs() : 0;
    const rows =
      other && heldMs > 0 ? chosen.filter((row) => !isToSend(row) || row.rowId < other.firstMessage) : chosen;
    if (rows.length > 0) {
      const lane: Lane = {
        rowIds: new Set(rows.map(({ rowId }) => rowId)),
        firstMessage: firstMessageOf(rows),
        sinceMs: context.monotonicMs(),
        ended: Promise.resolve(),
      };
      work.lanes[way] = lane;
      lane.ended = this.#send(way, peer, rows, { work, lane });
    }
    return rows.length < chosen.length ? context.nowMs() + heldMs : null;
  }

  async #send(
    way: Way,
    peer: PeerRow,
    rows: readonly OutboxRow[],
    { work, lane }: { work: PeerWork; lane: Lane },
  ): Promise<void> {
    const { context } = this.#options;
    const { peerId } = peer;
    let isProgress = false;
    try {
      const sent = await this.#options[way].send(peer, rows, this.#stopping.signal);
      work.answers++;
      if (isAllTaken(sent) && !work.settling) {
        lane.rowIds = new Set(sent.events.map(({ rowId }) => rowId));
        work.settling = lane;
        delete work.lanes[way];
        this.wake(peerId);
      }
      const nextMs = await this.#store(peerId, sent);
      isProgress = sent.events.some(({ event }) => !isFailure(event));
      if (work.settling === lane) lookAgainBy(work, nextMs);
      else if (!isProgress)
        lookAgainBy(work, earliest([nextMs, context.nowMs() + Math.min(REST_MS, context.retry.firstMs)]));
    } catch (error) {
      this.#noteBroken(work, error);
    } finally {
      work.answers++;
    }
    if (work.settling === lane) {
      work.settling = undefined;
      this.#setTimer();
      return;
    }
    delete work.lanes[way];
    if (isProgress || work.isBlocked) this.wake(peerId);
    else this.#setTimer();
  }

  /** Stores what became of the rows and the peer in one transaction. Answers when the first row is due again. */
  async #store(peerId: PeerId, { events, lan }: Sent): Promise<number | null> {
    const { context } = this.#options;
    const became = becameOfMail(events, lan);
    if (events.length === 0 && lan === undefined) return null;
    return context.store.transact(async (tx) => {
      const nextMs: (number | null)[] = [];
      for (const { rowId, event } of events) {
        if (isRefusedReceipt(event) && (await signReceiptAnew(tx, context, rowId))) continue;
        nextMs.push(afterAttempt(tx, context, rowId, event)?.nextAtMs ?? null);
      }
      if (became !== undefined) noteMailOverLan(tx, peerId, became);
      if (lan === 'reached') await markReached(tx, context, peerId);
      if (lan === 'unreached') markUnreached(tx, peerId);
      return earliest(nextMs);
    });
  }

  /** Answers when to look whether the relay knows the peer; null when it does, or when an event will tell. */
  #untilRelayKnows(peer: PeerRow, work: PeerWork): number | null {
    const { context, relay } = this.#options;
    const facts = relay.factsFor(peer);
    if (facts === 'unknown') this.#ask(peer, work);
    // A relay that can be used again wakes every peer.
    if (facts === 'unknown' || !facts || facts.isTargetEnrolled) return null;
    return context.nowMs() + (relay.pauseMs > 0 ? relay.pauseMs : ASK_RELAY_MS);
  }

  /** Asks the relay about the peer, and looks at the peer again when it answered. */
  #ask(peer: PeerRow, work: PeerWork): void {
    if (work.asking || this.#stopping.signal.aborted) return;
    const ask = async (): Promise<void> => {
      try {
        await this.#options.relay.ask(peer);
        work.isStale = true;
      } catch (error) {
        this.#noteBroken(work, error);
      } finally {
        work.asking = undefined;
      }
      if (work.isStale) this.wake(peer.peerId);
      else this.#setTimer();
    };
    work.asking = ask();
  }

  #noteBroken(work: PeerWork, error: unknown): void {
    // A store that failed ends the daemon.
    if (isStoreFailure(error)) return;
    const { context } = this.#options;
    context.log('error', 'the outbox could not be sent', { err: error });
    lookAgainBy(work, context.nowMs() + BROKEN_MS);
  }

  /** One timer, for the first moment of all peers. */
  #setTimer(): void {
    clearTimeout(this.#timer);
    if (this.#stopping.signal.aborted) return;
    const soonest = earliest([...this.#peers.values()].map(({ nextMs }) => nextMs));
    if (soonest === null) return;
    const { context } = this.#options;
    const aheadMs = context.nowMs() - context.monotonicMs();
    const inMs = Math.min(TIMER_MAX_MS, Math.max(0, soonest - context.nowMs()));
    this.#timer = setTimeout(() => {
      const nowMs = context.nowMs();
      const isClockChanged = Math.abs(nowMs - context.monotonicMs() - aheadMs) > CLOCK_STEP_MS;
      // What is not due yet by a clock that stood still is looked at once more.
      this.#wakeUntil(isClockChanged ? Infinity : Math.max(nowMs, inMs < TIMER_MAX_MS ? soonest : 0));
    }, inMs);
  }

  #wakeUntil(untilMs: number): void {
    for (const [peerId, work] of this.#peers) {
      if (work.nextMs === null || work.nextMs > untilMs) continue;
      work.nextMs = null;
      this.wake(peerId);
    }
    this.#setTimer();
  }
}

function nowOf(context: HostContext): OutboxClock {
  return { nowMs: context.nowMs(), momentMs: (datedMs) => context.momentMs(datedMs) };
}

/** Tells whether the row, which waits, could go to the relay now, should the relay know the peer. */
function isForRelay(row: OutboxRow, peer: PeerRow, now: OutboxClock): boolean {
  if (peer.unpairedAtMs !== null || !mayNeedRelay(row, peer)) return false;
  // It was accepted once; in another epoch the relay refused it.
  if (row.state === 'relay-accepted') return row.relayAttempts > 0;
  return row.state !== 'lan-accepted' || isOutOfReach(peer) || now.nowMs >= lanDoubtAtMs(row, now);
}

/** A relay refuses a receipt that is signed by a key which it does not know for one of this host. */
function isRefusedReceipt(event: OutboxEvent): boolean {
  return event.type === 'relay-refused' && event.code === 'bad receipt';
}
