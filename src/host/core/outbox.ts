/**
 * The states of an outbox row: the transition for one event, and its side effects.
 *
 * Specification, "Sender outbox row (relay path)" and "Limits". It leaves the path over the LAN open: decided here.
 * What happens at relays, one or several, is in outbox-at-relays.ts.
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
import type { PublicKey } from '../../protocol/public-key.ts';
import { moveAtRelay, nextTryMs, withoutPauses } from './outbox-at-relays.ts';
import type { OutboxEvent, OutboxFacts, OutboxStep } from './outbox-event.ts';
import {
  alertRow,
  backoffMs,
  changeRow,
  doubtedSoon,
  endRow,
  isSending,
  keepRow,
  keptError,
  type MovedRow,
  soonest,
  waitingOf,
  ASK_AGAIN_MS,
  askAgainMs,
  GIVE_UP_MS,
  keptUntilMs,
  liveCopies,
} from './outbox-row.ts';
import type { Address, OutboxRow } from './rows.ts';

/** The time after its retention in which a relay's item may still be confirmed. */
export const RELAY_GRACE_MS = DAY_MS;
/** A row that is not delivered by then alerts its sender, once, and goes on. */
export const UNDELIVERED_ALERT_MS = 3 * DAY_MS;
/** After so long without a receipt the sender is told. */
export const LAN_CONFIRM_MS = 3 * DAY_MS;
/** The sender is told of a quarantine after this: receipts of recipients that did get the message may still come. */
export const QUARANTINE_ALERT_MS = 60_000;
/** Failed attempts over the LAN, of a row or of a peer, before the relay is asked. */
export const LAN_ATTEMPTS_BEFORE_RELAY = 2;
/** The longest pause after each of these: the sender of a message to a host that left the LAN waits for little more. */
const BEFORE_RELAY_MS = 100;

/** Returns the row after `event`, and its side effects. Does not change `row`. */
export function stepOutbox(row: OutboxRow, event: OutboxEvent, facts: OutboxFacts): OutboxStep {
  if (row.kind === 'receipt') return stepReceiptRow(row, event, facts);
  const moved = move(row, event, facts);
  const late = meetDeadlines(moved.row, facts);
  const effects = [...moved.effects, ...late.effects];
  if (isSending(row) && !isSending(late.row)) effects.push({ type: 'DropWire' });
  return { row: late.row, effects };
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
      return changeRow(withoutPauses(row), {
        nextAtMs: Math.min(row.nextAtMs + event.byMs, nowMs + longestWaitMs(row)),
      });
    case 'rescheduled':
      return row.state === 'pending' ? changeRow(row, { nextAtMs: event.atMs }) : keepRow(row);
    case 'cancelled': {
      if (row.state !== 'pending') return keepRow(row);
      const mark = { type: 'MarkRecipients', recipients: waitingOf(row), state: 'cancelled' } as const;
      return changeRow(row, { state: 'cancelled', nextAtMs: null }, mark);
    }
    case 'time-passed':
      if (!isSending(row) || row.nextAtMs === null || row.nextAtMs > nowMs) return keepRow(row);
      // What one of several relays has waits for its deadline, and is looked at when the way of its peer changes.
      if (row.tried && liveCopies(row).length > 0) return changeRow(row, { nextAtMs: null });
      return changeRow(row, {
        nextAtMs: Math.min(nowMs + backoffMs(Infinity, facts), nextTryMs(row, nowMs) ?? Infinity),
      });
    default:
      return moveAtRelay(row, event, facts);
  }
}

/** True while the peer's answer over the LAN moves the row. */
function mayBeSentOverLan({ state }: OutboxRow): boolean {
  return state === 'pending' || state === 'lan-accepted';
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
  const lastError = keptError(error);
  return changeRow(row, { lanAttempts, lastError, nextAtMs: facts.nowMs + pauseMs(lanAttempts, facts) });
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
      const atMs = keptUntilMs(row, RELAY_GRACE_MS, facts) ?? createdAtMs + GIVE_UP_MS;
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
  const endsAtMs = keptUntilMs(row, 0, facts) ?? facts.momentMs(row.createdAtMs) + GIVE_UP_MS;
  return facts.nowMs >= endsAtMs ? DROPPED : changeRow(row, { nextAtMs: soonest(row, endsAtMs) });
}

const DROPPED: OutboxStep = { row: null, effects: [{ type: 'DropWire' }] };
