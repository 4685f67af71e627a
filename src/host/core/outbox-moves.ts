/** What the states of an outbox row are changed with: steps, pauses and alerts. Pure; outbox.ts has the states. */
import { printableWithin } from '../../protocol/printable.ts';
import type { OutboxAlert, OutboxClock, OutboxEffect, OutboxFacts, OutboxStep } from './outbox-event.ts';
import { lanDoubtAtMs } from './outbox-times.ts';
import type { Address, OutboxRow, OutboxState, RecipientState } from './rows.ts';

/** The longest error text that a row keeps. */
const ERROR_CHARACTERS_MAX = 500;

/** The step of a row that stays. */
export interface MovedRow extends OutboxStep {
  row: OutboxRow;
}

export function changeRow(row: OutboxRow, changes: Partial<OutboxRow>, ...effects: OutboxEffect[]): MovedRow {
  return { row: { ...row, ...changes }, effects };
}

export function keepRow(row: OutboxRow): MovedRow {
  return { row, effects: [] };
}

/** States in which the wire bytes may have to be sent again. */
const SENDING_STATES: ReadonlySet<OutboxState> = new Set(['pending', 'lan-accepted', 'relay-accepted']);

/** True while its bytes are still to be sent, or may have to be. */
export function isSending({ state }: OutboxRow): boolean {
  return SENDING_STATES.has(state);
}

/** The time of the next step, when one is due at `atMs` besides. */
export function soonest({ nextAtMs }: OutboxRow, atMs: number): number {
  return Math.min(nextAtMs ?? atMs, atMs);
}

/** The pause after the `attempts`-th failure in a row: it doubles each time, and jitter takes up to half of it away. */
export function backoffMs(attempts: number, { jitter, retry }: Pick<OutboxFacts, 'jitter' | 'retry'>): number {
  const whole = Math.min(retry.longestMs, retry.firstMs * 2 ** Math.min(attempts - 1, 30));
  return Math.round(whole * (0.5 + jitter / 2));
}

/** The peer can be reached another way, or at another address: its earlier acceptance is doubted now, or soon. */
export function doubtedSoon(row: OutboxRow, now: OutboxClock): MovedRow {
  const atMs = Math.max(now.nowMs, lanDoubtAtMs(row, now));
  return changeRow(row, { nextAtMs: soonest(row, atMs) });
}

/** The words of a failure, as a row keeps them. */
export function keptError(error: string): string {
  return printableWithin(error, ERROR_CHARACTERS_MAX);
}

/** In `state` nothing more is tried, and the sender knows. */
export function endRow(
  row: OutboxRow,
  state: 'expired' | 'unconfirmed' | 'undelivered' | 'quarantined',
  alert: OutboxAlert,
  facts: OutboxFacts,
): MovedRow {
  const told = alertRow(row, state === 'expired' ? 'undelivered' : state, alert, facts);
  return { row: { ...row, state, nextAtMs: null, alertedAtMs: facts.nowMs }, effects: told.effects };
}

export function alertRow(row: OutboxRow, state: RecipientState, alert: OutboxAlert, { nowMs }: OutboxFacts): MovedRow {
  const recipients = waitingOf(row);
  return changeRow(
    row,
    { alertedAtMs: nowMs },
    { type: 'MarkRecipients', recipients, state },
    { type: 'Alert', alert, recipients },
  );
}

/** The recipients that no receipt came for. */
export function waitingOf({ recipients, confirmed }: OutboxRow): Address[] {
  return recipients.filter((recipient) => !confirmed.includes(recipient));
}
