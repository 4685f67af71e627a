/**
 * One pushed item: an element of `items` in `POST /v2/relay/items` becomes typed values, and the relay inspects its
 * wire bytes.
 *
 * Of the wire bytes the relay checks only that an envelope is sealed and carries its id, and that a receipt is exactly
 * a signed delivery receipt. It cannot read the sealed body.
 */
import { type Sha256Hex, decodeBase64, sha256Hex } from './encodings.ts';
import { ENVELOPE_JSON_BOUNDS, RECEIPT_JSON_BOUNDS, isObject, parseJsonBounded } from './json.ts';
import { canonicalBytes } from './canonical-json.ts';
import { DELIVERY_STATES } from './documents.ts';
import { verifySignature } from './ed25519.ts';
import { ITEM_ID_CHARACTERS_MAX, type ItemId, parseMessageId, parseReceiptId } from './names.ts';
import { type PublicKey, parsePublicKey } from './public-key.ts';

/** The kinds of items that a host may push. DO NOT CHANGE: stored. */
export const PUSHED_KINDS = ['envelope', 'receipt'] as const;
export type PushedKind = (typeof PUSHED_KINDS)[number];

/** The kinds of items that a page may hold. DO NOT CHANGE the order: stored as positions. */
export const ITEM_KINDS = [...PUSHED_KINDS, 'expired'] as const;
export type ItemKind = (typeof ITEM_KINDS)[number];

/** Says why one item is rejected: the text after `rejected:`. DO NOT CHANGE: senders read it. */
export const ITEM_REJECTIONS = [
  'malformed',
  'too many targets',
  'duplicate target',
  'too large',
  'unknown target',
  'target revoked',
  'sender not accepted by target',
  'not sealed',
  'id mismatch',
  'bad receipt',
  'conflict',
  'quota:queue_items',
  'quota:queue_bytes',
  'quota:sender_items',
  'quota:sender_bytes',
  'quota:owner_items',
  'quota:owner_bytes',
  'quota:dedup_rows',
  'quota:relay_bytes',
  'quota:places',
  'target unavailable',
] as const;
export type ItemRejection = (typeof ITEM_REJECTIONS)[number];

const NO_BYTES = Buffer.alloc(0);
// Pure: what needs nothing of it does not load node:crypto for it, which takes a hook longer than its call.
const NO_BYTES_HASH = /* @__PURE__ */ sha256Hex(NO_BYTES);

export interface PushedTarget {
  hostPubkey: PublicKey;
  /** The exact bytes to store; empty when they exceed `itemBytesMax`. */
  wire: Buffer;
  /** The number of bytes. */
  bytes: number;
  /** SHA-256 of exactly these bytes. */
  wireHash: Sha256Hex;
}

export interface PushedItem {
  kind: PushedKind;
  itemId: ItemId;
  targets: PushedTarget[];
}

export interface ItemBounds {
  /** One target more than this is parsed, which is enough to see that there are too many. */
  targetsMax: number;
  /** Longer wire bytes are measured but not decoded. */
  itemBytesMax: number;
}

/** The item, or `undefined` when it is malformed: a wrong type, a missing member, a bad id, key or encoding. */
export function parsePushedItem(value: unknown, bounds: ItemBounds): PushedItem | undefined {
  if (!isObject(value)) return undefined;
  const { kind, item_id: itemIdText, targets: targetValues } = value;
  if (kind !== 'envelope' && kind !== 'receipt') return undefined;
  if (typeof itemIdText !== 'string') return undefined;
  const itemId = kind === 'envelope' ? parseMessageId(itemIdText) : parseReceiptId(itemIdText);
  if (itemId === undefined || !Array.isArray(targetValues) || targetValues.length === 0) return undefined;
  const targets: PushedTarget[] = [];
  for (const targetValue of (targetValues as unknown[]).slice(0, bounds.targetsMax + 1)) {
    const target = parseTarget(targetValue, bounds.itemBytesMax);
    if (!target) return undefined;
    targets.push(target);
  }
  return { kind, itemId, targets };
}

/** The `item_id` for the answer to an item that may be malformed. */
export function itemIdToEcho(value: unknown): string | null {
  const itemId = isObject(value) ? value['item_id'] : undefined;
  return typeof itemId === 'string' && itemId.length <= ITEM_ID_CHARACTERS_MAX && itemId.isWellFormed() ? itemId : null;
}

function parseTarget(value: unknown, itemBytesMax: number): PushedTarget | undefined {
  if (!isObject(value)) return undefined;
  const { host_pubkey: hostPubkeyText, wire_b64: wireText } = value;
  const hostPubkey = parsePublicKey(hostPubkeyText);
  if (!hostPubkey || typeof wireText !== 'string') return undefined;
  const bytesAtLeast = (wireText.length / 4) * 3 - 2;
  if (bytesAtLeast > itemBytesMax) return { hostPubkey, wire: NO_BYTES, wireHash: NO_BYTES_HASH, bytes: bytesAtLeast };
  const wire = decodeBase64(wireText);
  return wire && { hostPubkey, wire, wireHash: sha256Hex(wire), bytes: wire.length };
}

export type EnvelopeVerdict = 'sealed' | 'not sealed' | 'id mismatch';

export function inspectEnvelope(wire: Buffer, itemId: ItemId): EnvelopeVerdict {
  const envelope = parseJsonBounded(wire, ENVELOPE_JSON_BOUNDS);
  if (!isObject(envelope) || Object.hasOwn(envelope, 'body')) return 'not sealed';
  const sealed = Object.hasOwn(envelope, 'sealed') ? envelope['sealed'] : undefined;
  if (!isObject(sealed) || !['alg', 'enc', 'ct'].every((name) => isFilled(sealed, name))) return 'not sealed';
  return Object.hasOwn(envelope, 'id') && envelope['id'] === itemId ? 'sealed' : 'id mismatch';
}

/**
 * Says whether `wire` is the delivery receipt `itemId`, signed by one of `signers` (the pusher's key and its retired
 * keys).
 */
export function isSignedReceipt(wire: Buffer, itemId: ItemId, signers: readonly PublicKey[]): boolean {
  const receipt = parseJsonBounded(wire, RECEIPT_JSON_BOUNDS);
  if (!isObject(receipt) || Object.keys(receipt).length !== 2 || !isObject(receipt['rec'])) return false;
  const { rec, sig } = receipt as { rec: Record<string, unknown>; sig: unknown };
  const signer = parsePublicKey(rec['host_pubkey']);
  if (rec['type'] !== 'receipt' || !signer || !signers.includes(signer)) return false;
  if (!(DELIVERY_STATES as readonly unknown[]).includes(rec['state'])) return false;
  const { msg, recipient, seq } = rec;
  if (typeof msg !== 'string' || typeof recipient !== 'string' || typeof seq !== 'number') return false;
  if (itemId !== `receipt:${msg}:${recipient}:${seq}`) return false;
  try {
    return canonicalBytes(receipt).equals(wire) && verifySignature(signer, canonicalBytes(rec), sig);
  } catch {
    return false;
  }
}

function isFilled(object: Record<string, unknown>, name: string): boolean {
  const member = Object.hasOwn(object, name) ? object[name] : undefined;
  return typeof member === 'string' && member !== '';
}

/**
 * An item of a page up to the base64 of its wire bytes, behind which `PULLED_ITEM_TAIL` stands. Ids, kinds and keys are
 * ASCII without quotes or backslashes, by the patterns that they passed when they were stored.
 */
export function pulledItemHead({ seq, kind, itemId, senderPubkey }: PulledItem): string {
  return `{"seq":${seq},"kind":"${kind}","item_id":"${itemId}","sender_pubkey":"${senderPubkey}","wire_b64":"`;
}

export const PULLED_ITEM_TAIL = '"}';

interface PulledItem {
  seq: number;
  kind: ItemKind;
  itemId: ItemId;
  senderPubkey: PublicKey;
}
