/**
 * The quarantine: its rows, why an item is in it, and how much room each bringer has. Pure.
 *
 *     hosts      brought over the LAN by a paired host: each has a share
 *     relays     brought by a relay: each sender has a share, and all senders that are not paired have one together
 *     strangers  brought over the LAN by anybody else: small, and the oldest item goes first; what is written of them
 *                in a minute has a bound, and bytes under a key that was never paired are kept only where a rotation
 *                may be awaited: when the item claims to be from a paired host, whose next key this may be
 *
 * A relay only claims who sent an item, so what it brings takes no room from what hosts bring themselves. When there is
 * no room for the bytes of an item, its row is kept without them ("bare"), as long as there is room for the row.
 */
import type { Sha256Hex } from '../../protocol/encodings.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { Address, ItemAtRelay, PeerId } from './rows.ts';

/**
 * Says why an item of a peer is kept in quarantine instead of being delivered or applied.
 *
 * "Receiving host rules", rules 2 and 4. DO NOT CHANGE a code: rows hold it and programs switch on it.
 */
export const QUARANTINE_REASONS = [
  'malformed', // no envelope, receipt or notice, or not in its one canonical form
  'id-mismatch', // it is not what its item id names
  'unknown-sender', // signed by a key of no paired host: it may be a new key that is not known here yet
  'unpaired', // signed by a host that was paired once
  'sender-mismatch', // brought by another host than the one that signed it
  'retired-key', // signed by a key that its host gave up, and too late or not brought by that host
  'bad-signature',
  'wrong-from', // its sender does not live on the host that signed it
  'wrong-target', // it is for another host
  'no-seal-key', // sealed to a key that this host has not, or no longer
  'not-opened', // the seal is broken
  'bad-content', // what was sealed is no message
  'id-conflict', // its id came before with other content
  'unknown-agent', // no such agent lives here
  'unknown-message', // a receipt for what was never sent to that host
  'wrong-recipient', // a receipt for somebody whom the message did not go to there
  'wrong-hash', // a receipt for other bytes than were sent
  'too-early', // an expiry notice of before the relay's retention can have passed
] as const;
export type QuarantineReason = (typeof QUARANTINE_REASONS)[number];

/** The reasons that may disappear once this host learns a key of a peer. */
export const REASONS_OF_UNKNOWN_KEYS: ReadonlySet<QuarantineReason> = new Set(['unknown-sender', 'unpaired']);

export const QUARANTINE_ROOMS = ['hosts', 'relays', 'strangers'] as const;
/** DO NOT CHANGE: stored. */
export type QuarantineRoom = (typeof QUARANTINE_ROOMS)[number];

/** An item that may not be accepted; it is kept, never dropped in silence. */
export interface QuarantineRow {
  number: number;
  via: 'lan' | 'relay';
  /** Null for an item over the LAN. */
  relay: ItemAtRelay | null;
  /** Others of this host's relays that brought it since, each once. */
  relays?: readonly ItemAtRelay[];
  /** An `ItemKind`, or the text that a relay gave instead. */
  kind: string;
  itemId: string;
  /** The key that brought it, by its hop or by the relay's claim; empty when it cannot be read. */
  senderPubkey: PublicKey;
  /** The paired host that has this key. */
  peerId: PeerId | null;
  /** The recipients that did not get it, when others did; null when nobody got it. */
  recipients: Address[] | null;
  reason: QuarantineReason;
  /** For people. */
  detail: string;
  wireHash: Sha256Hex;
  wireBytes: number;
  atMs: number;
  /** The room it counts in; absent in rows from before there were rooms. */
  room?: QuarantineRoom;
  /** The share of the room it counts in: a paired host, or a key of no paired host. */
  share?: string;
  /** Its bytes are not kept: there was no room for them. It must come again before it can be accepted. */
  isBare?: true;
}

/** The relays that brought the item. */
export function relaysOfRow(row: QuarantineRow | undefined): PublicKey[] {
  return [row?.relay, ...(row?.relays ?? [])].flatMap((relay) => relay?.pubkey ?? []);
}

/** The row of an item that came over this relay, too. */
export function broughtToo(row: QuarantineRow, relay: ItemAtRelay): QuarantineRow {
  return relaysOfRow(row).includes(relay.pubkey) ? row : { ...row, relays: [...(row.relays ?? []), relay] };
}

/** The usage of one room, or of one share of it. */
export interface QuarantineUsage {
  items: number;
  bytes: number;
  /** No row of it has a lower number. */
  from?: number;
}

/** Counts what a room had no room for: in all, and up to the owner's last report. */
export interface QuarantineLossRow {
  /** Items kept without their bytes. */
  bare: number;
  /** Items of which nothing is left: deleted to make room for newer ones, or beyond what is recorded in a minute. */
  dropped: number;
  toldBare: number;
  toldDropped: number;
  atMs: number;
  toldAtMs: number | null;
}

export interface QuarantineBounds {
  itemsMax: number;
  bytesMax: number;
}

interface RoomBounds {
  all: QuarantineBounds;
  /** The bounds of one paired host. */
  host: QuarantineBounds;
  /** The bounds of all keys of no paired host together, and of one such key. */
  unknown: QuarantineBounds;
  key: QuarantineBounds;
  /** Items without their bytes, and the size of their rows. */
  bare: QuarantineBounds;
}

const MIB = 1 << 20;
const HOST: QuarantineBounds = { itemsMax: 2_000, bytesMax: 64 * MIB };
const NONE: QuarantineBounds = { itemsMax: 0, bytesMax: 0 };

export const QUARANTINE_BOUNDS: Readonly<Record<QuarantineRoom, RoomBounds>> = {
  hosts: {
    all: { itemsMax: 10_000, bytesMax: 256 * MIB },
    host: HOST,
    unknown: NONE,
    key: NONE,
    bare: { itemsMax: 10_000, bytesMax: 16 * MIB },
  },
  relays: {
    all: { itemsMax: 10_000, bytesMax: 256 * MIB },
    host: HOST,
    unknown: { itemsMax: 2_000, bytesMax: 64 * MIB },
    key: { itemsMax: 500, bytesMax: 16 * MIB },
    bare: { itemsMax: 10_000, bytesMax: 16 * MIB },
  },
  strangers: {
    all: { itemsMax: 500, bytesMax: 16 * MIB },
    host: NONE,
    unknown: { itemsMax: 500, bytesMax: 16 * MIB },
    key: { itemsMax: 50, bytesMax: 4 * MIB },
    bare: { itemsMax: 500, bytesMax: MIB },
  },
};

/** So much may be written of the strangers' room in a minute, rows and bytes. More than that is not recorded at all. */
export const STRANGERS_BYTES_PER_MINUTE = MIB;
/** Bytes of one item under a key that was never paired: a longer one is recorded without them. */
export const UNKNOWN_KEY_ITEM_BYTES_MAX = 64 << 10;

/** A count with a bound. */
export interface QuarantineScope {
  name: string;
  bounds: QuarantineBounds;
  /** When it is full: delete its oldest rows, or else keep new items without their bytes. */
  isOldestDropped: boolean;
}

/** The room and share of an item; `share` is a peer id, or `key:` and a key of no paired host. */
export interface QuarantinePlace {
  room: QuarantineRoom;
  share: string;
}

const KEY_SHARE = 'key:';

export function shareOfKey(key: string): string {
  return `${KEY_SHARE}${key}`;
}

/** The counts that an item with its bytes is part of, the narrowest first. */
export function scopesOf({ room, share }: QuarantinePlace): QuarantineScope[] {
  const bounds = QUARANTINE_BOUNDS[room];
  const isOldestDropped = room === 'strangers';
  const isKey = share.startsWith(KEY_SHARE);
  return [
    { name: `${room}/${share}`, bounds: isKey ? bounds.key : bounds.host, isOldestDropped },
    ...(isKey ? [{ name: `${room}/unknown`, bounds: bounds.unknown, isOldestDropped }] : []),
    { name: room, bounds: bounds.all, isOldestDropped },
  ];
}

/** The count that an item without its bytes is part of. */
export function bareScopeOf(room: QuarantineRoom): QuarantineScope {
  return { name: `${room}/bare`, bounds: QUARANTINE_BOUNDS[room].bare, isOldestDropped: true };
}
