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
 *   - of one peer one look runs at a time, one request at most is under way over the LAN and over each relay, and no
 *     row is in two but over two relays: a silent one holds up nothing that another can carry;
 *   - no peer waits for another one, and what the LAN reaches does not wait for a relay;
 *   - messages for one peer leave in the order in which they were sent (`core/transport-choice.ts`, over several relays
 *     `core/relay-lanes.ts`). While an earlier one is under way over the LAN or a relay, a later one does not leave
 *     over the other before `ORDER_WAIT_MS` have passed;
 *   - a row that no transport can take gets `time-passed`, so that its deadlines hold.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { OutboxRow, PeerId, PeerRow } from '../core/rows.ts';
import { clockNow, earliest } from '../core/outbox-row.ts';
import { factsOf } from '../core/relay-lanes.ts';
import { isToSend, type RelayFacts } from '../core/transport-choice.ts';
import { type HostContext, isStoreFailure } from '../base/context.ts';
import { signReceiptAnew } from './outgoing-items.ts';
import {
  afterAttempt,
  afterPeerChange,
  dueRows,
  markReached,
  markUnreached,
  nextOpenRow,
  noteMailOverLan,
} from './outbox.ts';
import { type Choice, type ChosenRows, type OpenRows, PeerLanes } from './peer-lanes.ts';
import {
  becameOfMail,
  type Carrier,
  firstMessageOf,
  isCopied,
  isAllTaken,
  isFailure,
  isForRelay,
  isRefusedReceipt,
  isTooLarge,
  LANE_SETTINGS,
  type LaneSettings,
  lookAgainBy,
  MomentTimer,
  newPeerWork,
  type PeerWork,
  type RelayReach,
  type RelayTransports,
  requestsOf,
  type Sent,
  type UnderWay,
  type Way,
  withReasons,
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
interface DispatcherOptions {
  context: HostContext;
  lan: Carrier;
  relays: RelayTransports;
  settings?: LaneSettings;
}

export class OutboxDispatcher implements RelayReach {
  readonly #options: DispatcherOptions;
  readonly #lanes: PeerLanes;
  readonly #peers = new Map<PeerId, PeerWork>();
  readonly #stopping = new AbortController();
  readonly #timer: MomentTimer;
  #unsubscribe: () => void = () => undefined;

  constructor(options: DispatcherOptions) {
    this.#options = options;
    const { context, relays, settings = LANE_SETTINGS } = options;
    this.#timer = new MomentTimer(context, (untilMs) => this.#wakeUntil(untilMs));
    this.#lanes = new PeerLanes({ context, relays, settings });
  }

  async start(): Promise<void> {
    this.#unsubscribe = this.#options.context.subscribe('outbox', {
      'outbox-changed': ({ peerId }) => this.wake(peerId),
      'relay-turned': ({ relayPubkey }) => this.#turned(relayPubkey),
      'peer-rotated': ({ peerId }) => this.#workOf(peerId).atRelays.refusedUntilMs.clear(),
      'peer-heard': (sign) => {
        if (!this.#lanes.isSeveral) return;
        const work = this.#workOf(sign.peerId);
        lookAgainBy(work, this.#lanes.heard(work.atRelays, sign));
        this.#setTimer();
      },
    });
    await this.wakeAll();
  }

  /** Where there is one relay, what is due waits for its own moments. */
  #turned(relayPubkey: PublicKey): void {
    if (!this.#lanes.turned(relayPubkey, this.#peers.values())) return;
    void this.wakeAll().catch((error: unknown) => this.#noteBroken(undefined, error));
  }

  factsFor(peer: PeerRow): RelayFacts | null | 'unknown' {
    return this.#lanes.factsFor(peer, this.#workOf(peer.peerId).atRelays);
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
    this.#timer.clear();
    const underWay = (): Promise<void>[] =>
      [...this.#peers.values()].flatMap((work) =>
        [work.look ?? [], ...work.asking.values(), ...requestsOf(work).map(({ ended }) => ended)].flat(),
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
    const { context } = this.#options;
    const lanes = this.#lanes;
    const nowMs = context.nowMs();
    const { answers, atRelays } = work;
    const peer = await lanes.read(peerId, atRelays);
    if (!peer) return null;
    const moments = [lanes.isSeveral ? await lanes.judge(peer, atRelays) : null];
    if (this.#isBusy(peer, work)) {
      work.isBlocked = true;
      return earliest(moments);
    }
    const rowsUnderWay = requestsOf(work).reduce((sum, { rowIds }) => sum + rowIds.size, 0);
    const due = await dueRows(context, peerId, DUE_MAX + rowsUnderWay, work.settling?.rowIds);
    const held = await lanes.survey(peer, atRelays, due);
    // A request ended meanwhile, so what was read of its rows may be older than its answer: all is read again.
    if (work.answers !== answers) {
      work.isStale = true;
      if (held.length > 0) atRelays.survey = undefined;
      return earliest(moments);
    }
    moments.push(await this.#dispatch(peer, { due, held }, work));
    for (const { pauseMs } of lanes.all) if (due.length > 0 && pauseMs > 0) moments.push(nowMs + pauseMs);
    const next = await context.store.read((reader) => nextOpenRow(reader, peerId, nowMs));
    moments.push(next?.nextAtMs ?? null, atRelays.survey?.nextMs ?? null);
    // Rows that no relay took, as none knew the peer, go there as soon as one does.
    if (next && isForRelay(next, peer, clockNow(context))) moments.push(this.#untilRelayKnows(peer, work));
    return earliest(moments);
  }

  /** Tells whether every transport for the peer has a request under way: the end of one brings the next look. */
  #isBusy({ address, unpairedAtMs }: PeerRow, { requests }: PeerWork): boolean {
    if (requests.size === 0 || unpairedAtMs !== null) return false;
    if (address !== null && !requests.has('lan')) return false;
    return this.#lanes.all.every(({ isUsable, relayPubkey }) => !isUsable || requests.has(relayPubkey));
  }

  /** Sends each row its way. Answers when to look again for those that have to wait for others. */
  async #dispatch(peer: PeerRow, rows: OpenRows, work: PeerWork): Promise<number | null> {
    const { context } = this.#options;
    const choice = this.#lanes.choose(peer, rows, work);
    for (const relayPubkey of choice.awaited) this.#ask(relayPubkey, peer, work);
    const ways = [...choice.ways].toSorted(
      ([way, a], [, b]) => firstMessageOf(a.rows) - firstMessageOf(b.rows) || (way === 'lan' ? -1 : 1),
    );
    // First, while what was read of the rows still holds: a request may end while others are put off.
    const nextMs = earliest(ways.map(([way, those]) => this.#sendOver(way, peer, those, work)));
    const facts = this.#lanes.take(choice, rows.held, work.atRelays);
    if (facts) {
      const { relayPubkey, epoch } = facts;
      const event = { type: 'relay-ready', relayPubkey, epoch } as const;
      await context.store.transact((tx) => afterPeerChange(tx, context, peer.peerId, event));
    } else if (choice.wait.length > 0) await this.#putOff(peer, choice, rows, work);
    return nextMs;
  }

  /** Notes that time passed for rows that can go nowhere, unless a relay can be used since they were chosen. */
  async #putOff(peer: PeerRow, { wait }: Choice, rows: OpenRows, work: PeerWork): Promise<void> {
    const { context } = this.#options;
    await context.store.transact((tx) => {
      const still = new Set(this.#lanes.choose(peer, { ...rows, due: wait }, work).wait);
      for (const row of wait) {
        if (still.has(row)) afterAttempt(tx, context, row.rowId, { type: 'time-passed' });
        else work.isStale = true;
      }
    });
    // There may be more than one look reads.
    if (wait.length >= DUE_MAX) work.isStale = true;
  }

  /** Starts a request when none is under way. Answers when to look again for messages behind the other transport. */
  #sendOver(way: Way, peer: PeerRow, { rows: chosen, why }: ChosenRows, work: PeerWork): number | null {
    const { context } = this.#options;
    if (this.#stopping.signal.aborted) return null;
    if (work.requests.has(way)) {
      work.isBlocked = true;
      if (chosen.some(isCopied)) work.atRelays.survey = undefined;
      return null;
    }
    if (way !== 'lan' && (this.#lanes.transportOf(way)?.pauseMs ?? 0) > 0) return null;
    const nowMs = context.monotonicMs();
    // Over another relay the earlier ones go ahead of it.
    const others = [...work.requests.values()].filter(
      (other) => (way === 'lan' || other.way === 'lan') && other.sinceMs + ORDER_WAIT_MS > nowMs,
    );
    const first = Math.min(...others.map(({ firstMessage }) => firstMessage));
    const rows = others.length > 0 ? chosen.filter((row) => !isToSend(row) || row.rowId < first) : chosen;
    if (rows.length > 0) {
      const request: UnderWay = {
        way,
        rowIds: new Set(rows.map(({ rowId }) => rowId)),
        why,
        firstMessage: firstMessageOf(rows),
        sinceMs: nowMs,
        ended: Promise.resolve(),
      };
      work.requests.set(way, request);
      request.ended = this.#send(way, peer, rows, { work, request });
    }
    if (rows.length === chosen.length) return null;
    return context.nowMs() + Math.max(...others.map(({ sinceMs }) => sinceMs)) + ORDER_WAIT_MS - nowMs;
  }

  async #send(
    way: Way,
    peer: PeerRow,
    rows: readonly OutboxRow[],
    { work, request }: { work: PeerWork; request: UnderWay },
  ): Promise<void> {
    const { context, lan } = this.#options;
    const { peerId } = peer;
    let isProgress = false;
    try {
      const carrier = way === 'lan' ? lan : this.#lanes.transportOf(way);
      const sent = withReasons(await carrier?.send(peer, rows, this.#stopping.signal), request.why);
      work.answers++;
      this.#lanes.noteSent(way, rows, sent, work.atRelays);
      if (isAllTaken(sent) && !work.settling) {
        request.rowIds = new Set(sent.events.map(({ rowId }) => rowId));
        work.settling = request;
        work.requests.delete(way);
        this.wake(peerId);
      }
      const nextMs = await this.#store(peer, sent, work);
      lookAgainBy(work, this.#lanes.noteStored(way, rows, sent, work.atRelays));
      isProgress = sent.events.some(({ event }) => !isFailure(event));
      if (work.settling === request) lookAgainBy(work, nextMs);
      else if (!isProgress)
        lookAgainBy(work, earliest([nextMs, context.nowMs() + Math.min(REST_MS, context.retry.firstMs)]));
    } catch (error) {
      this.#noteBroken(work, error);
    } finally {
      work.answers++;
    }
    if (work.settling === request) {
      work.settling = undefined;
      this.#setTimer();
      return;
    }
    work.requests.delete(way);
    if (isProgress || work.isBlocked) this.wake(peerId);
    else this.#setTimer();
  }

  /** Stores what became of the rows and the peer in one transaction. Answers when the first row is due again. */
  async #store(peer: PeerRow, { events, lan }: Sent, work: PeerWork): Promise<number | null> {
    const { context } = this.#options;
    const { peerId } = peer;
    const became = becameOfMail(events, lan);
    if (events.length === 0 && lan === undefined) return null;
    return context.store.transact(async (tx) => {
      const nextMs: (number | null)[] = [];
      for (const { rowId, event } of events) {
        if (isRefusedReceipt(event) && (await signReceiptAnew(tx, context, rowId))) continue;
        nextMs.push(afterAttempt(tx, context, rowId, event)?.nextAtMs ?? null);
        if (isTooLarge(event)) this.#lanes.noteTooLarge(tx, peer, rowId, work.atRelays);
      }
      if (became !== undefined) noteMailOverLan(tx, peerId, became);
      if (lan === 'reached') await markReached(tx, context, peerId);
      if (lan === 'unreached') markUnreached(tx, peerId);
      return earliest(nextMs);
    });
  }

  /** Answers when to look whether a relay knows the peer; null when one does, or when an event will tell. */
  #untilRelayKnows(peer: PeerRow, work: PeerWork): number | null {
    const { all, isSeveral } = this.#lanes;
    const { own, awaited, lane } = this.#lanes.relaysOf(peer, work.atRelays);
    if (awaited !== undefined) this.#ask(awaited, peer, work);
    const facts = own.flatMap((relay) => factsOf(relay) ?? []);
    const isKnown = facts.some(({ relayPubkey, isTargetEnrolled }) => isTargetEnrolled && relayPubkey === lane);
    // A relay that can be used again wakes every peer.
    if (awaited !== undefined || isKnown || facts.length === 0) return null;
    const pauseMs = isSeveral ? 0 : (all[0]?.pauseMs ?? 0);
    return this.#options.context.nowMs() + (pauseMs > 0 ? pauseMs : ASK_RELAY_MS);
  }

  /** Asks a relay about the peer, and looks at the peer again when it answered. */
  #ask(relayPubkey: PublicKey, peer: PeerRow, work: PeerWork): void {
    const relay = this.#lanes.transportOf(relayPubkey);
    if (!relay?.isUsable || work.asking.has(relayPubkey) || this.#stopping.signal.aborted) return;
    const ask = async (): Promise<void> => {
      try {
        await relay.ask(peer);
        work.isStale = true;
        work.atRelays.survey = undefined;
      } catch (error) {
        this.#noteBroken(work, error);
      } finally {
        work.asking.delete(relayPubkey);
      }
      if (work.isStale) this.wake(peer.peerId);
      else this.#setTimer();
    };
    work.asking.set(relayPubkey, ask());
  }

  #noteBroken(work: PeerWork | undefined, error: unknown): void {
    // A store that failed ends the daemon.
    if (isStoreFailure(error)) return;
    const { context } = this.#options;
    context.log('error', 'the outbox could not be sent', { err: error });
    if (work) lookAgainBy(work, context.nowMs() + BROKEN_MS);
  }

  #setTimer(): void {
    if (this.#stopping.signal.aborted) return this.#timer.clear();
    this.#timer.set(earliest([...this.#peers.values()].map(({ nextMs }) => nextMs)));
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
