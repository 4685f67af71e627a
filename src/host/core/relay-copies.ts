/**
 * Tells where the copies of an outbox row are, whether one relay was in use or several. Pure; `outbox.ts` changes them.
 *
 * A row of a host with one relay has `acceptance` alone: it reads as one copy. A relay that is in use no more still
 * counts here, as the row does not know that.
 */
import type { Epoch } from '../../protocol/epoch.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { OutboxClock } from './outbox-event.ts';
import { elapsedAtMostMs, firstAcceptance, GIVE_UP_MS } from './outbox-times.ts';
import type { RelayCopy, TriedRelay } from './relay-acceptance.ts';
import type { OutboxRow } from './rows.ts';

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
