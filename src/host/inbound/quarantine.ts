/** The owner's operations on the quarantine (list, show, retry, discard), and the retries after a key is learned. */
import { encodeBase64 } from '../../protocol/encodings.ts';
import { isoSecond } from '../../protocol/time.ts';
import type {
  QuarantineDiscardInput,
  QuarantineDiscardResult,
  QuarantinedItem,
  QuarantineInput,
  QuarantineResult,
  QuarantineRetryInput,
  QuarantineRetryResult,
  QuarantineShowInput,
  QuarantineShowResult,
} from '../contract/outbox.ts';
import { QUARANTINE_PAGE_MAX } from '../contract/limits.ts';
import { SingleFlightTask } from '../../lib/periodic-task.ts';
import { type HostContext, isStoreFailure } from '../base/context.ts';
import { isSameHost } from '../core/address.ts';
import {
  bareScopeOf,
  QUARANTINE_BOUNDS,
  QUARANTINE_ROOMS,
  type QuarantineRoom,
  REASONS_OF_UNKNOWN_KEYS,
} from '../core/quarantine.ts';
import { type Refusal, refusal } from '../core/refusal.ts';
import type { QuarantineRow } from '../core/quarantine.ts';
import type { Reader } from '../store/host-store.ts';
import { lossOf, quarantinedItem, quarantineUsage, removeFromQuarantine, usageOf } from './quarantine-rows.ts';
import { inspectItem, receiveItem } from './receive.ts';

const NO_BYTES = 'its bytes were not kept: it has to come again before it can be let in';

/** Newest first. */
export function listQuarantine(context: HostContext, input: QuarantineInput): Promise<QuarantineResult> {
  return context.store.read(async (reader) => {
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
    const rooms = QUARANTINE_ROOMS.map((room) => roomView(reader, room));
    return { items, next_before: next, total_items: totalItems, total_bytes: totalBytes, rooms };
  });
}

export function showQuarantined(
  context: HostContext,
  { number }: QuarantineShowInput,
): Promise<QuarantineShowResult | Refusal> {
  return context.store.read((reader) => {
    const row = reader.get('quarantine', number);
    if (!row)
      return refusal('NO_SUCH_ROW', `Nothing in quarantine has the number ${number}: see poste quarantine.`, {
        number,
      });
    const wire = quarantinedItem(reader, row)?.wire;
    return { item: itemView(reader, row), wire_b64: wire ? encodeBase64(wire) : null };
  });
}

/** Receives the named items again, or all: one transaction for each item. */
export async function retryQuarantine(
  context: HostContext,
  { numbers }: QuarantineRetryInput,
): Promise<QuarantineRetryResult> {
  const asked = numbers ?? (await numbersWhere(context, () => true));
  const result: QuarantineRetryResult = { accepted: [], kept: [], not_found: [] };
  for (const number of asked) {
    const outcome = await retryOne(context, number);
    if (outcome === 'accepted') result.accepted.push(number);
    else if (outcome === undefined) result.not_found.push(number);
    else result.kept.push({ number, reason: outcome.reason, detail: outcome.isBare ? NO_BYTES : outcome.detail });
  }
  return result;
}

/** Receives again what was kept for want of a key. Called when a peer's key was learned or a host was paired. */
export async function retryUnknownKeys(context: HostContext): Promise<QuarantineRetryResult> {
  const numbers = await numbersWhere(context, ({ reason, isBare }) => !isBare && REASONS_OF_UNKNOWN_KEYS.has(reason));
  return retryQuarantine(context, { numbers });
}

/** Deletes items from the quarantine for good. Does not notify the sender. */
export function discardQuarantined(
  context: HostContext,
  { numbers }: QuarantineDiscardInput,
): Promise<QuarantineDiscardResult> {
  return context.store.transact((tx) => {
    const result: QuarantineDiscardResult = { discarded: [], not_found: [] };
    for (const number of new Set(numbers)) {
      const row = tx.get('quarantine', number);
      if (row) removeFromQuarantine(tx, row);
      (row ? result.discarded : result.not_found).push(number);
    }
    return result;
  });
}

/** `accepted`, the row of an item that stays, or `undefined` when there is none. */
async function retryOne(context: HostContext, number: number): Promise<'accepted' | QuarantineRow | undefined> {
  const { row, item } = await context.store.read((reader) => {
    const found = reader.get('quarantine', number);
    return { row: found, item: found && quarantinedItem(reader, found) };
  });
  if (!item) return row;
  const inspection = await inspectItem(context, item);
  return context.store.transact(async (tx) => {
    if (!tx.get('quarantine', number)) return undefined;
    await receiveItem(tx, context, inspection);
    return tx.get('quarantine', number) ?? 'accepted';
  });
}

function numbersWhere(context: HostContext, isWanted: (row: QuarantineRow) => boolean): Promise<number[]> {
  return context.store.read(async (reader) => {
    const numbers: number[] = [];
    for await (const { row } of reader.range('quarantine', [])) if (isWanted(row)) numbers.push(row.number);
    return numbers;
  });
}

function isAskedFor(item: QuarantinedItem, { host, reason, via }: QuarantineInput): boolean {
  if (host !== undefined && (item.host === null || !isSameHost(item.host, host))) return false;
  return (reason === undefined || item.reason === reason) && (via === undefined || item.via === via);
}

function roomView(reader: Reader, room: QuarantineRoom): QuarantineResult['rooms'][number] {
  const { items, bytes } = usageOf(reader, room);
  const { itemsMax, bytesMax } = QUARANTINE_BOUNDS[room].all;
  const without = usageOf(reader, bareScopeOf(room).name).items;
  const { dropped } = lossOf(reader, room);
  return { room, items, bytes, items_max: itemsMax, bytes_max: bytesMax, without_bytes: without, dropped };
}

function itemView(reader: Reader, row: QuarantineRow): QuarantinedItem {
  return {
    number: row.number,
    via: row.via,
    relay: row.relay,
    ...(row.relays && { relays: [...row.relays] }),
    kind: row.kind,
    item_id: row.itemId,
    sender_pubkey: row.senderPubkey,
    host: row.peerId === null ? null : (reader.get('peer', row.peerId)?.hostName ?? null),
    recipients: row.recipients,
    reason: row.reason,
    detail: row.detail,
    at: isoSecond(row.atMs),
    bytes: row.wireBytes,
    wire_hash: row.wireHash,
    room: row.room ?? null,
    has_bytes: !row.isBare,
  };
}

/** Receives again what waits for a key, after each key that is learned (`rerun`): one round after another. */
export function quarantineRetries(context: HostContext): SingleFlightTask {
  return new SingleFlightTask({
    work: async () => void (await retryUnknownKeys(context)),
    onError: (error) => {
      if (isStoreFailure(error)) return;
      context.log('error', 'what is in quarantine could not be received again', { err: error });
    },
  });
}
