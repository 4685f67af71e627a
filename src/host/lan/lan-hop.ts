/**
 * Hops between paired hosts: made by the host that calls, judged by the host that is called.
 *
 * The called host's key and a nonce stand in what is signed, so that a request is good at one host only and once
 * (hop-nonces.ts). A caller may not know yet that the called host goes on under a new key: hops for its retired keys are
 * taken as long as retired encryption keys still open.
 */
import { randomBytes } from 'node:crypto';
import { sha256Hex } from '../../protocol/digest.ts';
import { type Signer, verifySignature } from '../../protocol/ed25519.ts';
import {
  HOP_HEADERS,
  HOP_NONCE_BYTES,
  HOP_SKEW_MAX_MS,
  type HopFields,
  hopLanMessage,
  isHopNonce,
  parseHopTimestamp,
} from '../../protocol/hop.ts';
import type { ProblemCode } from '../../protocol/problem.ts';
import { type PublicKey, isAcceptablePoint, parsePublicKey } from '../../protocol/public-key.ts';

export interface LanHopCaller {
  signer: Signer;
  hostName: string;
  nowMs: number;
}

/** The headers of a hop to the host whose key is `called`. A request that is made again needs a nonce of its own. */
export function lanHopHeaders(
  { signer, hostName, nowMs }: LanHopCaller,
  called: PublicKey,
  method: string,
  target: string,
  body: string,
  nonce = randomBytes(HOP_NONCE_BYTES).toString('base64url'),
): Record<string, string> {
  const timestamp = String(nowMs);
  const message = hopLanMessage({ method, target, timestamp, bodyHash: sha256Hex(body) }, called, nonce);
  return {
    [HOP_HEADERS.host]: hostName,
    [HOP_HEADERS.key]: signer.publicKey,
    [HOP_HEADERS.timestamp]: timestamp,
    [HOP_HEADERS.nonce]: nonce,
    [HOP_HEADERS.signature]: signer.sign(message),
  };
}

/** A hop whose body is not there yet. */
export interface ClaimedHop {
  key: PublicKey;
  timestamp: string;
  /** The same as a number. */
  atMs: number;
  nonce: string;
  signature: string;
}

export interface HopFault {
  code: ProblemCode;
  detail: string;
}

/** What the headers claim: judged before a body is read. */
export function claimedHop(
  headers: Readonly<Record<string, string | string[] | undefined>>,
  nowMs: number,
): ClaimedHop | HopFault {
  const key = parsePublicKey(headers[HOP_HEADERS.key]);
  const timestamp = headers[HOP_HEADERS.timestamp];
  const nonce = headers[HOP_HEADERS.nonce];
  const signature = headers[HOP_HEADERS.signature];
  const atMs = typeof timestamp === 'string' ? parseHopTimestamp(timestamp) : undefined;
  const isWhole = typeof timestamp === 'string' && atMs !== undefined && typeof signature === 'string';
  if (!key || !isWhole || !isHopNonce(nonce)) {
    return { code: 'BAD_SIGNATURE', detail: 'a header of the hop is missing or malformed' };
  }
  if (Math.abs(atMs - nowMs) > HOP_SKEW_MAX_MS) {
    return { code: 'CLOCK_SKEW', detail: 'the clocks of the two hosts differ by more than 5 minutes' };
  }
  return { key, timestamp, atMs, nonce, signature };
}

/** Whether the hop is `key`'s over this request, for one of the keys that the called host has or had. */
export function isHopSigned(
  { key, timestamp, nonce, signature }: ClaimedHop,
  request: Pick<HopFields, 'method' | 'target'> & { body: Buffer },
  calledKeys: readonly PublicKey[],
  isPinned: boolean,
): boolean {
  // A pinned key was inspected when it was pinned.
  if (!isPinned && !isAcceptablePoint(key)) return false;
  const fields: HopFields = {
    method: request.method,
    target: request.target,
    timestamp,
    bodyHash: sha256Hex(request.body),
  };
  return calledKeys.some((called) => verifySignature(key, hopLanMessage(fields, called, nonce), signature));
}
