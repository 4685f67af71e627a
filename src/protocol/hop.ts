/**
 * The signed hop: the exact bytes that a host signs to prove that one request is its own.
 *
 * v2 (with `x-mail-key`): tag, method, path with `?query`, timestamp, body hash, the relay's public key.
 * v1: tag, method, path without query, timestamp, body hash.
 * LAN: the lines of v2 with another tag, the key of the receiving host in place of the relay's, and a nonce at the end,
 * by which the receiver accepts each hop only once.
 */
import { type Sha256Hex, sha256Hex } from './encodings.ts';
import type { PublicKey } from './public-key.ts';

export const HOP_HEADERS = {
  host: 'x-mail-host',
  timestamp: 'x-mail-ts',
  signature: 'x-mail-sig',
  key: 'x-mail-key',
  /** Only a LAN has it. */
  nonce: 'x-mail-nonce',
} as const;

/**
 * A push says by this header how the relay may sign its receipts: each alone, or together (receipt-tree.ts). No hop
 * covers it: a receipt is good in either form, so that nothing but time is lost where the header is lost on the way.
 */
export const RECEIPTS_HEADER = 'x-mail-receipts';
export const TREE_RECEIPTS = 'tree';

/** So far may `x-mail-ts` differ from the clock of the receiver. */
export const HOP_SKEW_MAX_MS = 300_000;

/** The body hash of a request without a body: SHA-256 of no bytes. */
export const EMPTY_BODY_HASH: Sha256Hex = sha256Hex('');

export const HOP_TIMESTAMP_PATTERN = '^(?:0|[1-9][0-9]{0,15})$';
const timestampPattern = new RegExp(HOP_TIMESTAMP_PATTERN);

export interface HopFields {
  /** Upper case. */
  method: string;
  /** Byte for byte as sent, from `/v1/relay` or `/v2/relay` on, with `?query` if there is one. */
  target: string;
  /** The `x-mail-ts` value as sent. */
  timestamp: string;
  bodyHash: Sha256Hex;
}

/** The bytes a v2 caller signs for the relay whose key is `relayPubkey`. */
export function hopV2Message(fields: HopFields, relayPubkey: PublicKey): Buffer {
  return keyedMessage('mail-hop-v2', fields, relayPubkey);
}

/** 16 bytes in base64url. The last character has four unused bits, which must be 0. */
export const HOP_NONCE_BYTES = 16;
const noncePattern = /^[A-Za-z0-9_-]{21}[AQgw]$/;

/**
 * The bytes a host signs for the paired host on its LAN whose key is `receiverPubkey`. `target` is as sent; `nonce` is
 * the value of `x-mail-nonce`, for which `isHopNonce` is true.
 */
export function hopLanMessage(fields: HopFields, receiverPubkey: PublicKey, nonce: string): Buffer {
  return keyedMessage('mail-hop-lan-2', fields, receiverPubkey, nonce);
}

export function isHopNonce(text: unknown): text is string {
  return typeof text === 'string' && noncePattern.test(text);
}

/** Names the receiver, so that a receiver cannot replay the hop at another host or relay. */
function keyedMessage(tag: string, fields: HopFields, receiverPubkey: PublicKey, ...others: string[]): Buffer {
  const { method, target, timestamp, bodyHash } = fields;
  return Buffer.from([tag, method, target, timestamp, bodyHash, receiverPubkey, ...others].join('\n'), 'utf8');
}

/** The bytes a v1 caller signs. They do not include the query. */
export function hopV1Message(fields: HopFields): Buffer {
  const { method, target, timestamp, bodyHash } = fields;
  const query = target.indexOf('?');
  const path = query === -1 ? target : target.slice(0, query);
  return Buffer.from(['mail-hop-v1', method, path, timestamp, bodyHash].join('\n'), 'utf8');
}

/** Milliseconds since the Unix epoch, or `undefined` when `text` is not a plain decimal number of them. */
export function parseHopTimestamp(text: string): number | undefined {
  if (!timestampPattern.test(text)) return undefined;
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : undefined;
}

/**
 * The signed part of a request target when a proxy serves the relay below a prefix: from `/v1/relay` or `/v2/relay` on.
 */
export function signedTarget(target: string): string {
  const query = target.indexOf('?');
  const path = query === -1 ? target : target.slice(0, query);
  const start = Math.max(path.lastIndexOf('/v1/relay/'), path.lastIndexOf('/v2/relay/'));
  return start <= 0 ? target : target.slice(start);
}
