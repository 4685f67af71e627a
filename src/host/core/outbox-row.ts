/**
 * Tells what stands in an outbox row: where its copies are, whether one relay was in use or several, what passed since
 * something happened, and when it is doubted and over. And makes the changes of which its states are made, pauses and
 * alerts too. Pure; `outbox.ts` and `outbox-at-relays.ts` have the states.
 *
 * A row of a host with one relay has `acceptance` alone: it reads as one copy. A relay that is in use no more still
 * counts here, as the row does not know that.
 */
import type { Epoch } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { OutboxClock, OutboxAlert, OutboxEffect, OutboxFacts, OutboxStep } from './outbox-event.ts';
import type { RelayCopy, TriedRelay, RelayAcceptance } from './relay-acceptance.ts';
import type { OutboxRow, Address, OutboxState, RecipientState } from './rows.ts';
import { DAY_MS } from '../../protocol/limits.ts';
import { printableWithin } from '../../protocol/printable.ts';

/** A relay whose clock is faster than this host's keeps items for a little less than its retention. */
const RETENTION_AT_LEAST = 0.99;

/** One for each relay that ever took the item. */
export function copiesOf(row: OutboxRow): readonly RelayCopy[] {
  if (row.copies) return row.copies;
  const { acceptance, proven, denied } = row;
  if (!acceptance) return [];
  return [
    {
      acceptance,
      state: acceptance.mayBeLost ? 'again' : 'live',
      atMs: firstAcceptance(row, acceptance).atMs,
      ...(proven && { proven }),
      ...(denied && { denied }),
    },
  ];
}

export function copyAt(row: OutboxRow, relayPubkey: PublicKey): RelayCopy | undefined {
  return copiesOf(row).find(({ acceptance }) => acceptance.relayPubkey === relayPubkey);
}

export function liveCopies(row: OutboxRow): readonly RelayCopy[] {
  return copiesOf(row).filter(({ state }) => state === 'live');
}

/** True when the relay took the row in this generation of its store and has it, as far as is known. */
export function isAcceptedIn(row: OutboxRow, relayPubkey: PublicKey, epoch: Epoch): boolean {
  const copy = copyAt(row, relayPubkey);
  return copy?.state === 'live' && copy.acceptance.epoch === epoch;
}

/** The record of the relay, where there were several; what one relay left of it is the first push. */
export function triedAt(
  { tried, acceptance, firstPushAtMs }: OutboxRow,
  relayPubkey: PublicKey,
): TriedRelay | undefined {
  if (tried) return tried.find((one) => one.relayPubkey === relayPubkey);
  if (firstPushAtMs === null || (acceptance && acceptance.relayPubkey !== relayPubkey)) return undefined;
  return { relayPubkey, firstAtMs: firstPushAtMs };
}

/**
 * The end of the relays' retention, and `graceMs`; undefined when none took the item. A store that begins anew, and a
 * second copy, put it off until 60 days after the row was made at most; retention for ever counts for no longer.
 */
export function keptUntilMs(row: OutboxRow, graceMs: number, { momentMs }: OutboxClock): number | undefined {
  const { acceptance, createdAtMs } = row;
  if (!acceptance) return undefined;
  const endMs = ({ atMs, retentionMs }: { atMs: number; retentionMs: number }): number =>
    momentMs(atMs) + Math.min(retentionMs, GIVE_UP_MS) + graceMs;
  const lastMs = Math.max(...copiesOf(row).map((copy) => endMs({ ...copy.acceptance, atMs: copy.atMs })));
  return Math.min(lastMs, Math.max(endMs(firstAcceptance(row, acceptance)), momentMs(createdAtMs) + GIVE_UP_MS));
}

/**
 * True when an expiry notice can be true: with one relay its retention has passed since this host first pushed the
 * item, with several since that relay took it.
 */
export function isExpiryInTime(row: OutboxRow, relayPubkey: PublicKey, clock: OutboxClock): boolean {
  const copy = copyAt(row, relayPubkey);
  if (!copy) return true;
  const sinceMs = row.tried ? copy.atMs : (row.firstPushAtMs ?? row.createdAtMs);
  return elapsedAtMostMs(sinceMs, clock) >= copy.acceptance.retentionMs * RETENTION_AT_LEAST;
}

/**
 * A receiver keeps retired keys for this time: what was sealed before may open for nobody, so it is not sent any more.
 */
export const GIVE_UP_MS = 60 * DAY_MS;
/**
 * A row that the peer accepted over the LAN and did not confirm within this time is sent over the relay too, and to the
 * peer again, so that it confirms again: answers over the LAN are not signed, so another host may have given this one.
 */
export const LAN_DOUBT_MS = 300_000;
/** The longest pause between two such repeats: at first it is `LAN_DOUBT_MS`, then as long as the row has waited. */
export const ASK_AGAIN_MS = DAY_MS;

/** The time since then, at most, as others count it: their clocks went on while this machine was suspended. */
export function elapsedAtMostMs(atMs: number, { nowMs, momentMs }: OutboxClock): number {
  return nowMs - Math.min(atMs, momentMs(atMs));
}

/** The time from which an acceptance over the LAN that nobody confirmed is doubted. */
export function lanDoubtAtMs({ lanAcceptedAtMs, createdAtMs }: OutboxRow, { momentMs }: OutboxClock): number {
  return momentMs(lanAcceptedAtMs ?? createdAtMs) + LAN_DOUBT_MS;
}

/** The wait for the receipt of a row that the peer accepted over the LAN, before the row is sent again. */
export function askAgainMs({ lanAcceptedAtMs }: OutboxRow, { nowMs, momentMs }: OutboxClock): number {
  return Math.min(ASK_AGAIN_MS, Math.max(LAN_DOUBT_MS, nowMs - momentMs(lanAcceptedAtMs ?? nowMs)));
}

/** The first acceptance by a relay, as far as it is known. An old row has only the relay's word for it. */
export function firstAcceptance(
  { firstAccepted, createdAtMs }: OutboxRow,
  { acceptedAtMs, retentionMs }: RelayAcceptance,
): NonNullable<OutboxRow['firstAccepted']> {
  return firstAccepted ?? { atMs: Math.max(createdAtMs, acceptedAtMs), retentionMs };
}

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

/** The first of these moments, in milliseconds of one clock; null where each is null, which means never. */
export function earliest(moments: readonly (number | null)[]): number | null {
  const known = moments.filter((moment) => moment !== null);
  return known.length === 0 ? null : Math.min(...known);
}

/** The clocks of a host as they stand now. */
export function clockNow(host: { nowMs: () => number; momentMs: (datedMs: number) => number }): OutboxClock {
  return { nowMs: host.nowMs(), momentMs: host.momentMs };
}
