/** What the owner sees of the quarantine and does about it: list, show, run again, discard. */
import { encodeBase64 } from '../../protocol/base64.ts';
import { isSameHost } from '../core/address.ts';
import { REASONS_OF_UNKNOWN_KEYS } from '../core/quarantine-reasons.ts';
import { type Refusal, refusal } from '../core/refusal.ts';
import type { QuarantineRow } from '../core/rows.ts';
import {
  QUARANTINE_PAGE_MAX,
  type QuarantineDiscardInput,
  type QuarantineDiscardResult,
  type QuarantineInput,
  type QuarantineResult,
  type QuarantineRetryInput,
  type QuarantineRetryResult,
  type QuarantineShowInput,
  type QuarantineShowResult,
  type QuarantinedItem,
} from '../documents/outbox.ts';
import type { Reader } from '../store/host-store.ts';
import type { Office } from './office.ts';
import { QUARANTINE_BOUNDS, quarantineUsage, quarantinedItem, removeFromQuarantine } from './quarantine-rows.ts';
import { inspectItem, receiveItem } from './receive.ts';

/** Newest first. */
export function listQuarantine(office: Office, input: QuarantineInput): Promise<QuarantineResult> {
  return office.store.read(async (reader) => {
    const limit = input.limit ?? QUARANTINE_PAGE_MAX;
    const items: QuarantinedItem[] = [];
    let next: number | null = null;
    const until = input.before === undefined ? {} : { until: [input.before] as [number] };
    for await (const { row } of reader.range('quarantine', [], { ...until, reverse: true })) {
      const item = itemView(reader, row);
      if (!isAskedFor(item, input)) continue;
      if (items.length >= limit) {
        next = items.at(-1)?.number ?? null;
        break;
      }
      items.push(item);
    }
    const { items: totalItems, bytes: totalBytes } = quarantineUsage(reader);
    const { itemsMax, bytesMax } = QUARANTINE_BOUNDS;
    return {
      items,
      next_before: next,
      total_items: totalItems,
      total_bytes: totalBytes,
      items_max: itemsMax,
      bytes_max: bytesMax,
    };
  });
}

export function showQuarantined(
  office: Office,
  { number }: QuarantineShowInput,
): Promise<QuarantineShowResult | Refusal> {
  return office.store.read((reader) => {
    const row = reader.get('quarantine', number);
    if (!row) return refusal('NO_SUCH_ROW', `Nothing in quarantine has the number ${number}.`, { number });
    return { item: itemView(reader, row), wire_b64: encodeBase64(quarantinedItem(reader, row).wire) };
  });
}

/** Receives again what is asked for, or everything: a transaction for each item. */
export async function retryQuarantine(
  office: Office,
  { numbers }: QuarantineRetryInput,
): Promise<QuarantineRetryResult> {
  const asked = numbers ?? (await numbersWhere(office, () => true));
  const result: QuarantineRetryResult = { accepted: [], kept: [], not_found: [] };
  for (const number of asked) {
    const outcome = await retryOne(office, number);
    if (outcome === 'accepted') result.accepted.push(number);
    else if (outcome === undefined) result.not_found.push(number);
    else result.kept.push({ number, reason: outcome.reason, detail: outcome.detail });
  }
  return result;
}

/** A key of a peer was learned, or a host was paired: what was kept for want of it is received again. */
export async function retryUnknownKeys(office: Office): Promise<QuarantineRetryResult> {
  const numbers = await numbersWhere(office, ({ reason }) => REASONS_OF_UNKNOWN_KEYS.has(reason));
  return retryQuarantine(office, { numbers });
}

/** Ends what is in quarantine for good. The sender is not told. */
export function discardQuarantined(
  office: Office,
  { numbers }: QuarantineDiscardInput,
): Promise<QuarantineDiscardResult> {
  return office.store.transact((tx) => {
    const result: QuarantineDiscardResult = { discarded: [], not_found: [] };
    for (const number of new Set(numbers)) {
      const row = tx.get('quarantine', number);
      if (row) removeFromQuarantine(tx, row);
      (row ? result.discarded : result.not_found).push(number);
    }
    return result;
  });
}

/** `undefined` when it is not there, the row when it stays. */
async function retryOne(office: Office, number: number): Promise<'accepted' | QuarantineRow | undefined> {
  const item = await office.store.read((reader) => {
    const row = reader.get('quarantine', number);
    return row && quarantinedItem(reader, row);
  });
  if (!item) return undefined;
  const inspection = await inspectItem(office, item);
  return office.store.transact(async (tx) => {
    if (!tx.get('quarantine', number)) return undefined;
    await receiveItem(tx, office, inspection);
    return tx.get('quarantine', number) ?? 'accepted';
  });
}

function numbersWhere(office: Office, isWanted: (row: QuarantineRow) => boolean): Promise<number[]> {
  return office.store.read(async (reader) => {
    const numbers: number[] = [];
    for await (const { row } of reader.range('quarantine', [])) if (isWanted(row)) numbers.push(row.number);
    return numbers;
  });
}

function isAskedFor(item: QuarantinedItem, { host, reason, via }: QuarantineInput): boolean {
  if (host !== undefined && (item.host === null || !isSameHost(item.host, host))) return false;
  return (reason === undefined || item.reason === reason) && (via === undefined || item.via === via);
}

function itemView(reader: Reader, row: QuarantineRow): QuarantinedItem {
  return {
    number: row.number,
    via: row.via,
    relay: row.relay,
    kind: row.kind,
    item_id: row.itemId,
    sender_pubkey: row.senderPubkey,
    host: row.peerId === null ? null : (reader.get('peer', row.peerId)?.hostName ?? null),
    recipients: row.recipients,
    reason: row.reason,
    detail: row.detail,
    at: row.atMs,
    bytes: row.wireBytes,
  };
}
