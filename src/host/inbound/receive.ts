/**
 * The one way in for items from peers and relays: each is judged, then written with its receipts in one transaction, or
 * kept in quarantine. A repeated item changes nothing.
 *
 * The expensive checks, signatures and seals, run before the transaction (`inspectItem`), so that other writers
 * do not wait. The transaction judges by the rows at that time.
 *
 * A message of which only some recipients exist here is delivered to those, and kept for the others.
 */
import { type IncomingItem, Inspection, type Judgement, keep, signedByRelay } from './verify.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { type OwnRelay, ownRelays, takeHome } from '../outbox/homes.ts';
import type { HostContext } from '../base/context.ts';
import type { QuarantineRow } from '../core/quarantine.ts';
import type { RelayedCopy } from '../core/receipts.ts';
import {
  addToQuarantine,
  keepInQuarantine,
  logQuarantined,
  quarantinedRow,
  removeFromQuarantine,
} from './quarantine-rows.ts';
import { takeSeen } from '../outbox/seen.ts';
import { checkEnvelope, checkReceipt, judgeEnvelope, judgeNotice, judgeReceipt } from './judge.ts';

/** The reason after `rejected:` when there is no room for the bytes of an item to keep. */
const QUARANTINE_FULL = 'quarantine full';

/**
 * `rejected`: only the row of the item was kept, without its bytes, or not even that. A LAN peer gets this answer,
 * still has the bytes, and may bring the item again; a relay's queue moves on. With any other outcome the item is done.
 */
export type Received =
  | { status: 'accepted' | 'duplicate' | 'quarantined' }
  | { status: 'rejected'; code: typeof QUARANTINE_FULL };

/** Runs the expensive checks of an item, as far as the present rows call for them. Writes nothing. */
export function inspectItem(context: HostContext, item: IncomingItem): Promise<Inspection> {
  return context.store.read(async (reader) => inspect(reader, context, item, await ownRelays(reader)));
}

/** `inspectItem` for several items. */
function inspectItems(context: HostContext, items: readonly IncomingItem[]): Promise<Inspection[]> {
  return context.store.read(async (reader) => {
    const own = await ownRelays(reader);
    return Promise.all(items.map((item) => inspect(reader, context, item, own)));
  });
}

/** `own`: an item of one of several relays may come over another one too. */
async function inspect(reader: Reader, context: HostContext, item: IncomingItem, own: OwnRelay[]): Promise<Inspection> {
  const inspection = new Inspection(item);
  if (own.length > 1) inspection.copy = relayedCopy(item);
  if (item.kind === 'envelope') await checkEnvelope(reader, context, inspection);
  if (item.kind === 'receipt') await checkReceipt(reader, context, inspection);
  if (item.kind === 'expired') signedByRelay(inspection);
  return inspection;
}

/** Receives one item as part of `tx`; the items of one page may share it. No content of an item makes it throw. */
export async function receiveItem(tx: Transaction, context: HostContext, inspection: Inspection): Promise<Received> {
  const { item } = inspection;
  const before = quarantinedRow(tx, item, inspection.wireHash);
  const { status, kept, apply, shown } = await judge(tx, context, inspection, before);
  // The receipt of a message says what this host knows by it.
  if (shown) await takeHome(tx, context, shown.peerId, shown.home);
  if (shown) await takeSeen(tx, context, shown.peerId, shown);
  apply(tx);
  if (!kept) {
    if (before) removeFromQuarantine(tx, before);
    return { status };
  }
  const row = before
    ? await keepInQuarantine(tx, context, before, kept, inspection)
    : await addToQuarantine(tx, context, item, kept);
  if (!before && row) tx.afterCommit(() => logQuarantined(context, row));
  return (!row || row.isBare) && item.via === 'lan' ? { status: 'rejected', code: QUARANTINE_FULL } : { status };
}

/** Items and wire bytes of one transaction. */
const CHUNK_ITEMS_MAX = 32;
const CHUNK_BYTES_MAX = 1 << 20;

interface ChunkRules {
  /** Asked in each transaction before it receives anything. */
  goesOn?: (tx: Transaction) => boolean;
  /** Told in each transaction how many of the first items are done with it. */
  done?: (tx: Transaction, count: number) => void;
}

/**
 * Receives items in their order, in chunks: each is one transaction, and its receipts leave while the next one is
 * received. Signatures and seals of a chunk are checked before its transaction, while the batch of the chunk before is
 * written.
 *
 * Resolves when all of it is durable, with the outcomes of the first items: of all of them, unless `goesOn` said no.
 */
export async function receiveItems(
  context: HostContext,
  items: readonly IncomingItem[],
  { goesOn, done }: ChunkRules = {},
): Promise<Received[]> {
  const received: Received[] = [];
  const [first, ...others] = chunksOf(items);
  if (!first) return received;
  let inspections = await inspectItems(context, first);
  for (;;) {
    const next = others.shift();
    const present = inspections;
    const written = context.store.transact(async (tx) => {
      if (goesOn?.(tx) === false) return false;
      for (const inspection of present) received.push(await receiveItem(tx, context, inspection));
      done?.(tx, received.length);
      return true;
    });
    if (!next) {
      await written;
      return received;
    }
    const ahead = nextTurn().then(() => inspectItems(context, next));
    const [isReceived, inspected] = await Promise.all([written, ahead]);
    if (!isReceived) return received;
    inspections = inspected;
  }
}

/** The next turn of the event loop: what this one began to write is being written by then. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

function chunksOf(items: readonly IncomingItem[]): IncomingItem[][] {
  const chunks: IncomingItem[][] = [];
  let bytes = 0;
  for (const item of items) {
    bytes += item.wire.length;
    const chunk = chunks.at(-1);
    if (chunk && chunk.length < CHUNK_ITEMS_MAX && bytes <= CHUNK_BYTES_MAX) chunk.push(item);
    else {
      chunks.push([item]);
      bytes = item.wire.length;
    }
  }
  return chunks;
}

function relayedCopy({ relay, skewMs }: IncomingItem): RelayedCopy | null {
  if (!relay) return null;
  // An item without a place shows nothing of when it was stored.
  return { relayPubkey: relay.pubkey, storedAtMs: relay.seq === null ? 0 : relay.seq + (skewMs ?? 0) };
}

async function judge(
  reader: Reader,
  context: HostContext,
  inspection: Inspection,
  quarantined: QuarantineRow | undefined,
): Promise<Judgement> {
  switch (inspection.item.kind) {
    case 'envelope':
      return judgeEnvelope(reader, context, inspection, quarantined);
    case 'receipt':
      return judgeReceipt(reader, context, inspection);
    case 'expired':
      return judgeNotice(reader, context, inspection);
    default:
      return keep('malformed', inspection.item.kind === '' ? 'it has no kind' : 'it is of no kind that is known here');
  }
}
