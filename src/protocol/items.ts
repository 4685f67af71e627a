/** One element of `items` in `POST /v2/relay/items`, from unknown JSON to typed values. */
import { decodeBase64 } from './base64.ts';
import { type Sha256Hex, sha256Hex } from './digest.ts';
import { ITEM_ID_CHARACTERS_MAX, type ItemId, parseMessageId, parseReceiptId } from './names.ts';
import { type PublicKey, parsePublicKey } from './public-key.ts';

/** What a host may push. DO NOT CHANGE: stored. */
export const PUSHED_KINDS = ['envelope', 'receipt'] as const;
export type PushedKind = (typeof PUSHED_KINDS)[number];

/** What a page may hold. DO NOT CHANGE the order: stored as positions. */
export const ITEM_KINDS = [...PUSHED_KINDS, 'expired'] as const;
export type ItemKind = (typeof ITEM_KINDS)[number];

export interface PushedTarget {
  hostPubkey: PublicKey;
  /** The exact bytes to store. */
  wire: Buffer;
  /** SHA-256 of exactly these bytes. */
  wireHash: Sha256Hex;
}

export interface PushedItem {
  kind: PushedKind;
  itemId: ItemId;
  targets: PushedTarget[];
}

/** The item, or `undefined` when it is malformed: any wrong type, a missing member, a bad id, key or encoding. */
export function parsePushedItem(value: unknown): PushedItem | undefined {
  if (!isObject(value)) return undefined;
  const { kind, item_id: itemIdText, targets: targetValues } = value;
  if (kind !== 'envelope' && kind !== 'receipt') return undefined;
  if (typeof itemIdText !== 'string') return undefined;
  const itemId = kind === 'envelope' ? parseMessageId(itemIdText) : parseReceiptId(itemIdText);
  if (itemId === undefined || !Array.isArray(targetValues) || targetValues.length === 0) return undefined;
  const targets: PushedTarget[] = [];
  for (const targetValue of targetValues as unknown[]) {
    const target = parseTarget(targetValue);
    if (!target) return undefined;
    targets.push(target);
  }
  return { kind, itemId, targets };
}

/** The `item_id` to answer with for an item that may be malformed. */
export function itemIdToEcho(value: unknown): string | null {
  const itemId = isObject(value) ? value['item_id'] : undefined;
  return typeof itemId === 'string' && itemId.length <= ITEM_ID_CHARACTERS_MAX && itemId.isWellFormed() ? itemId : null;
}

function parseTarget(value: unknown): PushedTarget | undefined {
  if (!isObject(value)) return undefined;
  const { host_pubkey: hostPubkeyText, wire_b64: wireText } = value;
  const hostPubkey = parsePublicKey(hostPubkeyText);
  const wire = typeof wireText === 'string' ? decodeBase64(wireText) : undefined;
  return hostPubkey && wire ? { hostPubkey, wire, wireHash: sha256Hex(wire) } : undefined;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
