/**
 * Hops between paired hosts: made by whoever calls, judged by whoever is called.
 *
 * The called host's key stands in what is signed, so that a request is good at one host only. A caller may not know
 * yet that the called host goes on under a new key: hops for its retired keys are taken as long as retired
 * encryption keys still open.
 */
import { sha256Hex } from '../../protocol/digest.ts';
import { type Signer, verifySignature } from '../../protocol/ed25519.ts';
import { HOP_HEADERS, HOP_SKEW_MAX_MS, type HopFields, hopLanMessage, parseHopTimestamp } from '../../protocol/hop.ts';
import type { ProblemCode } from '../../protocol/problem.ts';
import { type PublicKey, isAcceptablePoint, parsePublicKey } from '../../protocol/public-key.ts';

export interface LanHopCaller {
  signer: Signer;
  hostName: string;
  nowMs: number;
}

/** The headers of a hop to the host whose key is `called`. */
export function lanHopHeaders(
  { signer, hostName, nowMs }: LanHopCaller,
  called: PublicKey,
  method: string,
  target: string,
  body: string,
): Record<string, string> {
  const timestamp = String(nowMs);
  const message = hopLanMessage({ method, target, timestamp, bodyHash: sha256Hex(body) }, called);
  return {
    [HOP_HEADERS.host]: hostName,
    [HOP_HEADERS.key]: signer.publicKey,
    [HOP_HEADERS.timestamp]: timestamp,
    [HOP_HEADERS.signature]: signer.sign(message),
  };
}

/** A hop whose body is not there yet. */
export interface ClaimedHop {
  key: PublicKey;
  timestamp: string;
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
  const signature = headers[HOP_HEADERS.signature];
  const atMs = typeof timestamp === 'string' ? parseHopTimestamp(timestamp) : undefined;
  if (!key || typeof timestamp !== 'string' || atMs === undefined || typeof signature !== 'string') {
    return { code: 'BAD_SIGNATURE', detail: 'a header of the hop is missing or malformed' };
  }
  if (Math.abs(atMs - nowMs) > HOP_SKEW_MAX_MS) {
    return { code: 'CLOCK_SKEW', detail: 'the clocks of the two hosts differ by more than 5 minutes' };
  }
  return { key, timestamp, signature };
}

/** Whether the hop is `key`'s over this request, for one of the keys that the called host has or had. */
export function isHopSigned(
  { key, timestamp, signature }: ClaimedHop,
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
  return calledKeys.some((called) => verifySignature(key, hopLanMessage(fields, called), signature));
}
