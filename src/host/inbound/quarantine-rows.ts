/**
 * The rows of the quarantine with their wire bytes, their counts, and the index that keeps an item from being in it
 * twice; also the log lines and the owner's reports about them. Only this file writes these rows.
 *
 * Invariants:
 *   - every item to keep is written: when its room is full (core/quarantine.ts), either the room's oldest item is
 *     deleted, or the new one is kept without its bytes, so that later items need not wait behind it. Only of strangers
 *     nothing is kept beyond a number of bytes a minute;
 *   - items that were deleted, or kept without bytes for want of room, are counted and reported to the owner.
 */
import { isDeepStrictEqual } from 'node:util';
import { type Sha256Hex, sha256Hex } from '../../protocol/encodings.ts';
import { foldHostName, ITEM_ID_CHARACTERS_MAX } from '../../protocol/names.ts';
import { printableWithin } from '../../protocol/printable.ts';
import type { HostContext } from '../base/context.ts';
import {
  bareScopeOf,
  broughtToo,
  QUARANTINE_ROOMS,
  type QuarantineLossRow,
  type QuarantinePlace,
  type QuarantineRoom,
  type QuarantineRow,
  type QuarantineScope,
  type QuarantineUsage,
  REASONS_OF_UNKNOWN_KEYS,
  scopesOf,
  shareOfKey,
  STRANGERS_BYTES_PER_MINUTE,
  UNKNOWN_KEY_ITEM_BYTES_MAX,
} from '../core/quarantine.ts';
import { OWNER_ID, type PeerId } from '../core/rows.ts';
import { countText } from '../core/spans.ts';
import { type Report, reportToAgent } from '../mailbox/mailbox.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { claimedHost } from '../wire/parse.ts';
import type { IncomingItem, Inspection, KeptReason } from './verify.ts';
import { peerOfKey } from '../peers/peers.ts';

const KIND_CHARACTERS_MAX = 64;
const DETAIL_CHARACTERS_MAX = 500;
const NOTHING: QuarantineUsage = { items: 0, bytes: 0 };
const NO_LOSS: QuarantineLossRow = { bare: 0, dropped: 0, toldBare: 0, toldDropped: 0, atMs: 0, toldAtMs: null };
/** The count of rows from before there were rooms. */
const BEFORE_ROOMS = 'all';

/** The row of exactly this item, if it is in quarantine. */
export function quarantinedRow(reader: Reader, item: IncomingItem, wireHash: Sha256Hex): QuarantineRow | undefined {
  const number = reader.get('quarantineItem', digestOf(item, wireHash));
  return number === undefined ? undefined : reader.get('quarantine', number);
}

export function usageOf(reader: Reader, scope: string): QuarantineUsage {
  return reader.get('quarantineUsage', scope) ?? NOTHING;
}

/** The items and bytes of the whole quarantine, and how many came without room for their bytes (`bare`). */
export function quarantineUsage(reader: Reader): QuarantineUsage & { bare: number } {
  const whole = [BEFORE_ROOMS, ...QUARANTINE_ROOMS].map((scope) => usageOf(reader, scope));
  const bareOf = (room: QuarantineRoom): number => usageOf(reader, bareScopeOf(room).name).items;
  const bare = bareOf('hosts') + bareOf('relays');
  return {
    items: whole.reduce((sum, { items }) => sum + items, bare + bareOf('strangers')),
    bytes: whole.reduce((sum, { bytes }) => sum + bytes, 0),
    bare,
  };
}

/** Adds an item that is not in quarantine yet, with its bytes if they have room; `undefined`: nothing is kept. */
export async function addToQuarantine(
  tx: Transaction,
  context: HostContext,
  item: IncomingItem,
  kept: KeptReason,
): Promise<QuarantineRow | undefined> {
  const { via, relay, kind, senderPubkey, wire } = item;
  const row: QuarantineRow = {
    number: tx.next('quarantine'),
    via,
    relay,
    kind: firstOf(kind, KIND_CHARACTERS_MAX),
    itemId: firstOf(item.itemId, ITEM_ID_CHARACTERS_MAX),
    senderPubkey,
    peerId: peerOfKey(tx, senderPubkey)?.peerId ?? null,
    ...written(kept),
    wireHash: sha256Hex(wire),
    wireBytes: wire.length,
    atMs: context.nowMs(),
    ...placeOf(tx, item),
  };
  return put(tx, context, row, item, { wasBare: false });
}

/**
 * Updates an item that stays in quarantine: reason, recipients, missing bytes if there is room now, and the relays that
 * brought it.
 */
export async function keepInQuarantine(
  tx: Transaction,
  context: HostContext,
  row: QuarantineRow,
  kept: KeptReason,
  { item, copy }: Pick<Inspection, 'item' | 'copy'>,
): Promise<QuarantineRow | undefined> {
  const brought = copy && item.relay ? broughtToo(row, item.relay) : row;
  const next = { ...brought, ...written(kept) };
  const { isBare, ...whole } = next;
  if (!isBare || !mayKeepBytes(tx, whole, item) || !isWithinMinute(context, whole)) {
    if (isDeepStrictEqual(next, row)) return row;
    count(tx, row, -1);
    tx.put('quarantine', [row.number], next);
    count(tx, next, 1);
    return next;
  }
  removeFromQuarantine(tx, row);
  return put(tx, context, whole, item, { wasBare: true });
}

export function removeFromQuarantine(tx: Transaction, row: QuarantineRow): void {
  tx.delete('quarantine', [row.number]);
  if (!row.isBare) tx.delete('quarantineWire', [row.number]);
  tx.delete('quarantineItem', [digestOf(row, row.wireHash)]);
  count(tx, row, -1);
}

/** The item as it came; `undefined` when its bytes were not kept. */
export function quarantinedItem(reader: Reader, row: QuarantineRow): IncomingItem | undefined {
  if (row.isBare) return undefined;
  const wire = reader.get('quarantineWire', row.number);
  if (!wire) throw new Error('invariant: what is in quarantine has its wire bytes');
  const { via, relay, kind, itemId, senderPubkey } = row;
  return { via, relay, kind, itemId, senderPubkey, wire };
}

export function lossOf(reader: Reader, room: QuarantineRoom): QuarantineLossRow {
  return reader.get('quarantineLoss', room) ?? NO_LOSS;
}

async function put(
  tx: Transaction,
  context: HostContext,
  row: QuarantineRow,
  item: IncomingItem,
  { wasBare }: { wasBare: boolean },
): Promise<QuarantineRow | undefined> {
  const { room } = row;
  if (room === undefined) throw new Error('invariant: what comes now has a room');
  const isWanted = mayKeepBytes(tx, row, item);
  const hasRoom = async (one: QuarantineRow): Promise<boolean> =>
    isWithinMinute(context, one) && (await makeRoom(tx, context, room, scopesOfRow(one), sizeOf(one)));
  const fits = isWanted && (await hasRoom(row));
  const kept: QuarantineRow = fits ? row : { ...row, isBare: true };
  if (!fits) {
    if (!isWithinMinute(context, kept)) {
      noteLoss(tx, context, room, { dropped: 1 });
      return undefined;
    }
    await makeRoom(tx, context, room, scopesOfRow(kept), sizeOf(kept));
    if (isWanted && !wasBare) noteLoss(tx, context, room, { bare: 1 });
  }
  noteWritten(context, kept);
  tx.put('quarantine', [kept.number], kept);
  if (fits) tx.put('quarantineWire', [kept.number], item.wire);
  tx.put('quarantineItem', [digestOf(kept, kept.wireHash)], kept.number);
  count(tx, kept, 1);
  return kept;
}

/** True when the bytes of the item may be kept, if there is room. */
function mayKeepBytes(reader: Reader, { room, reason, senderPubkey }: QuarantineRow, item: IncomingItem): boolean {
  if (room !== 'strangers' || peerOfKey(reader, senderPubkey)) return true;
  if (item.wire.length > UNKNOWN_KEY_ITEM_BYTES_MAX || !REASONS_OF_UNKNOWN_KEYS.has(reason)) return false;
  const host = claimedHost(item);
  return host !== undefined && reader.get('peerName', foldHostName(host)) !== undefined;
}

const MINUTE_MS = 60_000;
/** The bytes that were written of strangers in the last minute. */
const writtenOfStrangers = new WeakMap<HostContext, { atMs: number; bytes: number }[]>();

function isWithinMinute(context: HostContext, row: QuarantineRow): boolean {
  if (row.room !== 'strangers') return true;
  const nowMs = context.monotonicMs();
  const recent = (writtenOfStrangers.get(context) ?? []).filter(({ atMs }) => nowMs - atMs < MINUTE_MS);
  writtenOfStrangers.set(context, recent);
  return recent.reduce((sum, { bytes }) => sum + bytes, bytesOf(row)) <= STRANGERS_BYTES_PER_MINUTE;
}

function noteWritten(context: HostContext, row: QuarantineRow): void {
  if (row.room === 'strangers')
    writtenOfStrangers.get(context)?.push({ atMs: context.monotonicMs(), bytes: bytesOf(row) });
}

/** The bytes of the row, and of the wire bytes that are kept with it. */
function bytesOf(row: QuarantineRow): number {
  return Buffer.byteLength(JSON.stringify(row)) + (row.isBare ? 0 : row.wireBytes);
}

/** Deletes the oldest rows in scopes that do so. Returns whether every scope then has room for `bytes` more. */
async function makeRoom(
  tx: Transaction,
  context: HostContext,
  room: QuarantineRoom,
  scopes: readonly QuarantineScope[],
  bytes: number,
): Promise<boolean> {
  const couldEver = scopes.every(
    ({ name, bounds, isOldestDropped }) =>
      bytes <= bounds.bytesMax && bounds.itemsMax > 0 && (isOldestDropped || isWithin(tx, name, bounds, bytes)),
  );
  if (!couldEver) return false;
  for (const { name, bounds } of scopes) {
    while (!isWithin(tx, name, bounds, bytes)) {
      const oldest = await oldestOf(tx, name);
      if (!oldest) throw new Error('invariant: what is full has rows');
      removeFromQuarantine(tx, oldest);
      noteLoss(tx, context, room, { dropped: 1 });
    }
  }
  return true;
}

function isWithin(
  reader: Reader,
  scope: string,
  { itemsMax, bytesMax }: QuarantineScope['bounds'],
  more: number,
): boolean {
  const { items, bytes } = usageOf(reader, scope);
  return items < itemsMax && bytes + more <= bytesMax;
}

/** Starts at the last known oldest row, so that it does not scan deleted keys again. */
async function oldestOf(tx: Transaction, scope: string): Promise<QuarantineRow | undefined> {
  const usage = usageOf(tx, scope);
  for await (const { key } of tx.range('quarantineOldest', [scope], { from: [scope, usage.from ?? 0], limit: 1 })) {
    tx.put('quarantineUsage', [scope], { ...usage, from: key[1] });
    return tx.get('quarantine', key[1]);
  }
  return undefined;
}

function noteLoss(
  tx: Transaction,
  context: HostContext,
  room: QuarantineRoom,
  { bare = 0, dropped = 0 }: { bare?: number; dropped?: number },
): void {
  const before = lossOf(tx, room);
  const after = { bare: before.bare + bare, dropped: before.dropped + dropped, atMs: context.nowMs() };
  tx.put('quarantineLoss', [room], { ...before, ...after });
}

/** The room and share by the bringer: over the LAN the hop proves it; from a relay it is only the relay's claim. */
function placeOf(reader: Reader, { via, senderPubkey }: IncomingItem): QuarantinePlace {
  const peer = peerOfKey(reader, senderPubkey);
  const isPaired = peer?.unpairedAtMs === null;
  if (via === 'relay') return { room: 'relays', share: isPaired ? peer.peerId : shareOfKey(senderPubkey) };
  const isPresent = peer?.keys.some(({ publicKey, retiredAtMs }) => publicKey === senderPubkey && retiredAtMs === null);
  if (isPaired && isPresent) return { room: 'hosts', share: peer.peerId };
  return { room: 'strangers', share: shareOfKey(senderPubkey) };
}

function written({ detail, ...kept }: KeptReason): KeptReason {
  return { ...kept, detail: printableWithin(detail, DETAIL_CHARACTERS_MAX) };
}

function scopesOfRow({ room, share = '', isBare, peerId, senderPubkey }: QuarantineRow): QuarantineScope[] {
  if (room !== undefined) return isBare ? [bareScopeOf(room)] : scopesOf({ room, share });
  const bounds = { itemsMax: 0, bytesMax: 0 };
  return [BEFORE_ROOMS, shareBeforeRooms(senderPubkey, peerId)].map((name) => ({
    name,
    bounds,
    isOldestDropped: false,
  }));
}

function shareBeforeRooms(senderPubkey: string, peerId: PeerId | null): string {
  return peerId === null ? `key:${senderPubkey}` : `peer:${peerId}`;
}

/** Its size in its scopes: its bytes, or the size of its row when they are not kept. */
function sizeOf(row: QuarantineRow): number {
  return row.isBare ? bytesOf(row) : row.wireBytes;
}

function count(tx: Transaction, row: QuarantineRow, sign: 1 | -1): void {
  const size = sizeOf(row);
  for (const { name, isOldestDropped } of scopesOfRow(row)) {
    const { from, ...before } = usageOf(tx, name);
    const after: QuarantineUsage = { items: before.items + sign, bytes: before.bytes + sign * size };
    // A row that got its bytes back has its old number.
    if (from !== undefined) after.from = sign === 1 ? Math.min(from, row.number) : from;
    if (after.items === 0) tx.delete('quarantineUsage', [name]);
    else tx.put('quarantineUsage', [name], after);
    if (!isOldestDropped) continue;
    if (sign === 1) tx.put('quarantineOldest', [name, row.number], true);
    else tx.delete('quarantineOldest', [name, row.number]);
  }
}

/** The row keeps only the first characters of a kind or id that is too long; the bytes tell such items apart. */
function digestOf(
  { kind, senderPubkey, itemId }: Pick<QuarantineRow, 'kind' | 'senderPubkey' | 'itemId'>,
  wireHash: Sha256Hex,
): Sha256Hex {
  const parts = [firstOf(kind, KIND_CHARACTERS_MAX), senderPubkey, firstOf(itemId, ITEM_ID_CHARACTERS_MAX), wireHash];
  return sha256Hex(parts.join('\n'));
}

function firstOf(text: string, charactersMax: number): string {
  return text.slice(0, charactersMax).toWellFormed();
}

/** The time between two log lines at least: strangers may bring many items. */
const LOG_EVERY_MS = 60_000;
/** The shortest time between two reports about one room. */
export const LOSS_REPORT_EVERY_MS = 86_400_000;

const logged = new WeakMap<HostContext, { atMs: number; unlogged: number }>();

/** Logs an item that went into quarantine, but not each of many. */
export function logQuarantined(context: HostContext, { number, reason, via, room, isBare }: QuarantineRow): void {
  const nowMs = context.monotonicMs();
  const last = logged.get(context);
  if (last && nowMs - last.atMs < LOG_EVERY_MS) {
    last.unlogged++;
    return;
  }
  logged.set(context, { atMs: nowMs, unlogged: 0 });
  const more = last && last.unlogged > 0 ? { others_before: last.unlogged } : {};
  const facts = { number, reason, via, room, ...more };
  if (isBare && room !== 'strangers')
    context.log('error', 'the quarantine is full: an item is kept without its bytes', facts);
  else context.log('warn', 'an item went into quarantine', facts);
}

/**
 * Reports to the owner what each room lost since its last report, if that was long enough ago: nothing is dropped in
 * silence ("Receiving host rules", 4).
 */
export async function reportQuarantineLosses(context: HostContext): Promise<void> {
  const nowMs = context.nowMs();
  await context.store.transact((tx) => {
    for (const room of QUARANTINE_ROOMS) {
      const loss = lossOf(tx, room);
      const sinceMs = loss.toldAtMs === null ? Infinity : Math.abs(nowMs - context.momentMs(loss.toldAtMs));
      if ((loss.bare === loss.toldBare && loss.dropped === loss.toldDropped) || sinceMs < LOSS_REPORT_EVERY_MS)
        continue;
      reportToAgent(tx, context, OWNER_ID, { ...lossText(room, loss), kind: 'alert' });
      const reported = { toldBare: loss.bare, toldDropped: loss.dropped, toldAtMs: nowMs };
      tx.put('quarantineLoss', [room], { ...loss, ...reported });
    }
  });
}

const ROOM_TEXT: Readonly<Record<QuarantineRoom, string>> = {
  hosts: 'what paired hosts bring over the LAN',
  relays: 'what a relay brings',
  strangers: 'what hosts bring that are not paired',
};

const AGAIN_TEXT: Readonly<Record<QuarantineRoom, string>> = {
  hosts: 'Their hosts have them still and bring them again, until there is room or they can be let in.',
  relays: 'Before they can be let in, their senders have to send them again.',
  strangers: 'Before they can be let in, they have to come again.',
};

function lossText(room: QuarantineRoom, loss: QuarantineLossRow): Omit<Report, 'kind'> {
  const bare = loss.bare - loss.toldBare;
  const dropped = loss.dropped - loss.toldDropped;
  const sentences = [`The quarantine is full for ${ROOM_TEXT[room]}.`];
  if (bare > 0) {
    sentences.push(
      `${countText(bare, 'item')} came for which there was no room: id, sender, reason and SHA-256 are kept, ` +
        `the bytes are not. ${AGAIN_TEXT[room]}`,
    );
  }
  if (dropped > 0)
    sentences.push(
      `${countText(dropped, 'item')} cannot be shown any more: newer ones took their room, or too many came at once.`,
    );
  sentences.push('poste quarantine lists what is there, and poste quarantine discard makes room.');
  return { subject: `Quarantine full for ${ROOM_TEXT[room]}`, body: sentences.join(' ') };
}
