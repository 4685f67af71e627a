/**
 * Tells where the copies of an outbox row are, whether one relay was in use or several. Pure; `outbox.ts` changes them.
 *
 * A row of a host with one relay has `acceptance` alone: it reads as one copy. A relay that is in use no more still
 * counts here, as the row does not know that.
 */
import type { Epoch } from '../../protocol/epoch.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { firstAcceptance } from './outbox-times.ts';
import type { RelayCopy, TriedRelay } from './relay-acceptance.ts';
import type { OutboxRow } from './rows.ts';

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

/** True when the relay may have the item, whatever it said of it last. */
export function wasTriedAt(row: OutboxRow, relayPubkey: PublicKey): boolean {
  const tried = triedAt(row, relayPubkey);
  return tried !== undefined && !tried.isRefused;
}
