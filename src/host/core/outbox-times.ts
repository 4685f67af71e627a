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
