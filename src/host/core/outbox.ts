/**
 * The states of an outbox row: what one happening makes of it, and what is to be done besides.
 *
 * Specification, "Sender outbox row" and "Limits"; the path over the LAN, which it leaves open, is decided here.
 * Pure: time and the dice come as facts, signatures as verdicts. Invariants:
 *   - the row of an envelope ends done or cancelled, or its sender has been alerted: none is lost in silence;
 *   - a delivery receipt of every recipient makes it done from any state, and corrects an earlier alert;
 *   - `nextAtMs` is null exactly when nothing is to be done any more, and wire bytes are kept exactly as long as they
 *     may have to be sent again;
 *   - the row of a receipt is dropped in the end and never alerts anybody.
 */
import type { DeliveryState } from '../../protocol/documents.ts';
import type { Epoch } from '../../protocol/epoch.ts';
import { DAY_MS } from '../../protocol/limits.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { Address, OutboxRow, OutboxState, RecipientState, RelayAcceptance } from './rows.ts';

/** A row that is not delivered by then alerts its sender, once, and goes on. */
export const UNDELIVERED_ALERT_MS = 3 * DAY_MS;
/** A receiver keeps retired keys so long: what was sealed before may open for nobody, so it is not sent any more. */
export const GIVE_UP_MS = 60 * DAY_MS;
/** How long after its retention a relay's item may still be confirmed. */
export const RELAY_GRACE_MS = DAY_MS;
/** What a peer took over the LAN and never confirmed is shown to it again, which makes it confirm again. */
export const ASK_AGAIN_MS = DAY_MS;
/** After so long without a receipt the sender is told. */
export const LAN_CONFIRM_MS = 3 * DAY_MS;
/** Receipts of those who did get a message that is quarantined for others are waited for before anybody is told. */
export const QUARANTINE_ALERT_MS = 60_000;
export const BACKOFF_FIRST_MS = 5_000;
export const BACKOFF_MAX_MS = 900_000;

export type OutboxHappening =
  /** The peer answered `accepted` or `duplicate`, after its commit. */
  | { type: 'lan-accepted' }
  | { type: 'lan-quarantined' }
  /** The peer answered, and did not take it. `code` is what follows `rejected:`. */
  | { type: 'lan-rejected'; code: string }
  /** No answer. */
  | { type: 'lan-failed'; reason: string }
  /** The bytes are about to leave for the relay; durable before they do. */
  | { type: 'relay-pushing' }
  /** Whether the receipt verifies: key, item, target and hash. */
  | { type: 'relay-accepted'; acceptance: RelayAcceptance; isVerified: boolean }
  /** A relay that speaks only v1 has it, and gives no receipt. */
  | { type: 'relay-stored' }
  /** A rejected or missing result. */
  | { type: 'relay-refused'; code: string }
  | { type: 'relay-failed'; reason: string }
  /** A notice that verifies. */
  | { type: 'expired'; relayPubkey: PublicKey; expiredAtMs: number }
  /** A delivery receipt that verifies. */
  | { type: 'receipt'; recipient: Address; state: DeliveryState }
  /** The relay's store began anew. */
  | { type: 'new-epoch'; relayPubkey: PublicKey; epoch: Epoch }
  /** It went back in time, without a new epoch: what it took may be gone. */
  | { type: 'relay-rewound'; relayPubkey: PublicKey }
  /** The relay takes mail for this peer, and did not before. */
  | { type: 'relay-ready'; relayPubkey: PublicKey; epoch: Epoch }
  /** The peer answers over the LAN again. */
  | { type: 'peer-reached' }
  | { type: 'peer-unpaired' }
  | { type: 'cancelled' }
  /** It is due and there is no way to send it now, or only time passed. */
  | { type: 'time-passed' };

export interface OutboxFacts {
  nowMs: number;
  /** From 0 to below 1, thrown for this step: spreads attempts. */
  jitter: number;
  /** Whether the peer ever confirmed anything. */
  hasPeerConfirmed: boolean;
}

export const OUTBOX_ALERTS = [
  'undelivered', // 72 hours, still tried
  'given-up',
  'unpaired',
  'quarantined',
  'too-large', // for the relay; over the LAN it is still tried
  'expired',
  'unconfirmed',
  'never-confirmed', // unconfirmed, by a peer that never confirmed anything
  'delivered-after-all', // corrects whatever was said before
] as const;
export type OutboxAlert = (typeof OUTBOX_ALERTS)[number];

export type OutboxEffect =
  /** The local sender is told; `recipients` are those it is about. */
  | { type: 'Alert'; alert: OutboxAlert; recipients: Address[] }
  | { type: 'MarkRecipients'; recipients: Address[]; state: RecipientState }
  | { type: 'DropWire' };

export interface OutboxStep {
  /** Null when the row is dropped. */
  row: OutboxRow | null;
  effects: OutboxEffect[];
}

/** States in which the wire bytes may have to be sent again. */
const SENDING_STATES: ReadonlySet<OutboxState> = new Set(['pending', 'lan-accepted', 'relay-accepted']);

/** What `happening` makes of `row`. Does not change `row`. */
export function stepOutbox(row: OutboxRow, happening: OutboxHappening, facts: OutboxFacts): OutboxStep {
  if (row.kind === 'receipt') return stepReceiptRow(row, happening, facts);
  const moved = moveEnvelope(row, happening, facts);
  const late = moved.row ? meetDeadlines(moved.row, facts) : moved;
  const effects = [...moved.effects, ...late.effects];
  if (SENDING_STATES.has(row.state) && late.row && !SENDING_STATES.has(late.row.state)) {
    effects.push({ type: 'DropWire' });
  }
  return { row: late.row, effects };
}

/** Whether a row may be pushed to a relay that keeps items for `retentionMs`: later its dedup may be gone. */
export function mayPush(row: OutboxRow, nowMs: number, retentionMs: number): boolean {
  if (row.state === 'relay-accepted') return true;
  return row.state === 'pending' && (row.firstPushAtMs === null || nowMs < row.firstPushAtMs + retentionMs);
}

/** How long the `attempts`-th failure in a row keeps a row back: doubling, and by the dice between half and whole. */
export function backoffMs(attempts: number, jitter: number): number {
  const whole = Math.min(BACKOFF_MAX_MS, BACKOFF_FIRST_MS * 2 ** Math.min(attempts - 1, 30));
  return Math.round(whole * (0.5 + jitter / 2));
}

/** When the sender of a relay-accepted row is told that nobody confirmed it. */
export function unconfirmedAtMs({ acceptedAtMs, retentionMs }: RelayAcceptance): number {
  return acceptedAtMs + retentionMs + RELAY_GRACE_MS;
}

function moveEnvelope(row: OutboxRow, happening: OutboxHappening, facts: OutboxFacts): OutboxStep {
  const { nowMs } = facts;
  switch (happening.type) {
    case 'lan-accepted':
      if (row.state !== 'pending' && row.state !== 'lan-accepted') return unchanged(row);
      return changed(row, {
        state: 'lan-accepted',
        lanAcceptedAtMs: row.lanAcceptedAtMs ?? nowMs,
        lanAttempts: 0,
        lastError: null,
        nextAtMs: nowMs + ASK_AGAIN_MS,
      });
    case 'lan-quarantined': {
      if (row.state !== 'pending' && row.state !== 'lan-accepted') return unchanged(row);
      const mark = { type: 'MarkRecipients', recipients: waitingOf(row), state: 'quarantined' } as const;
      return changed(row, { state: 'quarantined', nextAtMs: nowMs + QUARANTINE_ALERT_MS }, mark);
    }
    case 'lan-rejected':
      return failedOverLan(row, `rejected:${happening.code}`, facts);
    case 'lan-failed':
      return failedOverLan(row, happening.reason, facts);
    case 'relay-accepted':
      if (!happening.isVerified) return failedAtRelay(row, 'the accept receipt does not verify', facts);
      return acceptedByRelay(row, happening.acceptance, unconfirmedAtMs(happening.acceptance));
    case 'relay-stored':
      // Whatever a relay of v2 said before stands: v1 proves nothing.
      if (row.state !== 'pending' && row.state !== 'relay-accepted') return unchanged(row);
      return changed(row, { relayAttempts: 0, lastError: null, nextAtMs: nowMs + ASK_AGAIN_MS });
    case 'expired': {
      const { state, acceptance } = row;
      // A notice of before this acceptance comes again when a relay's queue is read anew.
      const isOfIt =
        happening.relayPubkey === acceptance?.relayPubkey && happening.expiredAtMs >= acceptance.acceptedAtMs;
      return state === 'relay-accepted' && isOfIt ? ended(row, 'expired', 'expired', facts) : unchanged(row);
    }
    case 'receipt':
      return confirmed(row, happening.recipient);
    case 'peer-reached':
      if (row.state !== 'pending') return unchanged(row);
      return changed(row, { lanAttempts: 0, nextAtMs: Math.min(row.nextAtMs ?? nowMs, nowMs) });
    case 'peer-unpaired':
      if (!SENDING_STATES.has(row.state)) return unchanged(row);
      return ended(row, row.state === 'pending' ? 'undelivered' : 'unconfirmed', 'unpaired', facts);
    case 'cancelled': {
      if (row.state !== 'pending') return unchanged(row);
      const mark = { type: 'MarkRecipients', recipients: waitingOf(row), state: 'cancelled' } as const;
      return changed(row, { state: 'cancelled', nextAtMs: null }, mark);
    }
    case 'relay-refused': {
      const step = moveAny(row, happening, facts);
      const isNews = happening.code === 'too large' && row.state === 'pending' && row.alertedAtMs === null;
      return isNews && step.row ? alerted(step.row, 'undelivered', 'too-large', facts) : step;
    }
    case 'relay-pushing':
    case 'relay-failed':
    case 'new-epoch':
    case 'relay-rewound':
    case 'relay-ready':
    case 'time-passed':
      return moveAny(row, happening, facts);
    default:
      return assertNever(happening);
  }
}

/** What is the same for both kinds. */
function moveAny(
  row: OutboxRow,
  happening: Extract<
    OutboxHappening,
    {
      type:
        | 'relay-pushing'
        | 'relay-refused'
        | 'relay-failed'
        | 'new-epoch'
        | 'relay-rewound'
        | 'relay-ready'
        | 'time-passed';
    }
  >,
  facts: OutboxFacts,
): OutboxStep {
  switch (happening.type) {
    case 'relay-pushing':
      return changed(row, { firstPushAtMs: row.firstPushAtMs ?? facts.nowMs });
    case 'relay-refused':
      return failedAtRelay(row, `rejected:${happening.code}`, facts);
    case 'relay-failed':
      return failedAtRelay(row, happening.reason, facts);
    case 'new-epoch': {
      const { relayPubkey, epoch } = happening;
      if (row.state !== 'relay-accepted' || isAcceptedIn(row, relayPubkey, epoch)) return unchanged(row);
      return changed(row, { relayAttempts: 0, nextAtMs: facts.nowMs });
    }
    case 'relay-rewound': {
      const { acceptance } = row;
      if (row.state !== 'relay-accepted' || acceptance?.relayPubkey !== happening.relayPubkey) return unchanged(row);
      return changed(row, { acceptance: { ...acceptance, mayBeLost: true }, relayAttempts: 0, nextAtMs: facts.nowMs });
    }
    case 'relay-ready': {
      const { relayPubkey, epoch } = happening;
      const isToPush = row.state === 'relay-accepted' && !isAcceptedIn(row, relayPubkey, epoch);
      if (row.state !== 'pending' && !isToPush) return unchanged(row);
      return changed(row, { relayAttempts: 0, nextAtMs: Math.min(row.nextAtMs ?? facts.nowMs, facts.nowMs) });
    }
    case 'time-passed':
      if (!SENDING_STATES.has(row.state) || row.nextAtMs === null || row.nextAtMs > facts.nowMs) return unchanged(row);
      return changed(row, { nextAtMs: facts.nowMs + backoffMs(Infinity, facts.jitter) });
    default:
      return assertNever(happening);
  }
}

/** Whether the relay took the row in this generation of its store, as far as is known. */
export function isAcceptedIn({ acceptance }: OutboxRow, relayPubkey: PublicKey, epoch: Epoch): boolean {
  return acceptance?.relayPubkey === relayPubkey && acceptance.epoch === epoch && !acceptance.mayBeLost;
}

function failedOverLan(row: OutboxRow, lastError: string, { nowMs, jitter }: OutboxFacts): OutboxStep {
  if (row.state !== 'pending' && row.state !== 'lan-accepted') return unchanged(row);
  const lanAttempts = row.lanAttempts + 1;
  return changed(row, { lanAttempts, lastError, nextAtMs: nowMs + backoffMs(lanAttempts, jitter) });
}

function failedAtRelay(row: OutboxRow, lastError: string, { nowMs, jitter }: OutboxFacts): OutboxStep {
  if (row.state !== 'pending' && row.state !== 'relay-accepted') return unchanged(row);
  const relayAttempts = row.relayAttempts + 1;
  return changed(row, { relayAttempts, lastError, nextAtMs: nowMs + backoffMs(relayAttempts, jitter) });
}

function acceptedByRelay(row: OutboxRow, acceptance: RelayAcceptance, nextAtMs: number): OutboxStep {
  if (row.state !== 'pending' && row.state !== 'relay-accepted') return unchanged(row);
  return changed(row, { state: 'relay-accepted', acceptance, relayAttempts: 0, lastError: null, nextAtMs });
}

function confirmed(row: OutboxRow, recipient: Address): OutboxStep {
  if (!row.recipients.includes(recipient) || row.confirmed.includes(recipient)) return unchanged(row);
  const next = { ...row, confirmed: [...row.confirmed, recipient] };
  if (waitingOf(next).length > 0) return { row: next, effects: [] };
  const hasBeenGivenUp = row.alertedAtMs !== null || row.state === 'cancelled';
  const alert = { type: 'Alert', alert: 'delivered-after-all', recipients: row.recipients } as const;
  return changed(next, { state: 'done', lastError: null, nextAtMs: null }, ...(hasBeenGivenUp ? [alert] : []));
}

/** Deadlines hold whatever happened, and whenever it is looked at. */
function meetDeadlines(row: OutboxRow, facts: OutboxFacts): OutboxStep {
  const { nowMs, hasPeerConfirmed } = facts;
  const unconfirmed = hasPeerConfirmed ? 'unconfirmed' : 'never-confirmed';
  switch (row.state) {
    case 'pending': {
      const alertAtMs = row.createdAtMs + UNDELIVERED_ALERT_MS;
      if (nowMs >= row.createdAtMs + GIVE_UP_MS) return ended(row, 'undelivered', 'given-up', facts);
      if (row.alertedAtMs !== null) return unchanged(row);
      if (nowMs >= alertAtMs) return alerted(row, 'undelivered', 'undelivered', facts);
      return changed(row, { nextAtMs: Math.min(row.nextAtMs ?? alertAtMs, alertAtMs) });
    }
    case 'lan-accepted': {
      const atMs = (row.lanAcceptedAtMs ?? row.createdAtMs) + LAN_CONFIRM_MS;
      if (nowMs >= atMs) return ended(row, 'unconfirmed', unconfirmed, facts);
      return changed(row, { nextAtMs: Math.min(row.nextAtMs ?? atMs, atMs) });
    }
    case 'relay-accepted': {
      const atMs = row.acceptance ? unconfirmedAtMs(row.acceptance) : row.createdAtMs + GIVE_UP_MS;
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
function stepReceiptRow(row: OutboxRow, happening: OutboxHappening, facts: OutboxFacts): OutboxStep {
  const moved = moveReceipt(row, happening, facts);
  if (!moved) return DROPPED;
  const { acceptance, createdAtMs } = moved;
  const endsAtMs = acceptance ? acceptance.acceptedAtMs + acceptance.retentionMs : createdAtMs + GIVE_UP_MS;
  if (facts.nowMs >= endsAtMs) return DROPPED;
  return changed(moved, { nextAtMs: Math.min(moved.nextAtMs ?? endsAtMs, endsAtMs) });
}

function moveReceipt(row: OutboxRow, happening: OutboxHappening, facts: OutboxFacts): OutboxRow | null {
  switch (happening.type) {
    case 'lan-accepted':
    case 'lan-quarantined':
    case 'peer-unpaired':
      return null;
    case 'lan-rejected':
      return failedOverLan(row, `rejected:${happening.code}`, facts).row;
    case 'lan-failed':
      return failedOverLan(row, happening.reason, facts).row;
    case 'relay-accepted': {
      const { acceptance, isVerified } = happening;
      if (!isVerified) return failedAtRelay(row, 'the accept receipt does not verify', facts).row;
      return acceptedByRelay(row, acceptance, acceptance.acceptedAtMs + acceptance.retentionMs).row;
    }
    case 'peer-reached':
      if (row.state !== 'pending') return row;
      return { ...row, lanAttempts: 0, nextAtMs: Math.min(row.nextAtMs ?? facts.nowMs, facts.nowMs) };
    case 'relay-pushing':
    case 'relay-refused':
    case 'relay-failed':
    case 'new-epoch':
    case 'relay-rewound':
    case 'relay-ready':
    case 'time-passed':
      return moveAny(row, happening, facts).row;
    // A relay of v1 carries no receipts, and nobody confirms or cancels one.
    case 'relay-stored':
    case 'expired':
    case 'receipt':
    case 'cancelled':
      return row;
    default:
      return assertNever(happening);
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

function assertNever(value: never): never {
  throw new Error(`invariant: ${JSON.stringify(value)} is none of its kind`);
}
