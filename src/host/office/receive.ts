/**
 * The one way in for what peers and relays bring: judged, then written with its receipts in one transaction, or kept
 * in quarantine. An item comes as often as it likes: once is enough, and again changes nothing.
 *
 * A partly known message is delivered to those who are here and kept for the others.
 */
import { type Judgement, keep } from '../core/verdict.ts';
import type { Transaction } from '../store/host-store.ts';
import type { IncomingItem } from './incoming.ts';
import type { Office } from './office.ts';
import {
  addToQuarantine,
  hasQuarantineRoom,
  keepInQuarantine,
  quarantinedRow,
  removeFromQuarantine,
} from './quarantine-rows.ts';
import { judgeEnvelope } from './receive-envelope.ts';
import { judgeNotice, judgeReceipt } from './receive-signed-record.ts';

/** What follows `rejected:` when there is no room for an item that would have to be kept. */
export const QUARANTINE_FULL = 'quarantine full';

/** `rejected`: nothing was written, it is not done, and may be brought again. All others are done. */
export type Received =
  | { status: 'accepted' | 'duplicate' | 'quarantined' }
  | { status: 'rejected'; code: typeof QUARANTINE_FULL };

/** Receives one item as a part of `tx`; several of one page may share it. Nothing in an item makes it throw. */
export async function receiveItem(tx: Transaction, office: Office, item: IncomingItem): Promise<Received> {
  const before = quarantinedRow(tx, item);
  const { status, kept, apply } = await judge(tx, office, item, before?.recipients ?? null);
  if (kept && !before && !hasQuarantineRoom(tx, item)) {
    office.log('error', 'the quarantine is full: look at it with poste quarantine', { via: item.via });
    return { status: 'rejected', code: QUARANTINE_FULL };
  }
  apply();
  if (kept && before) keepInQuarantine(tx, before, kept);
  else if (kept) {
    const { number, reason, via } = addToQuarantine(tx, office, item, kept);
    tx.afterCommit(() => office.log('warn', 'an item went into quarantine', { number, reason, via }));
  } else if (before) removeFromQuarantine(tx, before);
  return { status };
}

/** Receives items in their order, in one transaction. */
export function receiveItems(office: Office, items: readonly IncomingItem[]): Promise<Received[]> {
  return office.store.transact(async (tx) => {
    const received: Received[] = [];
    for (const item of items) received.push(await receiveItem(tx, office, item));
    return received;
  });
}

async function judge(
  tx: Transaction,
  office: Office,
  item: IncomingItem,
  only: Parameters<typeof judgeEnvelope>[3],
): Promise<Judgement> {
  switch (item.kind) {
    case 'envelope':
      return judgeEnvelope(tx, office, item, only);
    case 'receipt':
      return judgeReceipt(tx, office, item);
    case 'expired':
      return judgeNotice(tx, office, item);
    default:
      return keep('malformed', 'it is of no kind that is known here');
  }
}
