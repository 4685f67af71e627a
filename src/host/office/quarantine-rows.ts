/**
 * Rows of the quarantine with their wire bytes, what they add up to, and the index that keeps an item from being in
 * twice. Only this file writes them.
 *
 * There is a bound, for all and for each sender. An item that does not fit is not taken and not lost: it stays with
 * whoever brought it, a peer's outbox or a relay's queue, until there is room.
 */
import { type Sha256Hex, sha256Hex } from '../../protocol/digest.ts';
import { ITEM_ID_CHARACTERS_MAX } from '../../protocol/names.ts';
import type { PeerId, QuarantineRow, QuarantineUsage } from '../core/rows.ts';
import type { Kept } from './verdict.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { type IncomingItem, peerOfKey } from './incoming.ts';
import type { Office } from './office.ts';

export interface QuarantineBounds {
  itemsMax: number;
  bytesMax: number;
}
export const QUARANTINE_BOUNDS: QuarantineBounds = { itemsMax: 10_000, bytesMax: 256 << 20 };
/** One sender cannot take the room of all. */
export const QUARANTINE_SENDER_BOUNDS: QuarantineBounds = { itemsMax: 2_000, bytesMax: 64 << 20 };

const NOTHING: QuarantineUsage = { items: 0, bytes: 0 };
const ALL = 'all';

/** The row of exactly this item, when it is in quarantine. */
export function quarantinedRow(reader: Reader, item: IncomingItem): QuarantineRow | undefined {
  const number = reader.get('quarantineItem', digestOf(item, sha256Hex(item.wire)));
  return number === undefined ? undefined : reader.get('quarantine', number);
}

export function quarantineUsage(reader: Reader): QuarantineUsage {
  return reader.get('quarantineUsage', ALL) ?? NOTHING;
}

/** Whether there is room for one more of this size. */
export function hasQuarantineRoom(reader: Reader, item: IncomingItem): boolean {
  const fits = (scope: string, { itemsMax, bytesMax }: QuarantineBounds): boolean => {
    const { items, bytes } = reader.get('quarantineUsage', scope) ?? NOTHING;
    return items < itemsMax && bytes + item.wire.length <= bytesMax;
  };
  const scope = senderScope(item.senderPubkey, peerOfKey(reader, item.senderPubkey)?.peerId ?? null);
  return fits(ALL, QUARANTINE_BOUNDS) && fits(scope, QUARANTINE_SENDER_BOUNDS);
}

/** Puts an item in; the caller has asked for room and whether it is in already. */
export function addToQuarantine(tx: Transaction, office: Office, item: IncomingItem, kept: Kept): QuarantineRow {
  const { via, relay, kind, senderPubkey, wire } = item;
  const row: QuarantineRow = {
    number: tx.next('quarantine'),
    via,
    relay,
    kind,
    itemId: item.itemId.slice(0, ITEM_ID_CHARACTERS_MAX).toWellFormed(),
    senderPubkey,
    peerId: peerOfKey(tx, senderPubkey)?.peerId ?? null,
    ...kept,
    wireHash: sha256Hex(wire),
    wireBytes: wire.length,
    atMs: office.nowMs(),
  };
  tx.put('quarantine', [row.number], row);
  tx.put('quarantineWire', [row.number], wire);
  tx.put('quarantineItem', [digestOf(row, row.wireHash)], row.number);
  count(tx, row, 1);
  return row;
}

/** It is in still, maybe for another reason or for fewer recipients. */
export function keepInQuarantine(tx: Transaction, row: QuarantineRow, kept: Kept): void {
  tx.put('quarantine', [row.number], { ...row, ...kept });
}

export function removeFromQuarantine(tx: Transaction, row: QuarantineRow): void {
  tx.delete('quarantine', [row.number]);
  tx.delete('quarantineWire', [row.number]);
  tx.delete('quarantineItem', [digestOf(row, row.wireHash)]);
  count(tx, row, -1);
}

/** The item as it came. */
export function quarantinedItem(reader: Reader, row: QuarantineRow): IncomingItem {
  const wire = reader.get('quarantineWire', row.number);
  if (!wire) throw new Error('invariant: what is in quarantine has its wire bytes');
  const { via, relay, kind, itemId, senderPubkey } = row;
  return { via, relay, kind, itemId, senderPubkey, wire };
}

/** An id too long for any protocol is kept by its first characters: the digest tells such items apart by their bytes. */
function digestOf(
  { kind, senderPubkey, itemId }: Pick<QuarantineRow, 'kind' | 'senderPubkey' | 'itemId'>,
  wireHash: Sha256Hex,
): Sha256Hex {
  const id = itemId.slice(0, ITEM_ID_CHARACTERS_MAX).toWellFormed();
  return sha256Hex([kind, senderPubkey, id, wireHash].join('\n'));
}

function senderScope(senderPubkey: string, peerId: PeerId | null): string {
  return peerId === null ? `key:${senderPubkey}` : `peer:${peerId}`;
}

function count(tx: Transaction, { senderPubkey, peerId, wireBytes }: QuarantineRow, sign: 1 | -1): void {
  for (const scope of [ALL, senderScope(senderPubkey, peerId)]) {
    const before = tx.get('quarantineUsage', scope) ?? NOTHING;
    const after = { items: before.items + sign, bytes: before.bytes + sign * wireBytes };
    if (after.items === 0) tx.delete('quarantineUsage', [scope]);
    else tx.put('quarantineUsage', [scope], after);
  }
}
