/**
 * The signed hop: the exact bytes a host signs so that one request, and no other, is its own.
 *
 * v2 (`x-mail-key` present): tag, method, path with `?query`, timestamp, body hash, the relay's public key.
 * v1: tag, method, path without query, timestamp, body hash.
 * LAN: the lines of v2 under a tag of its own, with the key of the receiving host in place of the relay's, and a nonce
 * behind it, so that the receiver takes each hop once.
 */
import { type Sha256Hex, sha256Hex } from './digest.ts';
import type { PublicKey } from './public-key.ts';

export const HOP_HEADERS = {
  host: 'x-mail-host',
  timestamp: 'x-mail-ts',
  signature: 'x-mail-sig',
  key: 'x-mail-key',
  /** On a LAN alone. */
  nonce: 'x-mail-nonce',
} as const;

/** How far `x-mail-ts` may be from the relay's clock, either way. */
export const HOP_SKEW_MAX_MS = 300_000;

/** SHA-256 of no bytes: the body hash of a request without a body. */
export const EMPTY_BODY_HASH: Sha256Hex = sha256Hex('');

export const HOP_TIMESTAMP_PATTERN = '^(?:0|[1-9][0-9]{0,15})$';
const timestampPattern = new RegExp(HOP_TIMESTAMP_PATTERN);

export interface HopFields {
  /** Upper case. */
  method: string;
  /** Byte for byte as sent, from `/v1/relay` or `/v2/relay` on; with `?query` when there is one. */
  target: string;
  /** The `x-mail-ts` value as sent. */
  timestamp: string;
  bodyHash: Sha256Hex;
}

/** The bytes a v2 caller signs for the relay whose key is `relayPubkey`. */
export function hopV2Message(fields: HopFields, relayPubkey: PublicKey): Buffer {
  return keyedMessage('mail-hop-v2', fields, relayPubkey);
}

/** 16 bytes in base64url: the last character has four bits to spare, which are 0. */
export const HOP_NONCE_BYTES = 16;
export const HOP_NONCE_PATTERN = '^[A-Za-z0-9_-]{21}[AQgw]$';
const noncePattern = new RegExp(HOP_NONCE_PATTERN);

/**
 * The bytes a host signs for the paired host on its LAN whose key is `receiverPubkey`. `target` is as sent, `nonce` the
 * `x-mail-nonce` value, which `isHopNonce`.
 */
export function hopLanMessage(fields: HopFields, receiverPubkey: PublicKey, nonce: string): Buffer {
  return keyedMessage('mail-hop-lan-2', fields, receiverPubkey, nonce);
}

export function isHopNonce(text: unknown): text is string {
  return typeof text === 'string' && noncePattern.test(text);
}

/** The host or relay that is called stands in it, so that it cannot replay the hop at another. */
function keyedMessage(tag: string, fields: HopFields, calledPubkey: PublicKey, ...others: string[]): Buffer {
  const { method, target, timestamp, bodyHash } = fields;
  return Buffer.from([tag, method, target, timestamp, bodyHash, calledPubkey, ...others].join('\n'), 'utf8');
}

/** The bytes a v1 caller signs: the query is not part of them. */
export function hopV1Message(fields: HopFields): Buffer {
  const { method, target, timestamp, bodyHash } = fields;
  const query = target.indexOf('?');
  const path = query === -1 ? target : target.slice(0, query);
  return Buffer.from(['mail-hop-v1', method, path, timestamp, bodyHash].join('\n'), 'utf8');
}

/** Milliseconds since the Unix epoch, or `undefined` when `text` is not their plain decimal form. */
export function parseHopTimestamp(text: string): number | undefined {
  if (!timestampPattern.test(text)) return undefined;
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : undefined;
}

/** The part of a request target that is signed behind a path prefix: from `/v1/relay` or `/v2/relay` on. */
export function signedTarget(target: string): string {
  const query = target.indexOf('?');
  const path = query === -1 ? target : target.slice(0, query);
  const start = Math.max(path.lastIndexOf('/v1/relay/'), path.lastIndexOf('/v2/relay/'));
  return start <= 0 ? target : target.slice(start);
}
