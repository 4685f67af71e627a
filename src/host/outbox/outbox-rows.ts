/**
 * Rows of the outbox with their wire bytes and indexes. Only this file writes them.
 *
 * Invariants: a row is in `outboxDue` under its peer and `nextAtMs` exactly when it has one; `outboxItem` finds the row
 * of an item; one peer has at most one row for an item.
 */
import { sha256Hex } from '../../protocol/digest.ts';
import type { ItemId } from '../../protocol/names.ts';
import type { PushedKind } from '../../protocol/items.ts';
import { MESSAGE_ID_RANDOM_BYTES, messageIdFrom } from '../core/message-id.ts';
import type { Address, MessageRef, OutboxRow, PeerId } from '../core/rows.ts';
import type { RangeOptions, Reader, Transaction } from '../store/host-store.ts';
import type { HostContext } from '../base/context.ts';

interface NewOutboxItem {
  kind: PushedKind;
  itemId: ItemId;
  /** The message it carries, or that it is a receipt for. */
  ref: MessageRef;
  peerId: PeerId;
  recipients: Address[];
  wire: Buffer;
}

/** Adds a row that is due at once. Throws when the peer has one for this item. */
export function addOutboxRow(tx: Transaction, context: HostContext, item: NewOutboxItem): OutboxRow {
  const { wire, ...named } = item;
  if (outboxRowOf(tx, item.peerId, item.itemId)) throw new Error('invariant: an item is queued once for a peer');
  const nowMs = context.nowMs();
  const row: OutboxRow = {
    rowId: tx.next('outbox'),
    wireHash: sha256Hex(wire),
    wireBytes: wire.length,
    state: 'pending',
    createdAtMs: nowMs,
    nextAtMs: nowMs,
    lanAttempts: 0,
    relayAttempts: 0,
    firstPushAtMs: null,
    lanAcceptedAtMs: null,
    acceptance: null,
    alertedAtMs: null,
    lastError: null,
    confirmed: [],
    ...named,
  };
  tx.put('outbox', [row.rowId], row);
  tx.put('outboxWire', [row.rowId], wire);
  tx.put('outboxItem', [row.peerId, row.itemId], row.rowId);
  putDue(tx, row);
  tx.afterCommit(() => context.emit({ type: 'outbox-changed', peerId: row.peerId }));
  return row;
}

/** Puts what became of a row; the due index follows. */
export function putOutboxRow(tx: Transaction, before: OutboxRow, after: OutboxRow): void {
  tx.put('outbox', [after.rowId], after);
  if (after.nextAtMs === before.nextAtMs) return;
  dropDue(tx, before);
  putDue(tx, after);
}

export function dropOutboxRow(tx: Transaction, row: OutboxRow): void {
  dropDue(tx, row);
  tx.delete('outbox', [row.rowId]);
  tx.delete('outboxWire', [row.rowId]);
  tx.delete('outboxItem', [row.peerId, row.itemId]);
}

export function dropOutboxWire(tx: Transaction, row: OutboxRow): void {
  tx.delete('outboxWire', [row.rowId]);
}

/** The row of an item for a peer. */
export function outboxRowOf(reader: Reader, peerId: PeerId, itemId: string): OutboxRow | undefined {
  const rowId = reader.get('outboxItem', peerId, itemId);
  return rowId === undefined ? undefined : reader.get('outbox', rowId);
}

/** The time of the last message to a peer, by this host's clock then; `sinceMs` when none is later. */
export async function lastSentMs(reader: Reader, peerId: PeerId, sinceMs: number): Promise<number> {
  let lastMs = sinceMs;
  // Ids of messages sort by time, and all their letters are before a small one.
  const options: RangeOptions<'outboxItem'> = {
    from: [peerId, messageIdFrom(sinceMs, new Uint8Array(MESSAGE_ID_RANDOM_BYTES))],
    until: [peerId, 'a'],
  };
  for await (const { row: rowId } of reader.range('outboxItem', [peerId], options))
    lastMs = Math.max(lastMs, reader.get('outbox', rowId)?.createdAtMs ?? 0);
  return lastMs;
}

/** The rows of a peer that something is still to be done about, soonest first. */
export async function* openRows(reader: Reader, peerId: PeerId): AsyncGenerator<OutboxRow> {
  for await (const { key } of reader.range('outboxDue', [peerId])) yield openRow(reader, key);
}

export type DueKey = [PeerId, nextAtMs: number, rowId: number];

/** The keys of `openRows` that are due in a time, both ends included. */
export function openKeys(
  reader: Reader,
  peerId: PeerId,
  { fromMs = 0, untilMs, limit }: { fromMs?: number; untilMs?: number; limit: number },
): Promise<DueKey[]> {
  const until = untilMs === undefined ? {} : { until: [peerId, untilMs + 1] as [PeerId, number] };
  return reader.keys('outboxDue', [peerId], { from: [peerId, fromMs], limit, ...until });
}

export function openRow(reader: Reader, [, , rowId]: DueKey): OutboxRow {
  const row = reader.get('outbox', rowId);
  if (!row) throw new Error('invariant: a due row is in the outbox');
  return row;
}

function putDue(tx: Transaction, row: OutboxRow): void {
  if (row.nextAtMs !== null) tx.put('outboxDue', [row.peerId, row.nextAtMs, row.rowId], true);
}

function dropDue(tx: Transaction, row: OutboxRow): void {
  if (row.nextAtMs !== null) tx.delete('outboxDue', [row.peerId, row.nextAtMs, row.rowId]);
}
