/**
 * The one way in for what peers and relays bring: judged, then written with its receipts in one transaction, or kept
 * in quarantine. An item comes as often as it likes: once is enough, and again changes nothing.
 *
 * What is costly of it, signatures and seals, is done before its transaction (`inspectItem`), so that others who write
 * do not wait for it. The transaction judges again by what is so then.
 *
 * A partly known message is delivered to those who are here and kept for the others.
 */
import { type Judgement, keep } from './verdict.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import type { IncomingItem } from './incoming.ts';
import { Inspection } from './inspection.ts';
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

/** Learns what is costly of an item, as far as it matters by what is stored now. Writes nothing. */
export function inspectItem(office: Office, item: IncomingItem): Promise<Inspection> {
  return office.store.read((reader) => inspected(reader, office, item));
}

/** As `inspectItem`, of several side by side: seals are opened in the thread pool. */
export function inspectItems(office: Office, items: readonly IncomingItem[]): Promise<Inspection[]> {
  return office.store.read((reader) => Promise.all(items.map((item) => inspected(reader, office, item))));
}

async function inspected(reader: Reader, office: Office, item: IncomingItem): Promise<Inspection> {
  const inspection = new Inspection(item);
  await judge(reader, office, inspection, quarantinedRow(reader, item)?.recipients ?? null);
  return inspection;
}

/** Receives one item as a part of `tx`; several of one page may share it. Nothing in an item makes it throw. */
export async function receiveItem(tx: Transaction, office: Office, inspection: Inspection): Promise<Received> {
  const { item } = inspection;
  const before = quarantinedRow(tx, item);
  const { status, kept, apply } = await judge(tx, office, inspection, before?.recipients ?? null);
  if (kept && !before && !hasQuarantineRoom(tx, item)) {
    office.log('error', 'the quarantine is full: look at it with poste quarantine', { via: item.via });
    return { status: 'rejected', code: QUARANTINE_FULL };
  }
  apply(tx);
  if (kept && before) keepInQuarantine(tx, before, kept);
  else if (kept) {
    const { number, reason, via } = addToQuarantine(tx, office, item, kept);
    tx.afterCommit(() => office.log('warn', 'an item went into quarantine', { number, reason, via }));
  } else if (before) removeFromQuarantine(tx, before);
  return { status };
}

/** Receives items in their order, in one transaction. */
export async function receiveItems(office: Office, items: readonly IncomingItem[]): Promise<Received[]> {
  const inspections = await inspectItems(office, items);
  return office.store.transact(async (tx) => {
    const received: Received[] = [];
    for (const inspection of inspections) received.push(await receiveItem(tx, office, inspection));
    return received;
  });
}

async function judge(
  reader: Reader,
  office: Office,
  inspection: Inspection,
  only: Parameters<typeof judgeEnvelope>[3],
): Promise<Judgement> {
  switch (inspection.item.kind) {
    case 'envelope':
      return judgeEnvelope(reader, office, inspection, only);
    case 'receipt':
      return judgeReceipt(reader, office, inspection);
    case 'expired':
      return judgeNotice(reader, office, inspection);
    default:
      return keep('malformed', 'it is of no kind that is known here');
  }
}
