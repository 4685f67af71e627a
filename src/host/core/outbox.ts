/**
 * The states of an outbox row: the transition for one event, and its side effects.
 *
 * Specification, "Sender outbox row (relay path)" and "Limits". It leaves the path over the LAN open: decided here.
 * Pure: the time and the random jitter are facts, and signatures were verified before. Deadlines stand on this host's
 * clock and count the time that passed; a relay's word moves none. Invariants:
 *   - the row of an envelope ends done or cancelled, or its sender has been alerted: none is lost in silence;
 *   - a delivery receipt of every recipient makes it done from any state, and corrects an earlier alert;
 *   - `nextAtMs` is null exactly when nothing is to be done any more, and wire bytes are kept exactly as long as they
 *     may have to be sent again;
 *   - the row of a receipt is dropped in the end and never alerts anybody.
 */
import { assertNever } from '../../lib/assert-never.ts';
import { DAY_MS } from '../../protocol/limits.ts';
import { printableWithin } from '../../protocol/printable.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { OutboxAlert, OutboxClock, OutboxEffect, OutboxEvent, OutboxFacts, OutboxStep } from './outbox-event.ts';
import {
  firstAcceptance,
  GIVE_UP_MS,
  isExpiryInTime,
  keptUntilMs,
  LAN_DOUBT_MS,
  lanDoubtAtMs,
} from './outbox-times.ts';
import type { RelayAcceptance } from './relay-acceptance.ts';
import { copyAt, isAcceptedIn } from './relay-copies.ts';
import type { Address, OutboxRow, OutboxState, RecipientState } from './rows.ts';

/** The time after its retention in which a relay's item may still be confirmed. */
export const RELAY_GRACE_MS = DAY_MS;
/** A row that is not delivered by then alerts its sender, once, and goes on. */
export const UNDELIVERED_ALERT_MS = 3 * DAY_MS;
/** The longest pause between two such repeats: at first it is `LAN_DOUBT_MS`, then as long as the row has waited. */
export const ASK_AGAIN_MS = DAY_MS;
/** After so long without a receipt the sender is told. */
export const LAN_CONFIRM_MS = 3 * DAY_MS;
/** The sender is told of a quarantine after this: receipts of recipients that did get the message may still come. */
export const QUARANTINE_ALERT_MS = 60_000;
/** Failed attempts over the LAN, of a row or of a peer, before the relay is asked. */
export const LAN_ATTEMPTS_BEFORE_RELAY = 2;
/** The longest pause after each of these: the sender of a message to a host that left the LAN waits for little more. */
const BEFORE_RELAY_MS = 100;
/** The longest error text that a row keeps. */
const ERROR_CHARACTERS_MAX = 500;

/** The step of a row that stays. */
interface MovedRow extends OutboxStep {
  row: OutboxRow;
}

/** States in which the wire bytes may have to be sent again. */
const SENDING_STATES: ReadonlySet<OutboxState> = new Set(['pending', 'lan-accepted', 'relay-accepted']);

/** True while its bytes are still to be sent, or may have to be. */
export function isSending({ state }: OutboxRow): boolean {
  return SENDING_STATES.has(state);
}

/** Returns the row after `event`, and its side effects. Does not change `row`. */
export function stepOutbox(row: OutboxRow, event: OutboxEvent, facts: OutboxFacts): OutboxStep {
  if (row.kind === 'receipt') return stepReceiptRow(row, event, facts);
  const moved = move(row, event, facts);
  const late = meetDeadlines(moved.row, facts);
  const effects = [...moved.effects, ...late.effects];
  if (isSending(row) && !isSending(late.row)) effects.push({ type: 'DropWire' });
  return { row: late.row, effects };
}

/** The pause after the `attempts`-th failure in a row: it doubles each time, and jitter takes up to half of it away. */
export function backoffMs(attempts: number, { jitter, retry }: Pick<OutboxFacts, 'jitter' | 'retry'>): number {
  const whole = Math.min(retry.longestMs, retry.firstMs * 2 ** Math.min(attempts - 1, 30));
  return Math.round(whole * (0.5 + jitter / 2));
}

/** The pause of `backoffMs`, from the failure on after which a relay is no other way. */
function lanBackoffMs(attempts: number, facts: OutboxFacts): number {
  const { jitter, retry } = facts;
  if (attempts > LAN_ATTEMPTS_BEFORE_RELAY) return backoffMs(attempts - LAN_ATTEMPTS_BEFORE_RELAY, facts);
  return backoffMs(1, { jitter, retry: { ...retry, firstMs: Math.min(BEFORE_RELAY_MS, retry.firstMs) } });
}

/** The row after `event`, before its deadlines are applied. */
function move(row: OutboxRow, event: OutboxEvent, facts: OutboxFacts): MovedRow {
  const { nowMs } = facts;
  switch (event.type) {
    case 'lan-accepted':
      if (!mayBeSentOverLan(row)) return keepRow(row);
      return changeRow(row, {
        state: 'lan-accepted',
        lanAcceptedAtMs: row.lanAcceptedAtMs ?? nowMs,
        lanAttempts: 0,
        relayAttempts: 0,
        lastError: null,
        nextAtMs: nowMs + askAgainMs(row, facts),
      });
    case 'lan-quarantined': {
      if (!mayBeSentOverLan(row)) return keepRow(row);
      const mark = { type: 'MarkRecipients', recipients: waitingOf(row), state: 'quarantined' } as const;
      return changeRow(row, { state: 'quarantined', nextAtMs: nowMs + QUARANTINE_ALERT_MS }, mark);
    }
    case 'lan-rejected':
      return failedOverLan(row, `rejected:${event.code}`, facts, backoffMs);
    case 'lan-failed':
      return failedOverLan(row, event.reason, facts, lanBackoffMs);
    case 'receipt':
      return confirmRow(confirmedOver(row, event.relayPubkey, nowMs), event.recipient);
    case 'peer-reached':
      if (row.state === 'lan-accepted') return doubtedSoon(row, facts);
      if (row.state !== 'pending') return keepRow(row);
      return changeRow(row, { lanAttempts: 0, nextAtMs: soonest(row, nowMs) });
    case 'peer-unpaired':
      if (!isSending(row)) return keepRow(row);
      return endRow(row, isWithNobody(row) ? 'undelivered' : 'unconfirmed', 'unpaired', facts);
    case 'clock-jumped':
      if (row.nextAtMs === null) return keepRow(row);
      return changeRow(row, { nextAtMs: Math.min(row.nextAtMs + event.byMs, nowMs + longestWaitMs(row)) });
    case 'rescheduled':
      return row.state === 'pending' ? changeRow(row, { nextAtMs: event.atMs }) : keepRow(row);
    case 'cancelled': {
      if (row.state !== 'pending') return keepRow(row);
      const mark = { type: 'MarkRecipients', recipients: waitingOf(row), state: 'cancelled' } as const;
      return changeRow(row, { state: 'cancelled', nextAtMs: null }, mark);
    }
    case 'time-passed':
      if (!isSending(row) || row.nextAtMs === null || row.nextAtMs > nowMs) return keepRow(row);
      return changeRow(row, { nextAtMs: nowMs + backoffMs(Infinity, facts) });
    default:
      return moveAtRelay(row, event, facts);
  }
}

type RelayEvent = Extract<OutboxEvent, { type: `relay-${string}` | 'expired' | 'new-epoch' }>;

function moveAtRelay(row: OutboxRow, event: RelayEvent, facts: OutboxFacts): MovedRow {
  const { nowMs } = facts;
  switch (event.type) {
    case 'relay-pushing':
      return changeRow(row, { firstPushAtMs: row.firstPushAtMs ?? nowMs });
    case 'relay-accepted':
      if (!event.isVerified) return failedAtRelay(row, 'the accept receipt does not verify', facts);
      return acceptedByRelay(row, event.acceptance, facts);
    case 'relay-stored':
      // An acceptance by a relay of v2 stands: v1 proves nothing.
      if (!isSending(row)) return keepRow(row);
      // The peer is asked next, where the LAN reaches it.
      if (row.state === 'lan-accepted')
        return changeRow(row, { relayAttempts: 1, nextAtMs: nowMs + askAgainMs(row, facts) });
      return changeRow(row, {
        relayAttempts: 0,
        lastError: null,
        nextAtMs: nowMs + ASK_AGAIN_MS,
        ...(row.state === 'pending' && { relayStoredAtMs: nowMs }),
      });
    case 'relay-refused': {
      const step = failedAtRelay(row, `rejected:${event.code}`, facts);
      const isToTell = row.kind === 'envelope' && row.state === 'pending' && row.alertedAtMs === null;
      return isToTell && event.code === 'too large' ? alertRow(step.row, 'undelivered', 'too-large', facts) : step;
    }
    case 'relay-failed':
      return failedAtRelay(row, event.reason, facts);
    case 'expired': {
      const { state, acceptance } = row;
      // A notice of before this acceptance comes again when a relay's queue is read anew.
      const isOfIt = event.relayPubkey === acceptance?.relayPubkey && event.expiredAtMs >= acceptance.acceptedAtMs;
      if (state !== 'relay-accepted' || !isOfIt || !isExpiryInTime(row, facts)) return keepRow(row);
      return endRow(row, 'expired', 'expired', facts);
    }
    case 'new-epoch': {
      const { relayPubkey, epoch } = event;
      if (row.state !== 'relay-accepted' || isAcceptedIn(row, relayPubkey, epoch)) return keepRow(row);
      return changeRow(row, { relayAttempts: 0, nextAtMs: nowMs });
    }
    case 'relay-rewound': {
      const { acceptance } = row;
      if (row.state !== 'relay-accepted' || acceptance?.relayPubkey !== event.relayPubkey) return keepRow(row);
      return changeRow(row, { acceptance: { ...acceptance, mayBeLost: true }, relayAttempts: 0, nextAtMs: nowMs });
    }
    case 'relay-proven':
    case 'relay-denied': {
      const { acceptance, denied: _denied, ...others } = row;
      const { relayPubkey, epoch } = event;
      if (row.state !== 'relay-accepted' || !acceptance || !isAcceptedIn(row, relayPubkey, epoch)) return keepRow(row);
      if (event.type === 'relay-proven') return { row: { ...others, acceptance, proven: event.proven }, effects: [] };
      const { denied } = event;
      return changeRow(row, {
        acceptance: { ...acceptance, mayBeLost: true },
        denied,
        relayAttempts: 0,
        nextAtMs: nowMs,
      });
    }
    case 'relay-ready': {
      const { relayPubkey, epoch } = event;
      if (row.state === 'lan-accepted') return doubtedSoon(row, facts);
      const isToPush = row.state === 'relay-accepted' && !isAcceptedIn(row, relayPubkey, epoch);
      if (row.state !== 'pending' && !isToPush) return keepRow(row);
      return changeRow(row, { relayAttempts: 0, nextAtMs: soonest(row, nowMs) });
    }
    case 'relay-brought': {
      const { kind, broughtBy = [] } = row;
      if (kind !== 'receipt' || broughtBy.includes(event.relayPubkey)) return keepRow(row);
      const nextAtMs = copyAt(row, event.relayPubkey) ? row.nextAtMs : soonest(row, nowMs);
      return changeRow(row, { broughtBy: [...broughtBy, event.relayPubkey], nextAtMs });
    }
    case 'relay-removed':
      return keepRow(row);
    default:
      return assertNever(event);
  }
}

/** True while the peer's answer over the LAN moves the row. */
function mayBeSentOverLan({ state }: OutboxRow): boolean {
  return state === 'pending' || state === 'lan-accepted';
}

/** The time of the next step, when one is due at `atMs` besides. */
function soonest({ nextAtMs }: OutboxRow, atMs: number): number {
  return Math.min(nextAtMs ?? atMs, atMs);
}

/**
 * The longest wait of the row after a jump of the clock. It may have been written after the jump, by the new clock; and
 * what is pending is tried at once.
 */
function longestWaitMs({ state }: OutboxRow): number {
  if (state === 'quarantined') return QUARANTINE_ALERT_MS;
  if (state === 'lan-accepted') return ASK_AGAIN_MS;
  return state === 'pending' ? 0 : Infinity;
}

function failedOverLan(row: OutboxRow, error: string, facts: OutboxFacts, pauseMs: typeof lanBackoffMs): MovedRow {
  if (!mayBeSentOverLan(row)) return keepRow(row);
  const lanAttempts = row.lanAttempts + 1;
  const lastError = printableWithin(error, ERROR_CHARACTERS_MAX);
  return changeRow(row, { lanAttempts, lastError, nextAtMs: facts.nowMs + pauseMs(lanAttempts, facts) });
}

/** The wait for the receipt of a row that the peer accepted over the LAN, before the row is sent again. */
function askAgainMs({ lanAcceptedAtMs }: OutboxRow, { nowMs, momentMs }: OutboxClock): number {
  return Math.min(ASK_AGAIN_MS, Math.max(LAN_DOUBT_MS, nowMs - momentMs(lanAcceptedAtMs ?? nowMs)));
}

/** The peer can be reached another way, or at another address: its earlier acceptance is doubted now, or soon. */
function doubtedSoon(row: OutboxRow, now: OutboxClock): MovedRow {
  const atMs = Math.max(now.nowMs, lanDoubtAtMs(row, now));
  return changeRow(row, { nextAtMs: soonest(row, atMs) });
}

function failedAtRelay(row: OutboxRow, error: string, facts: OutboxFacts): MovedRow {
  if (!isSending(row)) return keepRow(row);
  const relayAttempts = row.relayAttempts + 1;
  const lastError = printableWithin(error, ERROR_CHARACTERS_MAX);
  return changeRow(row, { relayAttempts, lastError, nextAtMs: facts.nowMs + backoffMs(relayAttempts, facts) });
}

/** Nothing is due until the relay's retention is over, and for a message that may still be confirmed its grace. */
function acceptedByRelay(row: OutboxRow, acceptance: RelayAcceptance, facts: OutboxFacts): MovedRow {
  if (!isSending(row)) return keepRow(row);
  const { retentionMs } = acceptance;
  const firstAccepted = row.acceptance ? firstAcceptance(row, row.acceptance) : { atMs: facts.nowMs, retentionMs };
  // What was proven of another acceptance says nothing of this one.
  const { proven: _proven, ...others } = row;
  const accepted: OutboxRow = { ...others, state: 'relay-accepted', acceptance, firstAccepted };
  const nextAtMs = keptUntilMs(accepted, acceptance, facts) + (row.kind === 'receipt' ? 0 : RELAY_GRACE_MS);
  return changeRow(accepted, { relayAttempts: 0, lastError: null, nextAtMs });
}

/** The row with a relay that brought a receipt for it, where there are several. */
function confirmedOver(row: OutboxRow, relayPubkey: PublicKey | undefined, atMs: number): OutboxRow {
  const { copies, confirmedOver: known = [] } = row;
  if (!copies || relayPubkey === undefined || known.some((one) => one.relayPubkey === relayPubkey)) return row;
  return { ...row, confirmedOver: [...known, { relayPubkey, atMs }] };
}

function confirmRow(row: OutboxRow, recipient: Address): MovedRow {
  if (!row.recipients.includes(recipient) || row.confirmed.includes(recipient)) return keepRow(row);
  const next = { ...row, confirmed: [...row.confirmed, recipient] };
  if (waitingOf(next).length > 0) return { row: next, effects: [] };
  const hasBeenGivenUp = row.alertedAtMs !== null || row.state === 'cancelled';
  const alert = { type: 'Alert', alert: 'delivered-after-all', recipients: row.recipients } as const;
  return changeRow(next, { state: 'done', lastError: null, nextAtMs: null }, ...(hasBeenGivenUp ? [alert] : []));
}

/** Applies the deadlines of the row's state, after every event. */
function meetDeadlines(row: OutboxRow, facts: OutboxFacts): MovedRow {
  const { nowMs, momentMs, hasPeerConfirmed } = facts;
  const createdAtMs = momentMs(row.createdAtMs);
  const unconfirmed = hasPeerConfirmed ? 'unconfirmed' : 'never-confirmed';
  switch (row.state) {
    case 'pending': {
      const alertAtMs = createdAtMs + UNDELIVERED_ALERT_MS;
      const isGivenUp = nowMs >= createdAtMs + GIVE_UP_MS;
      if (isGivenUp && isWithNobody(row)) return endRow(row, 'undelivered', 'given-up', facts);
      if (isGivenUp) return endRow(row, 'unconfirmed', unconfirmed, facts);
      if (row.alertedAtMs !== null) return keepRow(row);
      if (nowMs >= alertAtMs && isWithNobody(row)) return alertRow(row, 'undelivered', 'undelivered', facts);
      if (nowMs >= alertAtMs) return alertRow(row, 'unconfirmed', 'stored-in-v1', facts);
      return changeRow(row, { nextAtMs: soonest(row, alertAtMs) });
    }
    case 'lan-accepted': {
      const atMs = momentMs(row.lanAcceptedAtMs ?? row.createdAtMs) + LAN_CONFIRM_MS;
      if (nowMs >= atMs) return endRow(row, 'unconfirmed', unconfirmed, facts);
      return changeRow(row, { nextAtMs: soonest(row, atMs) });
    }
    case 'relay-accepted': {
      const atMs = row.acceptance ? keptUntilMs(row, row.acceptance, facts) + RELAY_GRACE_MS : createdAtMs + GIVE_UP_MS;
      if (nowMs >= atMs) return endRow(row, 'unconfirmed', unconfirmed, facts);
      return changeRow(row, { nextAtMs: soonest(row, atMs) });
    }
    case 'quarantined':
      if (row.nextAtMs === null || nowMs < row.nextAtMs) return keepRow(row);
      return endRow(row, 'quarantined', 'quarantined', facts);
    case 'done':
    case 'expired':
    case 'unconfirmed':
    case 'undelivered':
    case 'cancelled':
      return keepRow(row);
    default:
      return assertNever(row.state);
  }
}

/** True when nobody is known to have taken it: not the peer, and no relay. */
function isWithNobody({ state, relayStoredAtMs }: OutboxRow): boolean {
  return state === 'pending' && relayStoredAtMs === undefined;
}

/** In `state` nothing more is tried, and the sender knows. */
function endRow(
  row: OutboxRow,
  state: 'expired' | 'unconfirmed' | 'undelivered' | 'quarantined',
  alert: OutboxAlert,
  facts: OutboxFacts,
): MovedRow {
  const told = alertRow(row, state === 'expired' ? 'undelivered' : state, alert, facts);
  return { row: { ...row, state, nextAtMs: null, alertedAtMs: facts.nowMs }, effects: told.effects };
}

function alertRow(row: OutboxRow, state: RecipientState, alert: OutboxAlert, { nowMs }: OutboxFacts): MovedRow {
  const recipients = waitingOf(row);
  return changeRow(
    row,
    { alertedAtMs: nowMs },
    { type: 'MarkRecipients', recipients, state },
    { type: 'Alert', alert, recipients },
  );
}

/** The row of a delivery receipt: once somebody has it there is nothing to wait for. */
function stepReceiptRow(row: OutboxRow, event: OutboxEvent, facts: OutboxFacts): OutboxStep {
  switch (event.type) {
    case 'lan-accepted':
    case 'lan-quarantined':
    case 'peer-unpaired':
      return DROPPED;
    // A relay of v1 carries no receipts, and nobody confirms or cancels one.
    case 'relay-stored':
    case 'expired':
    case 'receipt':
    case 'cancelled':
      return endingReceipt(row, facts);
    default:
      return endingReceipt(move(row, event, facts).row, facts);
  }
}

function endingReceipt(row: OutboxRow, facts: OutboxFacts): OutboxStep {
  const { acceptance, createdAtMs } = row;
  const endsAtMs = acceptance ? keptUntilMs(row, acceptance, facts) : facts.momentMs(createdAtMs) + GIVE_UP_MS;
  return facts.nowMs >= endsAtMs ? DROPPED : changeRow(row, { nextAtMs: soonest(row, endsAtMs) });
}

const DROPPED: OutboxStep = { row: null, effects: [{ type: 'DropWire' }] };

/** The recipients that no receipt came for. */
function waitingOf({ recipients, confirmed }: OutboxRow): Address[] {
  return recipients.filter((recipient) => !confirmed.includes(recipient));
}

function changeRow(row: OutboxRow, changes: Partial<OutboxRow>, ...effects: OutboxEffect[]): MovedRow {
  return { row: { ...row, ...changes }, effects };
}

function keepRow(row: OutboxRow): MovedRow {
  return { row, effects: [] };
}
