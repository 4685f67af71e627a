/**
 * Where the mail of each peer goes when this host has several relays: reads what `core/relay-lanes.ts` decides by, and
 * keeps what that needs between two looks of the dispatcher.
 *
 * With one relay nothing here reads or waits: its facts alone decide. With several all open rows of a peer are read
 * when something changed that may move what a relay has already (`Survey`), and not for each new message.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { HostContext, HostEvent } from '../base/context.ts';
import { clockNow, earliest } from '../core/outbox-row.ts';
import type { OutboxClock } from '../core/outbox-event.ts';
import {
  avoidedUntilMs,
  candidatesOf,
  DOUBT_AFTER_MS,
  DOUBTED_MS,
  EVIDENT_MS,
  factsOf,
  isTooLargeAt,
  laneAfter,
  owedFor,
  type PeerRelays,
  planRows,
  relayFor,
  type RelayLane,
  type RelayState,
  standingOf,
  suspectsOf,
} from '../core/relay-lanes.ts';
import type { OutboxRow, PeerId, PeerRow } from '../core/rows.ts';
import { chooseTransport, isToSend, mayNeedRelay, type RelayFacts, type Transport } from '../core/transport-choice.ts';
import type { Transaction } from '../store/host-store.ts';
import { relayRowOf, homeOf } from './homes.ts';
import { afterAttempt } from './outbox.ts';
import {
  isCopied,
  isUnderWay,
  type LaneSettings,
  type PeerLane,
  type PeerWork,
  type RelayTransport,
  type RelayTransports,
  requestsOf,
  type Sent,
  surveyOf,
  type UnderWay,
  type Way,
} from './peer-work.ts';

/** A relay that refused mail for a peer is not tried for it within this time. */
const REFUSED_MS = 60_000;
const REFUSED_HERE: ReadonlySet<string> = new Set([
  'unknown target',
  'target revoked',
  'sender not accepted by target',
]);
/** What a peer shows within this time is taken together. */
const SHOWN_TOGETHER_MS = 10_000;

interface PeerLanesOptions {
  context: HostContext;
  relays: RelayTransports;
  settings: LaneSettings;
}

/** The rows of a peer that are due, and all open ones where they were read. */
export interface OpenRows {
  due: readonly OutboxRow[];
  held: readonly OutboxRow[];
}

/** The rows that go one way, and over one of several relays why each does. */
export interface ChosenRows {
  rows: readonly OutboxRow[];
  why: UnderWay['why'];
}

/** Where the rows of a peer go now. */
export interface Choice {
  ways: Map<Way, ChosenRows>;
  /** Due rows that can go nowhere. */
  wait: OutboxRow[];
  /** Relays of which it is not known whether they can carry what is owed to them. */
  awaited: Set<PublicKey>;
  /** When something is owed by the clock alone; undefined when that was not decided. */
  nextMs: number | null | undefined;
  /** Undefined when no row needs a relay. */
  relays: RelaysNow | undefined;
}

interface RelaysNow extends PeerRelays {
  now: RelayLane | undefined;
  awaited: PublicKey | undefined;
}

export class PeerLanes {
  readonly #options: PeerLanesOptions;
  /** Not all hosts that lose a relay in one moment push elsewhere in one. */
  readonly #elsewhereMs: number;
  /** When each relay was last up or down, by the monotonic clock. */
  readonly #turnedMs = new Map<PublicKey, number>();

  constructor(options: PeerLanesOptions) {
    this.#options = options;
    const chance = options.context.randomBytes(4).readUInt32BE() / 2 ** 32;
    this.#elsewhereMs = options.settings.retryElsewhereMs * (1 + chance / 2);
  }

  get all(): readonly RelayTransport[] {
    return this.#options.relays.all;
  }

  get isSeveral(): boolean {
    return this.all.length > 1;
  }

  transportOf(relayPubkey: Way): RelayTransport | undefined {
    return this.all.find((relay) => relay.relayPubkey === relayPubkey);
  }

  /** Reads the peer, and where it takes mail. */
  read(peerId: PeerId, known: PeerLane): Promise<PeerRow | undefined> {
    return this.#options.context.store.read((reader) => {
      const peer = reader.get('peer', peerId);
      known.home = homeOf(reader, peerId)?.map((relay) => relay.relay_pubkey) ?? null;
      known.cameOver ??= peer?.cameOver;
      const isWrong = (key: PublicKey): boolean =>
        avoidedUntilMs(relayRowOf(reader, key), this.#options.context) > this.#options.context.nowMs();
      known.wrong = this.isSeveral ? this.all.map(({ relayPubkey }) => relayPubkey).filter(isWrong) : [];
      return peer;
    });
  }

  /** The open rows of the peer, when something may have changed that moves what a relay has; else none. */
  async survey(peer: PeerRow, known: PeerLane, due: readonly OutboxRow[]): Promise<OutboxRow[]> {
    if (!this.isSeveral || !this.#isSurveyDue(peer, known, due)) return [];
    const { context } = this.#options;
    const own = this.all.map(({ relayPubkey }) => relayPubkey);
    const { rows, survey } = await context.store.read((reader) => surveyOf(reader, peer, own, context.nowMs()));
    known.survey = survey;
    return rows;
  }

  #isSurveyDue(peer: PeerRow, known: PeerLane, due: readonly OutboxRow[]): boolean {
    const { survey } = known;
    if (!survey || survey.own !== this.all.map(({ relayPubkey }) => relayPubkey).join()) return true;
    if (survey.nextMs !== null && survey.nextMs <= this.#options.context.nowMs()) return true;
    if (!due.some(isToSend)) return false;
    const { lane } = this.relaysOf(peer, known);
    return lane !== undefined && survey.lacking.get(lane)?.size !== 0;
  }

  /** How the relays stand for the peer, and which is its lane. Changes nothing. */
  relaysOf(peer: PeerRow, known: PeerLane): RelaysNow {
    const { context, settings } = this.#options;
    const own = this.all.map((relay) => standingOf(this.#stateOf(relay, peer, known), !this.isSeveral));
    const candidates = candidatesOf(own, known);
    const hasAll = ({ relayPubkey }: RelayState): boolean => known.survey?.lacking.get(relayPubkey)?.size === 0;
    const { lane, awaited } = laneAfter(known.lane, candidates, { nowMs: context.monotonicMs(), hasAll });
    return {
      own,
      candidates,
      lane: lane?.relayPubkey,
      elsewhereMs: this.#elsewhereMs,
      secondCopyMs: settings.secondCopyMs,
      secondCopyLast: known.survey?.secondCopyLast ?? 0,
      shown: known.shown,
      now: lane,
      awaited: awaited?.relayPubkey,
    };
  }

  /** What the relay tells of the peer that its mail takes, or would take soon; null when there is none. */
  factsFor(peer: PeerRow, known: PeerLane): RelayState['facts'] {
    const { own, lane, awaited } = this.relaysOf(peer, known);
    return own.find(({ relayPubkey }) => relayPubkey === (lane ?? awaited))?.facts ?? null;
  }

  #stateOf(relay: RelayTransport, peer: PeerRow, { refusedUntilMs, wrong }: PeerLane): RelayState {
    const { context } = this.#options;
    const { relayPubkey, isDown, pauseMs, unheardMs, hasTwoHistories, isLeft } = relay;
    const doubt = peer.doubted?.find((one) => one.relayPubkey === relayPubkey);
    return {
      relayPubkey,
      facts: relay.factsFor(peer),
      isDown,
      pauseMs,
      unheardMs,
      isDoubted: hasTwoHistories || isLeft || wrong.includes(relayPubkey) || (doubt?.untilMs ?? 0) > context.nowMs(),
      isRefused: (refusedUntilMs.get(relayPubkey) ?? 0) > context.monotonicMs(),
    };
  }

  /** Says where each row goes. */
  choose(peer: PeerRow, { due, held }: OpenRows, work: PeerWork): Choice {
    const now = clockNow(this.#options.context);
    const isFree = this.#freeRows(peer, work);
    const free = due.filter(isFree);
    const isPaired = peer.unpairedAtMs === null;
    const asking = new Set(isPaired ? free.filter((row) => mayNeedRelay(row, peer)) : []);
    const dueIds = new Set(due.map(({ rowId }) => rowId));
    const others = held.filter(
      (row) => isPaired && !dueIds.has(row.rowId) && row.state !== 'lan-accepted' && mayNeedRelay(row, peer),
    );
    const relays = asking.size + others.length > 0 ? this.relaysOf(peer, work.atRelays) : undefined;
    const choice: Choice = { ways: new Map(), wait: [], awaited: new Set(), nextMs: undefined, relays };
    const { awaited, lane } = relays ?? {};
    if (awaited !== undefined) choice.awaited.add(awaited);
    const isWaiting = awaited !== undefined && (lane === undefined || lane === awaited);
    // What is behind a message that may go over the relay waits with it, and the rest does not.
    if (isWaiting && [...asking].some(isToSend)) return choice;
    const rows = isWaiting ? free.filter((row) => !asking.has(row)) : free;
    const usable = isWaiting ? undefined : relays;
    const by: Record<Transport, OutboxRow[]> = { lan: [], relay: [], wait: [] };
    for (const row of rows) by[wayOf(row, peer, usable, now)].push(row);
    if (by.lan.length > 0) choice.ways.set('lan', { rows: by.lan, why: new Map() });
    choice.wait = by.wait;
    if (!usable) return choice;
    const plan = planRows([...by.relay, ...others.filter(isFree)], usable, now);
    const planned = new Set([...plan.rows.values()].flat());
    choice.wait.push(...by.relay.filter((row) => !planned.has(row)));
    for (const [relayPubkey, those] of plan.rows) {
      const leaving = those.filter(({ rowId }) => !isUnderWay(work, rowId, relayPubkey));
      if (leaving.length > 0)
        choice.ways.set(relayPubkey, { rows: leaving, why: plan.why.get(relayPubkey) ?? new Map() });
    }
    for (const relayPubkey of plan.awaited) choice.awaited.add(relayPubkey);
    choice.nextMs = plan.nextMs;
    return choice;
  }

  /** Rows that no request carries, but one to a relay that is down: these may go elsewhere. */
  #freeRows(peer: PeerRow, work: PeerWork): (row: OutboxRow) => boolean {
    const taken = new Set<number>();
    const isGivenUp = (way: Way): boolean => {
      if (!this.isSeveral || way === 'lan') return false;
      const relay = this.transportOf(way);
      return !relay || standingOf(this.#stateOf(relay, peer, work.atRelays), false).can === 'not';
    };
    for (const request of requestsOf(work)) {
      if (request === work.settling || !isGivenUp(request.way)) for (const rowId of request.rowIds) taken.add(rowId);
    }
    return ({ rowId }) => !taken.has(rowId);
  }

  /** Keeps what was chosen. Answers the facts of a relay that carries the peer's mail now and did not before. */
  take({ relays, nextMs }: Choice, held: readonly OutboxRow[], known: PeerLane): RelayFacts | undefined {
    if (held.length > 0 && known.survey) {
      if (nextMs === undefined && relays) known.survey = undefined;
      else known.survey.nextMs = earliest([nextMs ?? null, ripeAtMs(known)]);
    }
    if (!relays) return undefined;
    known.lane = relays.now ?? known.lane;
    const lane = relays.own.find(({ relayPubkey }) => relayPubkey === relays.lane);
    const before = known.carrying;
    // What it said of the peer ran out: that holds until it is asked again.
    if (lane?.facts === 'unknown' && lane.relayPubkey === before) return undefined;
    known.carrying = lane?.can === 'carry' ? lane.relayPubkey : null;
    const isNew = known.carrying !== null && before !== undefined && before !== known.carrying;
    return isNew && this.isSeveral ? (factsOf(lane) ?? undefined) : undefined;
  }

  /** What became of the rows of a request to a relay: where they are, and where they cannot go. */
  noteSent(way: Way, rows: readonly OutboxRow[], { events }: Sent, known: PeerLane): void {
    if (way === 'lan' || !this.isSeveral) return;
    // Not all may have been in the request, and what failed is owed again.
    if (rows.some(isCopied)) known.survey = undefined;
    this.#noteEvents(way, rows, events, known);
  }

  #noteEvents(way: PublicKey, rows: readonly OutboxRow[], events: Sent['events'], known: PeerLane): void {
    const { context, settings } = this.#options;
    const { survey } = known;
    const messages = new Set(rows.filter(({ kind }) => kind === 'envelope').map(({ rowId }) => rowId));
    for (const { rowId, event } of events) {
      if (event.type === 'relay-refused' && REFUSED_HERE.has(event.code)) {
        known.refusedUntilMs.set(way, context.monotonicMs() + REFUSED_MS);
        known.survey = undefined;
      } else if (event.type === 'relay-accepted' && survey) {
        for (const [relayPubkey, rowIds] of messages.has(rowId) ? survey.lacking : []) {
          if (relayPubkey !== way) rowIds.add(rowId);
        }
        if (settings.secondCopyMs !== null)
          survey.nextMs = earliest([survey.nextMs, context.nowMs() + settings.secondCopyMs]);
      }
    }
  }

  /** The answer is stored: what was read before is older. Answers when to look at the peer for what it makes owed. */
  noteStored(way: Way, rows: readonly OutboxRow[], { events }: Sent, known: PeerLane): number | null {
    if (!this.isSeveral) return null;
    if (way !== 'lan') this.#noteEvents(way, rows, events, known);
    return known.survey ? known.survey.nextMs : this.#options.context.nowMs();
  }

  /** Alarms its sender when each relay that could carry the row refused it as too large. */
  noteTooLarge(tx: Transaction, peer: PeerRow, rowId: number, known: PeerLane): void {
    const row = tx.get('outbox', rowId);
    if (!this.isSeveral || row?.state !== 'pending') return;
    const usable = this.relaysOf(peer, known).candidates.filter(({ can }) => can !== 'not');
    if (usable.length > 0 && usable.every((relay) => isTooLargeAt(row, relay)))
      afterAttempt(tx, this.#options.context, rowId, { type: 'too-large' });
  }

  /** A relay is up or down, or was not heard for long. Answers whether anything may be owed elsewhere for that. */
  turned(relayPubkey: PublicKey, peers: Iterable<PeerWork>): boolean {
    this.#turnedMs.set(relayPubkey, this.#options.context.monotonicMs());
    for (const { atRelays: known } of peers) {
      const { survey, carrying } = known;
      // What waits for a way, or for another one, waits no longer; copies have time.
      if (!carrying || carrying === relayPubkey) known.survey = undefined;
      else if (survey) survey.nextMs = earliest([survey.nextMs, survey.restedMs]);
    }
    return this.isSeveral;
  }

  /** The peer confirmed a row, or wrote something. Answers when that counts as a sign that it is there. */
  heard(known: PeerLane, sign: Omit<Extract<HostEvent, { type: 'peer-heard' }>, 'type' | 'peerId'>): number {
    const nowMs = this.#options.context.nowMs();
    const { rowId, wroteAtMs, over, copies, isDone } = sign;
    if (over !== null) known.cameOver = over;
    const last = known.heard.at(-1);
    if (last && nowMs - last.fromMs < SHOWN_TOGETHER_MS) {
      last.rowId = Math.max(last.rowId, rowId);
      last.wroteAtMs = Math.max(last.wroteAtMs, wroteAtMs);
      last.atMs = nowMs;
    } else known.heard.push({ rowId, wroteAtMs, fromMs: nowMs, atMs: nowMs });
    if (copies > 1) known.suspects.push({ rowId, atMs: nowMs + DOUBT_AFTER_MS });
    // The lane may go back when nothing is elsewhere any more.
    const { survey } = known;
    for (const rowIds of isDone && survey ? survey.lacking.values() : []) rowIds.delete(rowId);
    const atMs = ripeAtMs(known) ?? nowMs;
    if (survey) survey.nextMs = earliest([survey.nextMs, atMs]);
    return copies > 1 ? Math.min(atMs, nowMs + DOUBT_AFTER_MS) : atMs;
  }

  /** Makes up its mind about what was heard long enough ago. Answers when there is more to judge. */
  async judge({ peerId, cameOver }: PeerRow, known: PeerLane): Promise<number | null> {
    const { context } = this.#options;
    const nowMs = context.nowMs();
    const isRipe = ({ atMs }: { atMs: number }): boolean => atMs + EVIDENT_MS <= nowMs;
    for (const { rowId, wroteAtMs } of known.heard.filter(isRipe)) {
      const { shown } = known;
      known.shown = { rowId: Math.max(shown.rowId, rowId), wroteAtMs: Math.max(shown.wroteAtMs, wroteAtMs) };
    }
    known.heard = known.heard.filter((one) => !isRipe(one));
    const due = known.suspects.filter(({ atMs }) => atMs <= nowMs);
    known.suspects = known.suspects.filter(({ atMs }) => atMs > nowMs);
    const isMoved = known.cameOver !== undefined && known.cameOver !== cameOver;
    if (due.length > 0 || isMoved) {
      await context.store.transact((tx) => {
        for (const { rowId } of due) this.#doubt(tx, peerId, tx.get('outbox', rowId));
        const peer = tx.get('peer', peerId);
        if (peer && isMoved && known.cameOver) tx.put('peer', [peerId], { ...peer, cameOver: known.cameOver });
      });
    }
    return earliest([ripeAtMs(known), ...known.suspects.map(({ atMs }) => atMs)]);
  }

  /** A relay that was heard all the time is doubted when it had the row and the peer got it over another one alone. */
  #doubt(tx: Transaction, peerId: PeerId, row: OutboxRow | undefined): void {
    const { context } = this.#options;
    const found = row && suspectsOf(row);
    const nowMs = context.nowMs();
    if (!found || found.fromMs > nowMs) return;
    for (const relayPubkey of found.relays) {
      const relay = this.transportOf(relayPubkey);
      const sinceMs = context.monotonicMs() - (this.#turnedMs.get(relayPubkey) ?? -Infinity);
      if (relay && !relay.isDown && relay.unheardMs === 0 && sinceMs >= DOUBT_AFTER_MS)
        doubtRelay(tx, nowMs, peerId, relayPubkey, found.over);
    }
  }
}

/** Doubts the relay for a day: mail for the peer takes another one, where there is one. */
function doubtRelay(tx: Transaction, nowMs: number, peerId: PeerId, relayPubkey: PublicKey, over: PublicKey): void {
  const peer = tx.get('peer', peerId);
  if (!peer) return;
  const present = (peer.doubted ?? []).filter(({ untilMs }) => untilMs > nowMs);
  const before = present.find((one) => one.relayPubkey === relayPubkey);
  const doubt = { relayPubkey, over, messages: (before?.messages ?? 0) + 1, untilMs: nowMs + DOUBTED_MS };
  tx.put('peer', [peerId], { ...peer, doubted: [...present.filter((one) => one !== before), doubt] });
}

function wayOf(row: OutboxRow, peer: PeerRow, relays: PeerRelays | undefined, now: OutboxClock): Transport {
  if (row.state !== 'relay-accepted') return chooseTransport(row, peer, factsOf(relays && relayFor(row, relays)), now);
  return relays?.own.some((relay) => relay.can === 'carry' && owedFor(row, relay, relays, now)) ? 'relay' : 'wait';
}

function ripeAtMs({ heard }: PeerLane): number | null {
  const [first] = heard;
  return first ? first.atMs + EVIDENT_MS : null;
}
