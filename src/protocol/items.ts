/**
 * One pushed item: an element of `items` in `POST /v2/relay/items` becomes typed values, and the relay inspects its
 * wire bytes.
 *
 * Of the wire bytes the relay checks only that an envelope is sealed and carries its id, and that a receipt is exactly
 * a signed delivery receipt. It cannot read the sealed body.
 */
import { isUtf8 } from 'node:buffer';
import { type Sha256Hex, decodeBase64, sha256Hex } from './encodings.ts';
import { ENVELOPE_JSON_BOUNDS, RECEIPT_JSON_BOUNDS, isObject, parseJsonBounded } from './json.ts';
import { canonicalBytes, DELIVERY_STATES, signedBytesIn } from './documents.ts';
import { verifySignature } from './ed25519.ts';
import { ITEM_ID_CHARACTERS_MAX, type ItemId, parseMessageId, parseReceiptId } from './names.ts';
import { PUBLIC_KEY_BYTES, type PublicKey, parsePublicKey, publicKeyFromBytes } from './public-key.ts';

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

/**
 * The item, or `undefined` when it is malformed: a wrong type, a missing member, a bad id, key or encoding. In JSON the
 * keys and wire bytes are base64, in the binary form (`readPush`) they are bytes.
 */
export function parsePushedItem(value: unknown, bounds: ItemBounds, isBinary = false): PushedItem | undefined {
  if (!isObject(value)) return undefined;
  const { kind: kindText, item_id: itemIdText, targets: targetValues } = value;
  // One text for all items: that of this one would be kept as long as its row.
  const kind = PUSHED_KINDS.find((one) => one === kindText);
  if (!kind) return undefined;
  if (typeof itemIdText !== 'string') return undefined;
  const itemId = kind === 'envelope' ? parseMessageId(itemIdText) : parseReceiptId(itemIdText);
  if (itemId === undefined || !Array.isArray(targetValues) || targetValues.length === 0) return undefined;
  const targets: PushedTarget[] = [];
  for (const targetValue of (targetValues as unknown[]).slice(0, bounds.targetsMax + 1)) {
    if (!isObject(targetValue)) return undefined;
    const target = (isBinary ? binaryTarget : jsonTarget)(targetValue, bounds.itemBytesMax);
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

function jsonTarget(value: Record<string, unknown>, itemBytesMax: number): PushedTarget | undefined {
  const { host_pubkey: hostPubkeyText, wire_b64: wireText } = value;
  const hostPubkey = parsePublicKey(hostPubkeyText);
  if (!hostPubkey || typeof wireText !== 'string') return undefined;
  const bytesAtLeast = (wireText.length / 4) * 3 - 2;
  if (bytesAtLeast > itemBytesMax) return { hostPubkey, wire: NO_BYTES, wireHash: NO_BYTES_HASH, bytes: bytesAtLeast };
  const wire = decodeBase64(wireText);
  return wire && { hostPubkey, wire, wireHash: sha256Hex(wire), bytes: wire.length };
}

function binaryTarget({ host_pubkey: key, wire }: Record<string, unknown>, bytesMax: number): PushedTarget | undefined {
  if (!Buffer.isBuffer(key) || key.length !== PUBLIC_KEY_BYTES || !Buffer.isBuffer(wire)) return undefined;
  const hostPubkey = publicKeyFromBytes(key);
  const bytes = wire.length;
  if (bytes > bytesMax) return { hostPubkey, wire: NO_BYTES, wireHash: NO_BYTES_HASH, bytes };
  return { hostPubkey, wire, wireHash: sha256Hex(wire), bytes };
}

export function inspectEnvelope(wire: Buffer, itemId: ItemId): 'sealed' | 'not sealed' | 'id mismatch' {
  if (isPlainlySealed(wire, itemId)) return 'sealed';
  const envelope = parseJsonBounded(wire, ENVELOPE_JSON_BOUNDS);
  if (!isObject(envelope) || Object.hasOwn(envelope, 'body')) return 'not sealed';
  const sealed = Object.hasOwn(envelope, 'sealed') ? envelope['sealed'] : undefined;
  if (!isObject(sealed) || !['alg', 'enc', 'ct'].every((name) => isFilled(sealed, name))) return 'not sealed';
  return Object.hasOwn(envelope, 'id') && envelope['id'] === itemId ? 'sealed' : 'id mismatch';
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** The most members, and texts in each list: together they stay within the bounds of an envelope that is parsed. */
const COUNT_MAX = 64;
/** Behind these, native code finds the end of a text, and its bytes are looked at four at a time. */
const SHORT_TEXT_BYTES = 48;

/** The bytes that stand for themselves in a text, in UTF-8. */
const IS_PLAIN = /* @__PURE__ */ tableOf((byte) => byte >= 0x20 && byte !== QUOTE && byte !== BACKSLASH);
/** The bytes behind a backslash, but for `u`. */
const IS_ESCAPED = /* @__PURE__ */ tableOf((byte) => String.raw`"\/bfnrt`.includes(String.fromCharCode(byte)));

/** The members that say whether an envelope is sealed, each a bit. */
const OTHER = 0;
const ID = 1;
const SEALED = 2;
const ALG = 4;
const ENC = 8;
const CT = 16;
const ALL = ID | SEALED | ALG | ENC | CT;

function tableOf(holds: (byte: number) => boolean): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) => Number(holds(byte)));
}

/**
 * Reads from its bytes that an envelope is sealed and carries its id, where it has the form that nearly all have: an
 * object of texts, whole numbers, lists of texts and the object of texts `sealed`, without spaces, in any order.
 *
 * Every envelope that is pushed is looked at, and `JSON.parse` makes all of it, its ciphertext too, into objects and
 * texts that nobody reads. Only `true` is an answer: an envelope of another form must be parsed.
 */
export function isPlainlySealed(wire: Buffer, itemId: ItemId): boolean {
  if (wire[0] !== OPEN_OBJECT || !isUtf8(wire)) return false;
  let found = 0;
  let isInSealed = false;
  let at = 1;
  for (let members = 0; members < COUNT_MAX; members++) {
    const nameEnd = wire[at] === QUOTE ? endOfText(wire, at + 1) : 0;
    if (nameEnd === 0 || wire[nameEnd] !== COLON) return false;
    const member = isInSealed ? memberOfSealed(wire, at + 1, nameEnd - 1) : memberOf(wire, at + 1, nameEnd - 1);
    if (member === undefined || found & member) return false;
    found |= member;
    const from = nameEnd + 1;
    if (member === SEALED) {
      if (wire[from] !== OPEN_OBJECT) return false;
      isInSealed = true;
      at = from + 1;
      continue;
    }
    at = endOfValue(wire, from);
    if (at === 0 || (member !== OTHER && (wire[from] !== QUOTE || at === from + 2))) return false;
    if (member === ID && !isText(wire, from + 1, at - 1, itemId)) return false;
    if (isInSealed && wire[at] === CLOSE_OBJECT) {
      isInSealed = false;
      at++;
    }
    if (wire[at] !== COMMA) return found === ALL && !isInSealed && isEnd(wire, at);
    at++;
  }
  return false;
}

function isEnd(wire: Buffer, at: number): boolean {
  return wire[at] === CLOSE_OBJECT && at + 1 === wire.length;
}

/** `undefined` for a plaintext body. */
function memberOf(wire: Buffer, from: number, until: number): number | undefined {
  if (isText(wire, from, until, 'id')) return ID;
  if (isText(wire, from, until, 'sealed')) return SEALED;
  return isText(wire, from, until, 'body') ? undefined : OTHER;
}

function memberOfSealed(wire: Buffer, from: number, until: number): number {
  if (isText(wire, from, until, 'alg')) return ALG;
  if (isText(wire, from, until, 'enc')) return ENC;
  return isText(wire, from, until, 'ct') ? CT : OTHER;
}

function isText(wire: Buffer, from: number, until: number, text: string): boolean {
  if (until - from !== text.length) return false;
  for (let at = 0; at < text.length; at++) if (wire[from + at] !== text.charCodeAt(at)) return false;
  return true;
}

/** The offset behind a text, a whole number or a list of texts that begins at `from`; 0 for everything else. */
function endOfValue(wire: Buffer, from: number): number {
  if (wire[from] === QUOTE) return endOfText(wire, from + 1);
  if (wire[from] !== OPEN_ARRAY) return endOfNumber(wire, from);
  let at = from;
  for (let texts = 0; texts < COUNT_MAX; texts++) {
    at = wire[at + 1] === QUOTE ? endOfText(wire, at + 2) : 0;
    if (at === 0 || wire[at] !== COMMA) return wire[at] === CLOSE_ARRAY ? at + 1 : 0;
  }
  return 0;
}

function endOfNumber(wire: Buffer, from: number): number {
  let at = from;
  while (wire[at]! >= 0x30 && wire[at]! <= 0x39) at++;
  return at === from || (wire[from] === 0x30 && at > from + 1) ? 0 : at;
}

/** The offset behind the quote that ends the text whose contents begin at `from`; 0 for what is no text. */
function endOfText(wire: Buffer, from: number): number {
  const shortUntil = Math.min(wire.length, from + SHORT_TEXT_BYTES);
  let at = from;
  for (; at < shortUntil; at++) {
    if (IS_PLAIN[wire[at]!]) continue;
    if (wire[at] === QUOTE) return at + 1;
    if (wire[at] !== BACKSLASH || !IS_ESCAPED[wire[++at]!]) return 0;
  }
  const end = wire.indexOf(QUOTE, at);
  return end >= at && isPlain(new DataView(wire.buffer, wire.byteOffset + at, end - at)) ? end + 1 : 0;
}

/** Says whether each of these bytes, of which none is a quote, stands for itself. */
function isPlain(bytes: DataView): boolean {
  const length = bytes.byteLength;
  /** The highest bit of a byte is set where it is below a space, or a backslash. */
  let other = 0;
  let at = 0;
  for (; at + 4 <= length; at += 4) {
    const word = bytes.getInt32(at, true);
    const slashes = word ^ 0x5c5c_5c5c;
    other |= ((word - 0x2020_2020) & ~word) | ((slashes - 0x0101_0101) & ~slashes);
  }
  for (; at < length; at++) if (!IS_PLAIN[bytes.getUint8(at)]) return false;
  return (other & 0x8080_8080) === 0;
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
    if (typeof sig !== 'string' || !canonicalBytes(receipt).equals(wire)) return false;
    return verifySignature(signer, signedBytesIn(wire, sig), sig);
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
export function pulledItemHead({ seq, kind, itemId, senderPubkey }: ItemHead): string {
  return `{"seq":${seq},"kind":"${kind}","item_id":"${itemId}","sender_pubkey":"${senderPubkey}","wire_b64":"`;
}

export const PULLED_ITEM_TAIL = '"}';

/** The members of an item of a page but its wire bytes. */
export interface ItemHead {
  seq: number;
  kind: ItemKind;
  itemId: ItemId;
  senderPubkey: PublicKey;
}
