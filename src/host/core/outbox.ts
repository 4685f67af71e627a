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
import type { Epoch } from '../../protocol/epoch.ts';
import { DAY_MS } from '../../protocol/limits.ts';
import { printableWithin } from '../../protocol/printable.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import {
  GIVE_UP_MS,
  LAN_DOUBT_MS,
  firstAcceptance,
  isExpiryInTime,
  keptUntilMs,
  lanDoubtAtMs,
} from './outbox-deadlines.ts';
import type { OutboxAlert, OutboxClock, OutboxEffect, OutboxEvent, OutboxFacts, OutboxStep } from './outbox-event.ts';
import type { Address, OutboxRow, OutboxState, RecipientState, RelayAcceptance } from './rows.ts';

/** How long after its retention a relay's item may still be confirmed. */
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

/** States in which the wire bytes may have to be sent again. */
const SENDING_STATES: ReadonlySet<OutboxState> = new Set(['pending', 'lan-accepted', 'relay-accepted']);

/** Whether its bytes are still to be sent, or may have to be. */
export function isSending({ state }: OutboxRow): boolean {
  return SENDING_STATES.has(state);
}

/** What `event` makes of `row`. Does not change `row`. */
export function stepOutbox(row: OutboxRow, event: OutboxEvent, facts: OutboxFacts): OutboxStep {
  if (row.kind === 'receipt') return stepReceiptRow(row, event, facts);
  const moved = moveEnvelope(row, event, facts);
  const late = moved.row ? meetDeadlines(moved.row, facts) : moved;
  const effects = [...moved.effects, ...late.effects];
  if (isSending(row) && late.row && !isSending(late.row)) {
    effects.push({ type: 'DropWire' });
  }
  return { row: late.row, effects };
}

/** The pause after the `attempts`-th failure in a row: it doubles each time, and jitter takes up to half of it away. */
export function backoffMs(attempts: number, { jitter, retry }: Pick<OutboxFacts, 'jitter' | 'retry'>): number {
  const whole = Math.min(retry.longestMs, retry.firstMs * 2 ** Math.min(attempts - 1, 30));
  return Math.round(whole * (0.5 + jitter / 2));
}

/** As `backoffMs`, from the failure on after which a relay is no other way. */
function lanBackoffMs(attempts: number, facts: OutboxFacts): number {
  const { jitter, retry } = facts;
  if (attempts > LAN_ATTEMPTS_BEFORE_RELAY) return backoffMs(attempts - LAN_ATTEMPTS_BEFORE_RELAY, facts);
  return backoffMs(1, { jitter, retry: { ...retry, firstMs: Math.min(BEFORE_RELAY_MS, retry.firstMs) } });
}

function moveEnvelope(row: OutboxRow, event: OutboxEvent, facts: OutboxFacts): OutboxStep {
  const { nowMs } = facts;
  switch (event.type) {
    case 'lan-accepted':
      if (row.state !== 'pending' && row.state !== 'lan-accepted') return unchanged(row);
      return changed(row, {
        state: 'lan-accepted',
        lanAcceptedAtMs: row.lanAcceptedAtMs ?? nowMs,
        lanAttempts: 0,
        relayAttempts: 0,
        lastError: null,
        nextAtMs: nowMs + askAgainMs(row, facts),
      });
    case 'lan-quarantined': {
      if (row.state !== 'pending' && row.state !== 'lan-accepted') return unchanged(row);
      const mark = { type: 'MarkRecipients', recipients: waitingOf(row), state: 'quarantined' } as const;
      return changed(row, { state: 'quarantined', nextAtMs: nowMs + QUARANTINE_ALERT_MS }, mark);
    }
    case 'relay-accepted':
      if (!event.isVerified) return failedAtRelay(row, 'the accept receipt does not verify', facts);
      return acceptedByRelay(row, event.acceptance, RELAY_GRACE_MS, facts);
    case 'relay-stored':
      // An acceptance by a relay of v2 stands: v1 proves nothing.
      if (!isSending(row)) return unchanged(row);
      // The peer is asked next, where the LAN reaches it.
      if (row.state === 'lan-accepted')
        return changed(row, { relayAttempts: 1, nextAtMs: nowMs + askAgainMs(row, facts) });
      return changed(row, {
        relayAttempts: 0,
        lastError: null,
        nextAtMs: nowMs + ASK_AGAIN_MS,
        ...(row.state === 'pending' && { relayStoredAtMs: nowMs }),
      });
    case 'expired': {
      const { state, acceptance } = row;
      // A notice of before this acceptance comes again when a relay's queue is read anew.
      const isOfIt = event.relayPubkey === acceptance?.relayPubkey && event.expiredAtMs >= acceptance.acceptedAtMs;
      if (state !== 'relay-accepted' || !isOfIt || !isExpiryInTime(row, facts)) return unchanged(row);
      return ended(row, 'expired', 'expired', facts);
    }
    case 'receipt':
      return confirmed(row, event.recipient);
    case 'peer-unpaired':
      if (!isSending(row)) return unchanged(row);
      return ended(row, isWithNobody(row) ? 'undelivered' : 'unconfirmed', 'unpaired', facts);
    case 'cancelled': {
      if (row.state !== 'pending') return unchanged(row);
      const mark = { type: 'MarkRecipients', recipients: waitingOf(row), state: 'cancelled' } as const;
      return changed(row, { state: 'cancelled', nextAtMs: null }, mark);
    }
    case 'relay-refused': {
      const step = moveAny(row, event, facts);
      const isNews = event.code === 'too large' && row.state === 'pending' && row.alertedAtMs === null;
      return isNews && step.row ? alerted(step.row, 'undelivered', 'too-large', facts) : step;
    }
    case 'lan-rejected':
    case 'lan-failed':
    case 'relay-pushing':
    case 'relay-failed':
    case 'peer-reached':
    case 'new-epoch':
    case 'relay-rewound':
    case 'relay-ready':
    case 'clock-jumped':
    case 'rescheduled':
    case 'time-passed':
      return moveAny(row, event, facts);
    default:
      return assertNever(event);
  }
}

/** Events that mean something else for an envelope than for a receipt, or nothing for a receipt. */
type OwnEvent =
  | 'lan-accepted'
  | 'lan-quarantined'
  | 'relay-accepted'
  | 'relay-stored'
  | 'expired'
  | 'receipt'
  | 'peer-unpaired'
  | 'cancelled';

/** What is the same for both kinds. */
function moveAny(row: OutboxRow, event: Exclude<OutboxEvent, { type: OwnEvent }>, facts: OutboxFacts): OutboxStep {
  switch (event.type) {
    case 'lan-rejected':
      return failedOverLan(row, `rejected:${event.code}`, facts, backoffMs);
    case 'lan-failed':
      return failedOverLan(row, event.reason, facts, lanBackoffMs);
    case 'peer-reached':
      if (row.state === 'lan-accepted') return doubtedSoon(row, facts);
      if (row.state !== 'pending') return unchanged(row);
      return changed(row, { lanAttempts: 0, nextAtMs: Math.min(row.nextAtMs ?? facts.nowMs, facts.nowMs) });
    case 'clock-jumped':
      if (row.nextAtMs === null) return unchanged(row);
      return changed(row, { nextAtMs: Math.min(row.nextAtMs + event.byMs, facts.nowMs + longestWaitMs(row)) });
    case 'rescheduled':
      return row.state === 'pending' ? changed(row, { nextAtMs: event.atMs }) : unchanged(row);
    case 'relay-pushing':
      return changed(row, { firstPushAtMs: row.firstPushAtMs ?? facts.nowMs });
    case 'relay-refused':
      return failedAtRelay(row, `rejected:${event.code}`, facts);
    case 'relay-failed':
      return failedAtRelay(row, event.reason, facts);
    case 'new-epoch': {
      const { relayPubkey, epoch } = event;
      if (row.state !== 'relay-accepted' || isAcceptedIn(row, relayPubkey, epoch)) return unchanged(row);
      return changed(row, { relayAttempts: 0, nextAtMs: facts.nowMs });
    }
    case 'relay-rewound': {
      const { acceptance } = row;
      if (row.state !== 'relay-accepted' || acceptance?.relayPubkey !== event.relayPubkey) return unchanged(row);
      return changed(row, { acceptance: { ...acceptance, mayBeLost: true }, relayAttempts: 0, nextAtMs: facts.nowMs });
    }
    case 'relay-ready': {
      const { relayPubkey, epoch } = event;
      if (row.state === 'lan-accepted') return doubtedSoon(row, facts);
      const isToPush = row.state === 'relay-accepted' && !isAcceptedIn(row, relayPubkey, epoch);
      if (row.state !== 'pending' && !isToPush) return unchanged(row);
      return changed(row, { relayAttempts: 0, nextAtMs: Math.min(row.nextAtMs ?? facts.nowMs, facts.nowMs) });
    }
    case 'time-passed':
      if (!isSending(row) || row.nextAtMs === null || row.nextAtMs > facts.nowMs) return unchanged(row);
      return changed(row, { nextAtMs: facts.nowMs + backoffMs(Infinity, facts) });
    default:
      return assertNever(event);
  }
}

/**
 * How long the row may wait after a jump of the clock. It may have been written after the jump, by the new clock; and
 * what is pending is tried at once.
 */
function longestWaitMs({ state }: OutboxRow): number {
  if (state === 'quarantined') return QUARANTINE_ALERT_MS;
  if (state === 'lan-accepted') return ASK_AGAIN_MS;
  return state === 'pending' ? 0 : Infinity;
}

/** Whether the relay took the row in this generation of its store, as far as is known. */
export function isAcceptedIn({ acceptance }: OutboxRow, relayPubkey: PublicKey, epoch: Epoch): boolean {
  return acceptance?.relayPubkey === relayPubkey && acceptance.epoch === epoch && !acceptance.mayBeLost;
}

function failedOverLan(
  row: OutboxRow,
  error: string,
  facts: OutboxFacts,
  pauseMs: (attempts: number, facts: OutboxFacts) => number,
): OutboxStep {
  if (row.state !== 'pending' && row.state !== 'lan-accepted') return unchanged(row);
  const lanAttempts = row.lanAttempts + 1;
  const lastError = printableWithin(error, ERROR_CHARACTERS_MAX);
  return changed(row, { lanAttempts, lastError, nextAtMs: facts.nowMs + pauseMs(lanAttempts, facts) });
}

/** How long to wait for the receipt of a row that the peer accepted over the LAN before the row is sent again. */
function askAgainMs({ lanAcceptedAtMs }: OutboxRow, { nowMs, momentMs }: OutboxClock): number {
  return Math.min(ASK_AGAIN_MS, Math.max(LAN_DOUBT_MS, nowMs - momentMs(lanAcceptedAtMs ?? nowMs)));
}

/** The peer can be reached another way, or at another address: its earlier acceptance is doubted now, or soon. */
function doubtedSoon(row: OutboxRow, now: OutboxClock): OutboxStep {
  const atMs = Math.max(now.nowMs, lanDoubtAtMs(row, now));
  return changed(row, { nextAtMs: Math.min(row.nextAtMs ?? atMs, atMs) });
}

function failedAtRelay(row: OutboxRow, error: string, facts: OutboxFacts): OutboxStep {
  if (!isSending(row)) return unchanged(row);
  const relayAttempts = row.relayAttempts + 1;
  const lastError = printableWithin(error, ERROR_CHARACTERS_MAX);
  return changed(row, { relayAttempts, lastError, nextAtMs: facts.nowMs + backoffMs(relayAttempts, facts) });
}

/** Nothing is due until `graceMs` after the relay's retention. */
function acceptedByRelay(row: OutboxRow, acceptance: RelayAcceptance, graceMs: number, facts: OutboxFacts): OutboxStep {
  if (!isSending(row)) return unchanged(row);
  const { retentionMs } = acceptance;
  const firstAccepted = row.acceptance ? firstAcceptance(row, row.acceptance) : { atMs: facts.nowMs, retentionMs };
  const accepted: OutboxRow = { ...row, state: 'relay-accepted', acceptance, firstAccepted };
  const nextAtMs = keptUntilMs(accepted, acceptance, facts) + graceMs;
  return changed(accepted, { relayAttempts: 0, lastError: null, nextAtMs });
}

function confirmed(row: OutboxRow, recipient: Address): OutboxStep {
  if (!row.recipients.includes(recipient) || row.confirmed.includes(recipient)) return unchanged(row);
  const next = { ...row, confirmed: [...row.confirmed, recipient] };
  if (waitingOf(next).length > 0) return { row: next, effects: [] };
  const hasBeenGivenUp = row.alertedAtMs !== null || row.state === 'cancelled';
  const alert = { type: 'Alert', alert: 'delivered-after-all', recipients: row.recipients } as const;
  return changed(next, { state: 'done', lastError: null, nextAtMs: null }, ...(hasBeenGivenUp ? [alert] : []));
}

/** Applies the deadlines of the row's state, after every event. */
function meetDeadlines(row: OutboxRow, facts: OutboxFacts): OutboxStep {
  const { nowMs, momentMs, hasPeerConfirmed } = facts;
  const createdAtMs = momentMs(row.createdAtMs);
  const unconfirmed = hasPeerConfirmed ? 'unconfirmed' : 'never-confirmed';
  switch (row.state) {
    case 'pending': {
      const alertAtMs = createdAtMs + UNDELIVERED_ALERT_MS;
      const isGivenUp = nowMs >= createdAtMs + GIVE_UP_MS;
      if (isGivenUp && isWithNobody(row)) return ended(row, 'undelivered', 'given-up', facts);
      if (isGivenUp) return ended(row, 'unconfirmed', unconfirmed, facts);
      if (row.alertedAtMs !== null) return unchanged(row);
      if (nowMs >= alertAtMs && isWithNobody(row)) return alerted(row, 'undelivered', 'undelivered', facts);
      if (nowMs >= alertAtMs) return alerted(row, 'unconfirmed', 'stored-in-v1', facts);
      return changed(row, { nextAtMs: Math.min(row.nextAtMs ?? alertAtMs, alertAtMs) });
    }
    case 'lan-accepted': {
      const atMs = momentMs(row.lanAcceptedAtMs ?? row.createdAtMs) + LAN_CONFIRM_MS;
      if (nowMs >= atMs) return ended(row, 'unconfirmed', unconfirmed, facts);
      return changed(row, { nextAtMs: Math.min(row.nextAtMs ?? atMs, atMs) });
    }
    case 'relay-accepted': {
      const atMs = row.acceptance ? keptUntilMs(row, row.acceptance, facts) + RELAY_GRACE_MS : createdAtMs + GIVE_UP_MS;
      if (nowMs >= atMs) return ended(row, 'unconfirmed', unconfirmed, facts);
      return changed(row, { nextAtMs: Math.min(row.nextAtMs ?? atMs, atMs) });
    }
    case 'quarantined':
      if (row.nextAtMs === null || nowMs < row.nextAtMs) return unchanged(row);
      return ended(row, 'quarantined', 'quarantined', facts);
    case 'done':
    case 'expired':
    case 'unconfirmed':
    case 'undelivered':
    case 'cancelled':
      return unchanged(row);
    default:
      return assertNever(row.state);
  }
}

/** Whether nobody is known to have taken it: not the peer, and no relay. */
function isWithNobody({ state, relayStoredAtMs }: OutboxRow): boolean {
  return state === 'pending' && relayStoredAtMs === undefined;
}

/** In `state` nothing more is tried, and the sender knows. */
function ended(
  row: OutboxRow,
  state: 'expired' | 'unconfirmed' | 'undelivered' | 'quarantined',
  alert: OutboxAlert,
  facts: OutboxFacts,
): OutboxStep {
  const told = alerted(row, state === 'expired' ? 'undelivered' : state, alert, facts);
  return { row: { ...row, state, nextAtMs: null, alertedAtMs: facts.nowMs }, effects: told.effects };
}

function alerted(row: OutboxRow, state: RecipientState, alert: OutboxAlert, { nowMs }: OutboxFacts): OutboxStep {
  const recipients = waitingOf(row);
  return changed(
    row,
    { alertedAtMs: nowMs },
    { type: 'MarkRecipients', recipients, state },
    { type: 'Alert', alert, recipients },
  );
}

/** The row of a delivery receipt: once somebody has it there is nothing to wait for. */
function stepReceiptRow(row: OutboxRow, event: OutboxEvent, facts: OutboxFacts): OutboxStep {
  const moved = moveReceipt(row, event, facts);
  if (!moved) return DROPPED;
  const { acceptance, createdAtMs } = moved;
  const endsAtMs = acceptance ? keptUntilMs(moved, acceptance, facts) : facts.momentMs(createdAtMs) + GIVE_UP_MS;
  if (facts.nowMs >= endsAtMs) return DROPPED;
  return changed(moved, { nextAtMs: Math.min(moved.nextAtMs ?? endsAtMs, endsAtMs) });
}

function moveReceipt(row: OutboxRow, event: OutboxEvent, facts: OutboxFacts): OutboxRow | null {
  switch (event.type) {
    case 'lan-accepted':
    case 'lan-quarantined':
    case 'peer-unpaired':
      return null;
    case 'relay-accepted': {
      const { acceptance, isVerified } = event;
      if (!isVerified) return failedAtRelay(row, 'the accept receipt does not verify', facts).row;
      return acceptedByRelay(row, acceptance, 0, facts).row;
    }
    case 'lan-rejected':
    case 'lan-failed':
    case 'relay-pushing':
    case 'relay-refused':
    case 'relay-failed':
    case 'peer-reached':
    case 'new-epoch':
    case 'relay-rewound':
    case 'relay-ready':
    case 'clock-jumped':
    case 'rescheduled':
    case 'time-passed':
      return moveAny(row, event, facts).row;
    // A relay of v1 carries no receipts, and nobody confirms or cancels one.
    case 'relay-stored':
    case 'expired':
    case 'receipt':
    case 'cancelled':
      return row;
    default:
      return assertNever(event);
  }
}

const DROPPED: OutboxStep = { row: null, effects: [{ type: 'DropWire' }] };

/** The recipients that no receipt came for. */
function waitingOf({ recipients, confirmed }: OutboxRow): Address[] {
  return recipients.filter((recipient) => !confirmed.includes(recipient));
}

function changed(row: OutboxRow, changes: Partial<OutboxRow>, ...effects: OutboxEffect[]): OutboxStep {
  return { row: { ...row, ...changes }, effects };
}

function unchanged(row: OutboxRow): OutboxStep {
  return { row, effects: [] };
}
