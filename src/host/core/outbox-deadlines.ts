/**
 * The deadlines of the outbox that depend on when others took a row. They stand on this host's clock and count the time
 * that passed: a relay's word moves none, and neither does a clock that jumps. Pure.
 */
import { DAY_MS } from '../../protocol/limits.ts';
import type { OutboxClock } from './outbox-event.ts';
import type { OutboxRow, RelayAcceptance } from './rows.ts';

/** A receiver keeps retired keys so long: what was sealed before may open for nobody, so it is not sent any more. */
export const GIVE_UP_MS = 60 * DAY_MS;
/**
 * A row that the peer accepted over the LAN and did not confirm within this time is sent over the relay too, and to the
 * peer again, so that it confirms again: answers over the LAN are not signed, so another host may have given this one.
 */
export const LAN_DOUBT_MS = 300_000;
/** By so much a relay's clock may be faster than this host's within one retention. */
const CLOCKS_DRIFT_MS = 60_000;

/** Whether a row may be pushed to a relay that keeps items for `retentionMs`: later its dedup may be gone. */
export function mayPush(row: OutboxRow, { nowMs, momentMs }: OutboxClock, retentionMs: number): boolean {
  if (row.state === 'relay-accepted') return true;
  const isUnconfirmed = row.state === 'pending' || row.state === 'lan-accepted';
  return isUnconfirmed && (row.firstPushAtMs === null || nowMs < momentMs(row.firstPushAtMs) + retentionMs);
}

/** From when on an acceptance over the LAN that nobody confirmed is doubted. */
export function lanDoubtAtMs({ lanAcceptedAtMs, createdAtMs }: OutboxRow, { momentMs }: OutboxClock): number {
  return momentMs(lanAcceptedAtMs ?? createdAtMs) + LAN_DOUBT_MS;
}

/** What is known of the first acceptance by a relay. An old row has only the relay's word, and is no older than itself. */
export function firstAcceptance(
  { firstAccepted, createdAtMs }: OutboxRow,
  { acceptedAtMs, retentionMs }: RelayAcceptance,
): NonNullable<OutboxRow['firstAccepted']> {
  return firstAccepted ?? { atMs: Math.max(createdAtMs, acceptedAtMs), retentionMs };
}

/** Until when the relay that took a row first keeps it: for ever counts for no longer than an unsent row is tried. */
export function keptUntilMs(row: OutboxRow, acceptance: RelayAcceptance, { momentMs }: OutboxClock): number {
  const { atMs, retentionMs } = firstAcceptance(row, acceptance);
  return momentMs(atMs) + Math.min(retentionMs, GIVE_UP_MS);
}

/**
 * Whether an expiry notice can be true: the item cannot have been at the relay before this host first pushed it, nor
 * expire before the relay's retention has passed since.
 */
export function isExpiryInTime(row: OutboxRow, { nowMs, momentMs }: OutboxClock): boolean {
  const { acceptance, firstPushAtMs, createdAtMs } = row;
  const pushedAtMs = momentMs(firstPushAtMs ?? createdAtMs);
  return !acceptance || nowMs >= pushedAtMs + acceptance.retentionMs - CLOCKS_DRIFT_MS;
}
