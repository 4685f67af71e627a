/**
 * The one way in for items from peers and relays: each is judged, then written with its receipts in one transaction, or kept
 * in quarantine. A repeated item changes nothing.
 *
 * The expensive checks, signatures and seals, run before the transaction (`inspectItem`), so that other writers
 * do not wait. The transaction judges again by the rows at that time.
 *
 * A message of which only some recipients exist here is delivered to those, and kept for the others.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import { type IncomingItem, Inspection, isGivenUp, type Judgement, keep } from './verify.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import type { HostContext } from '../context.ts';
import {
  addToQuarantine,
  keepInQuarantine,
  logQuarantined,
  quarantinedRow,
  removeFromQuarantine,
} from './quarantine-rows.ts';
import { judgeEnvelope } from './receive-envelope.ts';
import { judgeNotice, judgeReceipt } from './receive-signed-record.ts';

/** The reason after `rejected:` when there is no room for the bytes of an item to keep. */
const QUARANTINE_FULL = 'quarantine full';

/**
 * `rejected`: only the row of the item was kept, without its bytes. A LAN peer gets this answer, still has the bytes, and
 * may bring the item again; a relay's queue moves on. With any other outcome the item is done.
 */
export type Received =
  | { status: 'accepted' | 'duplicate' | 'quarantined' }
  | { status: 'rejected'; code: typeof QUARANTINE_FULL };

/** Runs the expensive checks of an item, as far as the present rows call for them. Writes nothing. */
export function inspectItem(context: HostContext, item: IncomingItem): Promise<Inspection> {
  return context.store.read((reader) => inspected(reader, context, item));
}

/** `inspectItem` for several items in parallel: seals are opened in the thread pool. */
export function inspectItems(context: HostContext, items: readonly IncomingItem[]): Promise<Inspection[]> {
  return context.store.read((reader) => Promise.all(items.map((item) => inspected(reader, context, item))));
}

async function inspected(reader: Reader, context: HostContext, item: IncomingItem): Promise<Inspection> {
  const inspection = new Inspection(item);
  await judge(reader, context, inspection, quarantinedRow(reader, item, inspection.wireHash)?.recipients ?? null);
  return inspection;
}

/** Receives one item as part of `tx`; the items of one page may share it. No content of an item makes it throw. */
export async function receiveItem(tx: Transaction, context: HostContext, inspection: Inspection): Promise<Received> {
  const { item } = inspection;
  const before = quarantinedRow(tx, item, inspection.wireHash);
  const { status, kept, apply } = await judge(tx, context, inspection, before?.recipients ?? null);
  apply(tx);
  if (!kept) {
    if (before) removeFromQuarantine(tx, before);
    return { status };
  }
  const row = before
    ? await keepInQuarantine(tx, context, before, kept, item)
    : await addToQuarantine(tx, context, item, kept);
  if (!before) tx.afterCommit(() => logQuarantined(context, row));
  return row.isBare && item.via === 'lan' ? { status: 'rejected', code: QUARANTINE_FULL } : { status };
}

/** Receives items in their order, in one transaction. */
export async function receiveItems(context: HostContext, items: readonly IncomingItem[]): Promise<Received[]> {
  const inspections = await inspectItems(context, items);
  return context.store.transact((tx) => receiveInspected(tx, context, inspections));
}

/**
 * `receiveItems` for items that a hop under `hopKey` brought. Returns `undefined`, and receives nothing, when a paired host
 * gave up that key: the rotation may have been learned while the body arrived, after the hop was verified.
 */
export async function receiveUnderHop(
  context: HostContext,
  items: readonly IncomingItem[],
  hopKey: PublicKey,
): Promise<Received[] | undefined> {
  const inspections = await inspectItems(context, items);
  return context.store.transact(async (tx) =>
    isGivenUp(tx, hopKey) ? undefined : receiveInspected(tx, context, inspections),
  );
}

async function receiveInspected(
  tx: Transaction,
  context: HostContext,
  inspections: readonly Inspection[],
): Promise<Received[]> {
  const received: Received[] = [];
  for (const inspection of inspections) received.push(await receiveItem(tx, context, inspection));
  return received;
}

async function judge(
  reader: Reader,
  context: HostContext,
  inspection: Inspection,
  only: Parameters<typeof judgeEnvelope>[3],
): Promise<Judgement> {
  switch (inspection.item.kind) {
    case 'envelope':
      return judgeEnvelope(reader, context, inspection, only);
    case 'receipt':
      return judgeReceipt(reader, context, inspection);
    case 'expired':
      return judgeNotice(reader, context, inspection);
    default:
      return keep('malformed', inspection.item.kind === '' ? 'it has no kind' : 'it is of no kind that is known here');
  }
}
