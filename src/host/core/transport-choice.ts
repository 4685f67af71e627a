/**
 * The way that a row of the outbox takes now (specification, "Transport choice", rules 1 to 3), and the order in which
 * messages leave for one host: that in which they were sent. Pure.
 *
 * Each row waits out its own failures, so a later one may be due first. An earlier row that had no answer then goes
 * with it. Behind one that was refused for want of room or of a target, later ones wait until it is tried again: they
 * would be refused too, or overtake it. A row that was refused for what it is holds up no other, and neither does one
 * that a relay of v1 has.
 */
import type { Epoch } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { OutboxClock } from './outbox-event.ts';
import { LAN_ATTEMPTS_BEFORE_RELAY } from './outbox.ts';
import { elapsedAtMostMs, lanDoubtAtMs, triedAt } from './outbox-row.ts';
import type { OutboxRow, PeerRow } from './rows.ts';

/** The relay as it is known now, and whether it can take mail for the peer. */
export interface RelayFacts {
  relayPubkey: PublicKey;
  epoch: Epoch;
  retentionMs: number;
  isTargetEnrolled: boolean;
  /** A relay of v1 takes envelopes alone. */
  carriesReceipts: boolean;
  /** It signed two histories: each row tries the LAN first, also where that failed before. */
  hasTwoHistories: boolean;
}

/**
 * `wait`: not now, or a relay has it and relay-lanes.ts says where it goes. A row that is due and has to wait is given
 * `time-passed`.
 */
export type Transport = 'lan' | 'relay' | 'wait';

/** True when it matters for the row, now or next, what a relay can do. */
export function mayNeedRelay(row: OutboxRow, peer: Pick<PeerRow, 'address' | 'lanFailures'>): boolean {
  if (row.state === 'relay-accepted' || row.state === 'lan-accepted') return true;
  return row.state === 'pending' && (isOutOfReach(peer) || row.lanAttempts >= LAN_ATTEMPTS_BEFORE_RELAY);
}

/** True when the LAN does not reach the peer, as far as is known. */
export function isOutOfReach({ address, lanFailures }: Pick<PeerRow, 'address' | 'lanFailures'>): boolean {
  return address === null || lanFailures >= LAN_ATTEMPTS_BEFORE_RELAY;
}

/** True when the LAN reaches the peer, and yet the last mail to it failed there. */
export function failsOverLan({
  mailFailed,
  ...peer
}: Pick<PeerRow, 'address' | 'lanFailures' | 'mailFailed'>): boolean {
  return !isOutOfReach(peer) && (mailFailed?.count ?? 0) >= LAN_ATTEMPTS_BEFORE_RELAY;
}

/** The way that mail to the peer takes now, by the last attempts: status, page and doctor show it. */
export function wayOfMail(
  peer: Pick<PeerRow, 'address' | 'lanFailures' | 'mailFailed' | 'reachedAtMs'>,
  relay: RelayFacts | null | 'unknown',
): 'lan' | 'relay' | 'none' | 'unknown' {
  if (!isOutOfReach(peer) && !failsOverLan(peer)) return peer.reachedAtMs === null ? 'unknown' : 'lan';
  if (relay === 'unknown') return 'unknown';
  return relay?.isTargetEnrolled ? 'relay' : 'none';
}

/** `relay` is the one that would carry it; null when none is configured or may be used. */
export function chooseTransport(
  row: OutboxRow,
  peer: Pick<PeerRow, 'address' | 'lanFailures' | 'unpairedAtMs'>,
  relay: RelayFacts | null,
  now: OutboxClock,
): Transport {
  // Rule 2.
  if (row.nextAtMs === null || row.nextAtMs > now.nowMs || peer.unpairedAtMs !== null) return 'wait';
  const overLan = peer.address === null ? 'wait' : 'lan';
  const isCarried = relay !== null && (row.kind === 'envelope' || relay.carriesReceipts);
  switch (row.state) {
    case 'pending':
    case 'lan-accepted': {
      if (!isCarried || !relay.isTargetEnrolled || !mayPush(row, relay, now)) return overLan;
      // Rules 1 and 3: a peer that answers again has no failures, and its rows none either.
      const isDoubted = row.state === 'lan-accepted' && now.nowMs >= lanDoubtAtMs(row, now);
      const isFar = relay.hasTwoHistories ? peer.address === null : isOutOfReach(peer);
      if (!isDoubted && !isFar && row.lanAttempts < LAN_ATTEMPTS_BEFORE_RELAY) return overLan;
      // Where both fail, they take turns.
      return row.relayAttempts > row.lanAttempts && overLan === 'lan' ? 'lan' : 'relay';
    }
    default:
      return 'wait';
  }
}

/** True when the row may be pushed to a relay that is not known to have it: later its dedup may be gone. */
export function mayPush(
  row: OutboxRow,
  { relayPubkey, retentionMs }: Pick<RelayFacts, 'relayPubkey' | 'retentionMs'>,
  clock: OutboxClock,
): boolean {
  const tried = triedAt(row, relayPubkey);
  return !tried || tried.isRefused === true || elapsedAtMostMs(tried.firstAtMs, clock) < retentionMs;
}

const REFUSED = 'rejected:';

/** The words with which a relay or a host refuses an item itself, and not its sender, its target or their room. */
const REFUSED_FOR_ITSELF: ReadonlySet<string> = new Set(
  [
    'malformed',
    'too many targets',
    'duplicate target',
    'too large',
    'not sealed',
    'id mismatch',
    'conflict',
    // A host that cannot let it in, and has no room to keep it: what it can let in needs none.
    'quarantine full',
  ].map((code) => REFUSED + code),
);

interface SendOrder {
  /** Waiting rows that go with the due ones. */
  sooner: OutboxRow[];
  /** Due rows that wait until then. */
  later: { row: OutboxRow; untilMs: number }[];
}

/** All rows are of one host; those of `waiting` are due at a time to come. */
export function sendOrder(due: readonly OutboxRow[], waiting: readonly OutboxRow[]): SendOrder {
  const refused = waiting.filter((row) => failureOf(row) === 'refused').toSorted(bySending);
  const later: SendOrder['later'] = [];
  let last = 0;
  let passed = 0;
  let untilMs = 0;
  for (const row of due.filter(isToSend).toSorted(bySending)) {
    for (let before = refused[passed]; before && before.rowId < row.rowId; before = refused[++passed]) {
      untilMs = Math.max(untilMs, before.nextAtMs ?? 0);
    }
    if (passed === 0) last = row.rowId;
    else later.push({ row, untilMs });
  }
  return { sooner: waiting.filter((row) => row.rowId < last && failureOf(row) === 'unanswered'), later };
}

/** In the order in which they were sent. */
export function bySending(a: OutboxRow, b: OutboxRow): number {
  return a.rowId - b.rowId;
}

/** Says whether the row is a message that nobody has taken yet: only those have an order. */
export function isToSend({ kind, state }: OutboxRow): boolean {
  return kind === 'envelope' && state === 'pending';
}

/** Says why a row waits, as far as other rows are concerned. */
function failureOf(row: OutboxRow): Failure {
  const { lastError, firstPushAtMs } = row;
  if (!isToSend(row)) return 'of its own';
  // Without an error and pushed: a relay of v1 has it.
  return lastError === null && firstPushAtMs !== null ? 'of its own' : failureIn(lastError);
}

type Failure = 'unanswered' | 'refused' | 'of its own';

/** The same, by what a row keeps of its last failure. */
export function failureIn(lastError: string | null): Failure {
  if (!lastError?.startsWith(REFUSED)) return 'unanswered';
  return REFUSED_FOR_ITSELF.has(lastError) ? 'of its own' : 'refused';
}
