/**
 * The relays over which mail for one host goes: the candidates in their order, the lane, which is the one that new rows
 * take, and the open rows that are owed to each relay. Pure. With one relay the lane is that one, if it knows the host.
 *
 *     standings of one's own relays ─▶ candidates of the peer ─▶ lane ─▶ rows owed to each relay, in sending order
 *
 * Invariants:
 *   - a message goes to a relay only behind all earlier ones for the same host that the relay lacks;
 *   - the age of a copy brings at most one beside it;
 *   - what is held back at one relay holds up nothing at another.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { OutboxClock } from './outbox-event.ts';
import { isSending, GIVE_UP_MS, copiesOf, copyAt, triedAt, earliest } from './outbox-row.ts';
import type { CopyReason, RelayCopy } from './relay-acceptance.ts';
import type { RelayRow } from './relay-rows.ts';
import type { OutboxRow } from './rows.ts';
import { bySending, failureIn, mayPush, type RelayFacts } from './transport-choice.ts';

/** The lane goes back to a better relay after this time, whatever is unconfirmed elsewhere. */
export const LANE_RETURN_MS = 3_600_000;
/** A shorter pause of a relay is waited out. */
const PAUSE_WAITED_MS = 3_000;
/** A relay is doubted when the peer confirmed a message that it has over another one alone, for so long. */
export const DOUBT_AFTER_MS = 600_000;
export const DOUBTED_MS = 24 * 3_600_000;
/** What the peer confirmed or wrote is taken to show that it is there when this has passed. */
export const EVIDENT_MS = 60_000;
/** Rows of a peer that never confirmed anything which get a second copy. */
export const UNCONFIRMED_SECOND_COPIES = 20;

/** Until then a notice of the relay before its time counts against it; 0 when there was none. */
export function avoidedUntilMs(
  relay: Pick<RelayRow, 'wrongNoticeAtMs'> | undefined,
  { momentMs }: Pick<OutboxClock, 'momentMs'>,
): number {
  const atMs = relay?.wrongNoticeAtMs;
  return atMs === undefined ? 0 : momentMs(atMs) + DOUBTED_MS;
}

/** What is known of one relay, and of one peer there. */
export interface RelayState {
  relayPubkey: PublicKey;
  /** Null without a session; `unknown`: the relay is to be asked about the peer. */
  facts: RelayFacts | null | 'unknown';
  isDown: boolean;
  pauseMs: number;
  /** The time since it was heard, when it counts as not heard; else 0. */
  unheardMs: number;
  /** It signed two histories, gave a notice before its time, is doubted for this peer, or is being left. */
  isDoubted: boolean;
  /** It refused mail for this peer a moment ago, as the peer or its list does not take it there. */
  isRefused: boolean;
}

/** One of this host's relays as it stands for one peer now. */
export interface RelayStanding extends RelayState {
  /** `soon`: it is being entered, or is to be asked about the peer. */
  can: 'carry' | 'soon' | 'not';
}

/** An only relay is tried whatever it did last, for what it had also where it does not know the peer. */
export function standingOf(state: RelayState, isOnly: boolean): RelayStanding {
  return { ...state, can: carries(state, isOnly) };
}

function carries({ facts, isDown, pauseMs, isRefused }: RelayState, isOnly: boolean): RelayStanding['can'] {
  if (!isOnly && (isDown || isRefused || pauseMs > PAUSE_WAITED_MS)) return 'not';
  if (facts === null) return isOnly ? 'not' : 'soon';
  if (facts === 'unknown') return 'soon';
  return facts.isTargetEnrolled || isOnly ? 'carry' : 'not';
}

/** The facts of a relay that knows the peer, or null. */
export function factsOf(relay: RelayState | undefined): RelayFacts | null {
  return relay && relay.facts !== 'unknown' ? relay.facts : null;
}

export interface PeerHome {
  /** The relays of the document that is held of the peer, in its order; null when none is held. */
  home: readonly PublicKey[] | null;
  /** Over which something of the peer came last. */
  cameOver?: PublicKey | undefined;
}

/** The relays for the peer's mail, first first. `own`: in the owner's order. */
export function candidatesOf(own: readonly RelayStanding[], { home, cameOver }: PeerHome): RelayStanding[] {
  const byDoubt = (relays: readonly RelayStanding[]): RelayStanding[] =>
    relays.toSorted((a, b) => Number(a.isDoubted) - Number(b.isDoubted));
  if (home === null) {
    return byDoubt(own.toSorted((a, b) => Number(b.relayPubkey === cameOver) - Number(a.relayPubkey === cameOver)));
  }
  const named = home.flatMap((key) => own.find(({ relayPubkey }) => relayPubkey === key) ?? []);
  if (home.length === 0 || named.some(({ can }) => can !== 'not')) return byDoubt(named);
  return byDoubt([...named, ...own.filter((relay) => !named.includes(relay))]);
}

/** The relay that new rows of a peer take. */
export interface RelayLane {
  relayPubkey: PublicKey;
  /** When it became the lane, by the monotonic clock. */
  sinceMs: number;
}

interface LaneFacts {
  /** Of the monotonic clock. */
  nowMs: number;
  /** True when nothing that is unconfirmed is elsewhere and not at this relay. */
  hasAll: (relay: RelayStanding) => boolean;
}

/**
 * The lane after `before`: undefined when no candidate can carry mail. Of `awaited`, whose turn it would be, it is not
 * known yet: rows wait for it when it is the lane, or when there is none.
 */
export function laneAfter(
  before: RelayLane | undefined,
  candidates: readonly RelayStanding[],
  { nowMs, hasAll }: LaneFacts,
): { lane: RelayLane | undefined; awaited?: RelayStanding } {
  const usable = candidates.filter(({ can }) => can !== 'not');
  const [best] = usable;
  if (!best) return { lane: undefined };
  const present = before && usable.find(({ relayPubkey }) => relayPubkey === before.relayPubkey);
  if (!before || !present) {
    if (best.can === 'soon') return { lane: undefined, awaited: best };
    return { lane: { relayPubkey: best.relayPubkey, sinceMs: nowMs } };
  }
  const goesBack =
    best !== present &&
    ((present.isDoubted && !best.isDoubted) || nowMs - before.sinceMs >= LANE_RETURN_MS || hasAll(best));
  if (!goesBack) return { lane: before, ...(present.can === 'soon' && { awaited: present }) };
  if (best.can === 'soon') return { lane: before, awaited: best };
  return { lane: { relayPubkey: best.relayPubkey, sinceMs: nowMs } };
}

/** What decides where the rows of one peer go. */
export interface PeerRelays {
  /** All of this host's, in the owner's order. */
  own: readonly RelayStanding[];
  candidates: readonly RelayStanding[];
  lane: PublicKey | undefined;
  /** A relay that was not heard for so long does not hold its rows any more. */
  elsewhereMs: number;
  /** The age of an only copy that brings another one; null for never. */
  secondCopyMs: number | null;
  /** Later rows get no second copy. */
  secondCopyLast: number;
  /** What the peer has shown, `EVIDENT_MS` ago and more: the last row that it confirmed, when it wrote last. */
  shown: { rowId: number; wroteAtMs: number };
}

/** What the relay has of the row, as far as is known. */
export function placeOf(row: OutboxRow, relay: RelayState): 'has' | 'lacks' | 'again' | 'expired' {
  const copy = copyAt(row, relay.relayPubkey);
  if (!copy) return 'lacks';
  const facts = factsOf(relay);
  const isOfNow = !facts || copy.acceptance.epoch === facts.epoch;
  if (copy.state === 'live') return isOfNow ? 'has' : 'again';
  if (copy.state === 'expired') return isOfNow ? 'expired' : 'lacks';
  // `gone`: its owner has added the relay again.
  return 'again';
}

/** The relays of one's own that have the row, with their copies. */
function holdersOf(row: OutboxRow, own: readonly RelayStanding[]): { relay: RelayStanding; copy: RelayCopy }[] {
  return copiesOf(row).flatMap((copy) => {
    const relay = own.find(({ relayPubkey }) => relayPubkey === copy.acceptance.relayPubkey);
    return relay && placeOf(row, relay) === 'has' ? [{ relay, copy }] : [];
  });
}

/** The relay that would take the row when nobody has it. */
export function relayFor({ kind, broughtBy }: OutboxRow, { own, lane }: PeerRelays): RelayStanding | undefined {
  const brought = kind === 'receipt' && own.find((one) => one.can === 'carry' && broughtBy?.includes(one.relayPubkey));
  return brought || own.find(({ relayPubkey }) => relayPubkey === lane);
}

/** Why the row is owed to the relay, whatever else is; undefined when it is not. */
export function owedFor(
  row: OutboxRow,
  relay: RelayStanding,
  peer: PeerRelays,
  clock: OutboxClock,
): Exclude<CopyReason, 'ahead'> | undefined {
  const facts = factsOf(relay);
  if (relay.can === 'not' || !isSending(row)) return undefined;
  if (row.kind === 'receipt' && facts?.carriesReceipts === false) return undefined;
  const place = placeOf(row, relay);
  if (place === 'again') return 'again';
  if (place !== 'lacks' || !mayBeCopied(row, facts, clock)) return undefined;
  const { relayPubkey } = relay;
  const isLane = relayPubkey === peer.lane;
  const holders = holdersOf(row, peer.own);
  if (row.kind === 'receipt') {
    // To each relay that brought the message, and where none of these can be used, over the lane.
    const brought = peer.own.filter((one) => one.can !== 'not' && row.broughtBy?.includes(one.relayPubkey));
    if (brought.includes(relay) || (isLane && holders.length === 0 && brought.length === 0)) return 'first';
  } else if (holders.length === 0) {
    const lane = peer.own.find((one) => one.relayPubkey === peer.lane);
    const isOver = lane !== undefined && (placeOf(row, lane) === 'expired' || isTooLargeAt(row, lane));
    return isLane || (isOver && relay === firstWithout(row, peer)) ? 'first' : undefined;
  }
  if (holders.length === 0) return undefined;
  const isUnheard = holders.every((holder) => holder.relay.unheardMs >= peer.elsewhereMs);
  if (isLane && isUnheard && relay.unheardMs === 0) return 'unheard';
  const [only, ...others] = holders;
  if (!only || others.length > 0 || relay !== firstWithout(row, peer)) return undefined;
  const dueMs = secondCopyAtMs(row, only.copy, peer, clock);
  return dueMs !== null && clock.nowMs >= dueMs ? 'second' : undefined;
}

/** A relay that has it already goes on trying it for longer (`outbox.ts`). */
function mayBeCopied(row: OutboxRow, facts: RelayFacts | null, clock: OutboxClock): boolean {
  if (row.state === 'relay-accepted' && clock.nowMs >= clock.momentMs(row.createdAtMs) + GIVE_UP_MS) return false;
  return facts === null || mayPush(row, facts, clock);
}

/** The first candidate that can be used and has no copy, and did not refuse one as too large. */
function firstWithout(row: OutboxRow, { candidates }: PeerRelays): RelayStanding | undefined {
  return candidates.find(
    (relay) => relay.can !== 'not' && placeOf(row, relay) === 'lacks' && !isTooLargeAt(row, relay),
  );
}

/** The last answer of the relay was that the item is too large for it. */
export function isTooLargeAt(row: OutboxRow, { relayPubkey }: RelayState): boolean {
  return triedAt(row, relayPubkey)?.failures?.error === 'rejected:too large';
}

/** When an only copy gets a second one beside it; null for never. */
function secondCopyAtMs(row: OutboxRow, copy: RelayCopy, peer: PeerRelays, clock: OutboxClock): number | null {
  const { secondCopyMs, secondCopyLast, shown } = peer;
  if (row.kind !== 'envelope' || secondCopyMs === null || row.rowId > secondCopyLast) return null;
  const isThere = row.rowId < shown.rowId || copy.atMs < shown.wroteAtMs;
  return isThere ? clock.nowMs : clock.momentMs(copy.atMs) + secondCopyMs;
}

/**
 * True when an open message lies elsewhere alone. The row of a receipt has no order, and neither has what a relay of
 * another epoch may have lost.
 */
export function isElsewhere(row: OutboxRow, relayPubkey: PublicKey): boolean {
  return row.kind === 'envelope' && row.state === 'relay-accepted' && !copyAt(row, relayPubkey);
}

interface RelayPlan {
  /** In sending order, of each relay that can carry now. */
  rows: Map<PublicKey, OutboxRow[]>;
  /** Why each of them goes there, by the number of the row. */
  why: Map<PublicKey, Map<number, CopyReason>>;
  /** Relays that something is owed to and of which it is not known whether they can carry it. */
  awaited: Set<PublicKey>;
  /** When something will be owed by the clock alone; null for never. */
  nextMs: number | null;
}

/**
 * The rows that go to each relay now: those that are owed there, and ahead of them all earlier messages that the relay
 * lacks. `rows`: the open ones of the peer that may go over a relay.
 */
export function planRows(rows: readonly OutboxRow[], peer: PeerRelays, clock: OutboxClock): RelayPlan {
  const plan: RelayPlan = { rows: new Map(), why: new Map(), awaited: new Set(), nextMs: null };
  const inOrder = rows.toSorted(bySending);
  for (const relay of peer.own) {
    const owed = new Map<OutboxRow, CopyReason>();
    for (const row of inOrder) {
      const why = isDue(row, clock) ? owedFor(row, relay, peer, clock) : undefined;
      if (why) owed.set(row, why);
    }
    if (owed.size === 0) continue;
    if (relay.can === 'soon') plan.awaited.add(relay.relayPubkey);
    else if (relay.can === 'carry') addRows(plan, inOrder, owed, relay, clock);
  }
  for (const row of inOrder) plan.nextMs = earliest([plan.nextMs, momentOf(row, peer, clock)]);
  return plan;
}

/** What was not taken by anybody waits out its pause; a copy is owed by the rules alone. */
function isDue({ state, nextAtMs }: OutboxRow, { nowMs }: OutboxClock): boolean {
  return state === 'relay-accepted' || (nextAtMs !== null && nextAtMs <= nowMs);
}

function isMessage({ kind }: OutboxRow): boolean {
  return kind === 'envelope';
}

function addRows(
  plan: RelayPlan,
  inOrder: readonly OutboxRow[],
  owed: ReadonlyMap<OutboxRow, CopyReason>,
  relay: RelayStanding,
  clock: OutboxClock,
): void {
  const facts = factsOf(relay);
  const paused = new Map<OutboxRow, NonNullable<ReturnType<typeof pauseAt>>>();
  for (const row of inOrder) {
    const pause = pauseAt(row, relay.relayPubkey, clock);
    if (pause) paused.set(row, pause);
  }
  const last = inOrder.findLast((row) => owed.has(row) && isMessage(row) && !paused.has(row))?.rowId ?? 0;
  const found: OutboxRow[] = [];
  let isHeldUp = false;
  for (const row of inOrder) {
    const isAhead = isMessage(row) && row.rowId < last && row.state !== 'lan-accepted';
    if (!owed.has(row) && !isAhead) continue;
    if (!owed.has(row) && (placeOf(row, relay) !== 'lacks' || !mayBeCopied(row, facts, clock))) continue;
    const pause = paused.get(row);
    if (pause) plan.nextMs = earliest([plan.nextMs, pause.untilMs]);
    // Later ones would be refused too, or overtake it.
    if (pause?.failure === 'refused' && isMessage(row)) isHeldUp = true;
    // One without an answer goes with a later one that may leave.
    const isHeldBack = pause !== undefined && !(pause.failure === 'unanswered' && isAhead);
    if (!isHeldBack && !(isHeldUp && isMessage(row))) found.push(row);
  }
  if (found.length === 0) return;
  plan.rows.set(relay.relayPubkey, found);
  plan.why.set(relay.relayPubkey, new Map(found.map((row) => [row.rowId, owed.get(row) ?? 'ahead'])));
}

/** The pause of the row at one of several relays, after what failed there. */
function pauseAt(row: OutboxRow, relayPubkey: PublicKey, { nowMs }: OutboxClock) {
  const failures = triedAt(row, relayPubkey)?.failures;
  if (!failures || failures.nextAtMs <= nowMs) return undefined;
  return { untilMs: failures.nextAtMs, failure: failureIn(failures.error) };
}

function isOff({ can, unheardMs }: RelayStanding): boolean {
  return can === 'not' || unheardMs > 0;
}

/** When the row that a relay has will be owed to another one as time passes; null when only an event can do that. */
function momentOf(row: OutboxRow, peer: PeerRelays, clock: OutboxClock): number | null {
  if (row.state !== 'relay-accepted') return null;
  const holders = holdersOf(row, peer.own);
  const [only, ...others] = holders;
  if (!only || peer.own.length === holders.length) return null;
  const leftMs = holders.map(({ relay }) => (isOff(relay) ? peer.elsewhereMs - relay.unheardMs : Infinity));
  const elsewhereMs = clock.nowMs + Math.max(...leftMs);
  const secondMs = (others.length === 0 ? secondCopyAtMs(row, only.copy, peer, clock) : null) ?? Infinity;
  const moments = [elsewhereMs, secondMs].filter((moment) => moment > clock.nowMs && moment < Infinity);
  return moments.length === 0 ? null : Math.min(...moments);
}

/**
 * Names the relays that had the row when the peer confirmed it over another relay alone, and says from when on that
 * counts: this host doubts those that answered it all the time until then. Undefined when there is nothing to doubt.
 */
export function suspectsOf(row: OutboxRow): { relays: PublicKey[]; over: PublicKey; fromMs: number } | undefined {
  const [first] = row.confirmedOver ?? [];
  if (!first) return undefined;
  const isBefore = ({ atMs, state }: RelayCopy): boolean => atMs <= first.atMs && state !== 'gone' && state !== 'again';
  const relays = copiesOf(row)
    .filter(isBefore)
    .map(({ acceptance }) => acceptance.relayPubkey)
    .filter((key) => !row.confirmedOver?.some(({ relayPubkey }) => relayPubkey === key));
  if (relays.length === 0) return undefined;
  return { relays, over: first.relayPubkey, fromMs: first.atMs + DOUBT_AFTER_MS };
}
