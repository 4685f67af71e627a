/**
 * Authenticates a signed hop in two steps: what its headers alone decide comes before the body is read, so that a
 * stranger cannot make the relay buffer megabytes; the signature over the body comes after.
 */
import type { Sha256Hex } from '../../protocol/digest.ts';
import { verifySignature } from '../../protocol/ed25519.ts';
import { HOP_HEADERS, HOP_SKEW_MAX_MS, hopV2Message, parseHopTimestamp, signedTarget } from '../../protocol/hop.ts';
import { type PublicKey, parsePublicKey } from '../../protocol/public-key.ts';
import { type Refusal, refusal } from '../core/decision.ts';
import type { EnrolmentRow } from '../core/rows.ts';

/** A header by its lower-case name; `undefined` when absent. */
export type HeaderLookup = (name: string) => string | undefined;

/** A hop whose key is enrolled and whose time is right; not yet verified. */
export interface HopClaim {
  type: 'HopClaim';
  enrolment: EnrolmentRow;
  timestamp: string;
  signature: string;
}

export interface HopRequest {
  /** Upper case. */
  method: string;
  /** Path and query, byte for byte as sent. */
  target: string;
  bodyHash: Sha256Hex;
}

/** Reads the headers: enrolled, then in time. */
export function readHop(
  header: HeaderLookup,
  enrolment: (key: PublicKey) => EnrolmentRow | undefined,
  nowMs: number,
): HopClaim | Refusal {
  const keyText = header(HOP_HEADERS.key);
  if (keyText === undefined) return refusal('NOT_ENROLLED', 'not enrolled');
  const key = parsePublicKey(keyText);
  if (!key) return refusal('BAD_SIGNATURE', `${HOP_HEADERS.key} is not base64 of 32 bytes`);
  const row = enrolment(key);
  if (!row || row.revokedAtMs !== null || (row.validUntilMs !== null && row.validUntilMs <= nowMs)) {
    return refusal('NOT_ENROLLED', 'not enrolled');
  }
  const timestamp = header(HOP_HEADERS.timestamp);
  const timestampMs = timestamp === undefined ? undefined : parseHopTimestamp(timestamp);
  if (timestamp === undefined || timestampMs === undefined) {
    return refusal('BAD_SIGNATURE', `${HOP_HEADERS.timestamp} is not a time in milliseconds`);
  }
  if (Math.abs(nowMs - timestampMs) > HOP_SKEW_MAX_MS) {
    return refusal('CLOCK_SKEW', `${HOP_HEADERS.timestamp} is more than 5 minutes from the clock of this relay`, {
      now: nowMs,
    });
  }
  const signature = header(HOP_HEADERS.signature);
  if (signature === undefined) return refusal('BAD_SIGNATURE', `${HOP_HEADERS.signature} is missing`);
  return { type: 'HopClaim', enrolment: row, timestamp, signature };
}

/** Whether the claim's signature covers this request at this relay. */
export function isHopVerified(claim: HopClaim, request: HopRequest, relayPubkey: PublicKey): boolean {
  const { method, target, bodyHash } = request;
  const fields = { method, target: signedTarget(target), timestamp: claim.timestamp, bodyHash };
  return verifySignature(claim.enrolment.hostPubkey, hopV2Message(fields, relayPubkey), claim.signature);
}
