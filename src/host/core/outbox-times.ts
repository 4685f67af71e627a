/** The times of an outbox row: what passed since something happened, when it is doubted and when over. Pure. */
import { DAY_MS } from '../../protocol/limits.ts';
import type { OutboxClock } from './outbox-event.ts';
import type { RelayAcceptance } from './relay-acceptance.ts';
import type { OutboxRow } from './rows.ts';

/**
 * A receiver keeps retired keys for this time: what was sealed before may open for nobody, so it is not sent any more.
 */
export const GIVE_UP_MS = 60 * DAY_MS;
/**
 * A row that the peer accepted over the LAN and did not confirm within this time is sent over the relay too, and to the
 * peer again, so that it confirms again: answers over the LAN are not signed, so another host may have given this one.
 */
export const LAN_DOUBT_MS = 300_000;
/** A relay whose clock is faster than this host's keeps items for a little less than its retention. */
const RETENTION_AT_LEAST = 0.99;

/** The time since then, at most, as others count it: their clocks went on while this machine was suspended. */
export function elapsedAtMostMs(atMs: number, { nowMs, momentMs }: OutboxClock): number {
  return nowMs - Math.min(atMs, momentMs(atMs));
}

/** The time from which an acceptance over the LAN that nobody confirmed is doubted. */
export function lanDoubtAtMs({ lanAcceptedAtMs, createdAtMs }: OutboxRow, { momentMs }: OutboxClock): number {
  return momentMs(lanAcceptedAtMs ?? createdAtMs) + LAN_DOUBT_MS;
}

/** The first acceptance by a relay, as far as it is known. An old row has only the relay's word for it. */
export function firstAcceptance(
  { firstAccepted, createdAtMs }: OutboxRow,
  { acceptedAtMs, retentionMs }: RelayAcceptance,
): NonNullable<OutboxRow['firstAccepted']> {
  return firstAccepted ?? { atMs: Math.max(createdAtMs, acceptedAtMs), retentionMs };
}

/** The end of the first relay's retention: for ever counts for no longer than an unsent row is tried. */
export function keptUntilMs(row: OutboxRow, acceptance: RelayAcceptance, { momentMs }: OutboxClock): number {
  const { atMs, retentionMs } = firstAcceptance(row, acceptance);
  return momentMs(atMs) + Math.min(retentionMs, GIVE_UP_MS);
}

/**
 * True when an expiry notice can be true: the item cannot have been at the relay before this host first pushed it, nor
 * expire before the relay's retention has passed since.
 */
export function isExpiryInTime({ acceptance, firstPushAtMs, createdAtMs }: OutboxRow, clock: OutboxClock): boolean {
  if (!acceptance) return true;
  return elapsedAtMostMs(firstPushAtMs ?? createdAtMs, clock) >= acceptance.retentionMs * RETENTION_AT_LEAST;
}
