/**
 * Makes the items of a page into items to receive (`placedItems`, `itemOfV1`).
 *
 * Nothing that the relay showed is trusted, and all of it can be kept: an item that cannot be read goes into quarantine
 * as it came, and does not hold up those behind it.
 */
import { decodeBase64 } from '../../protocol/base64.ts';
import { ENVELOPE_JSON_BOUNDS, ITEM_JSON_BOUNDS, parseJsonBounded } from '../../protocol/bounded-json.ts';
import { NotCanonicalisable, canonicalBytes } from '../../protocol/canonical-json.ts';
import { isObject } from '../../protocol/json-object.ts';
import { parsePublicKey } from '../../protocol/public-key.ts';
import { type IncomingItem, NOBODYS_KEY } from '../inbound/verify.ts';
import type { RelayScope } from './relay-rows.ts';
import type { PulledItem, PulledPage } from './relay-client.ts';

/** An item of a page, and received-through when it and those before it are done. */
interface PlacedItem {
  item: IncomingItem;
  through: number;
}

/**
 * The items of a page behind `after`, in the order of their seqs. One whose seq cannot be read, or is none of the
 * queue's, has no place: it comes first and moves nothing, and the page's `last_seq` leads past it.
 */
export function placedItems(page: PulledPage, after: number, scope: RelayScope): PlacedItem[] {
  const { head_seq: headSeq, last_seq: lastSeq } = page;
  const placeOf = (seq: number | null): number | null => (seq !== null && seq > 0 && seq <= headSeq ? seq : null);
  const items = [
    ...page.items.map((item) => itemOfV2(item, placeOf(item.seq), scope)),
    ...page.unreadable.map(({ seq, bytes }) => unreadableItem(bytes, placeOf(seq), scope)),
  ].toSorted((a, b) => seqOf(a) - seqOf(b));
  let through = after;
  const placed = items.map((item) => ({ item, through: (through = Math.max(through, seqOf(item))) }));
  const last = placed.at(-1);
  if (last && items.some((item) => seqOf(item) === 0) && lastSeq <= headSeq) {
    last.through = Math.max(last.through, lastSeq);
  }
  return placed;
}

/** 0 for an item without a place. */
function seqOf({ relay }: IncomingItem): number {
  return relay?.seq ?? 0;
}

/** Bytes that are no base64 are what the relay showed: they are kept as they came, and found malformed. */
function itemOfV2(item: PulledItem, seq: number | null, { relayPubkey, epoch }: RelayScope): IncomingItem {
  const { kind, item_id: itemId, sender_pubkey: senderPubkey, wire_b64: text } = item;
  const wire = decodeBase64(text) ?? Buffer.from(text, 'utf8');
  return {
    via: 'relay',
    relay: { pubkey: relayPubkey, epoch, seq },
    kind,
    itemId,
    senderPubkey: parsePublicKey(senderPubkey) ?? NOBODYS_KEY,
    wire,
  };
}

/** What can be read of it is kept as such; without wire bytes the whole of it stands for them. */
function unreadableItem(bytes: Buffer, seq: number | null, { relayPubkey, epoch }: RelayScope): IncomingItem {
  const value = parseJsonBounded(bytes, ITEM_JSON_BOUNDS);
  const { kind, item_id: itemId, sender_pubkey: key, wire_b64: text } = isObject(value) ? value : {};
  return {
    via: 'relay',
    relay: { pubkey: relayPubkey, epoch, seq },
    kind: typeof kind === 'string' ? kind : '',
    itemId: typeof itemId === 'string' ? itemId : '',
    senderPubkey: parsePublicKey(key) ?? NOBODYS_KEY,
    wire: (typeof text === 'string' && decodeBase64(text)) || bytes,
  };
}

/** v1 tells neither a seq nor who pushed the item: the key that the envelope names stands for the sender. */
export function itemOfV1(bytes: Buffer, { relayPubkey, epoch }: RelayScope): IncomingItem {
  const value = parseJsonBounded(bytes, ENVELOPE_JSON_BOUNDS);
  const { id, from_host_pubkey: key } = isObject(value) ? value : {};
  return {
    via: 'relay',
    relay: { pubkey: relayPubkey, epoch, seq: null },
    kind: 'envelope',
    itemId: typeof id === 'string' ? id : '',
    senderPubkey: parsePublicKey(key) ?? NOBODYS_KEY,
    wire: (value !== undefined && canonicalOf(value)) || bytes,
  };
}

function canonicalOf(value: unknown): Buffer | undefined {
  try {
    return canonicalBytes(value);
  } catch (error) {
    if (!(error instanceof NotCanonicalisable)) throw error;
    return undefined;
  }
}
