/**
 * Authenticates a signed hop in two steps: what its headers alone decide comes before the body is read, so that a
 * stranger cannot make the relay buffer megabytes; the signature over the body comes after.
 */
import type { Sha256Hex } from '../../protocol/encodings.ts';
import {
  HOP_HEADERS,
  HOP_SKEW_MAX_MS,
  hopV1Message,
  hopV2Message,
  parseHopTimestamp,
  signedTarget,
} from '../../protocol/hop.ts';
import { type HostName, parseHostName } from '../../protocol/names.ts';
import { type PublicKey, parsePublicKey } from '../../protocol/public-key.ts';
import { type Refusal, refusal } from '../core/decision.ts';
import type { EnrolmentRow } from '../core/rows.ts';
import type { Signatures } from './signature-thread.ts';

type HeaderLookup = (name: string) => string | undefined;

/** A hop of an enrolled host whose time is right; not yet verified. */
export interface HopClaim {
  type: 'HopClaim';
  version: 1 | 2;
  /** The one whose key the headers show (v2), or every live host of the name that they show (v1). */
  candidates: EnrolmentRow[];
  timestamp: string;
  signature: string;
}

interface HopLookUps {
  byKey: (key: PublicKey) => EnrolmentRow | undefined;
  /** `undefined` where no hop by name is taken. None when the name is crowded. */
  byName: ((name: HostName) => EnrolmentRow[]) | undefined;
}

interface HopRequest {
  /** Upper case. */
  method: string;
  /** Path and query, byte for byte as sent. */
  target: string;
  bodyHash: Sha256Hex;
}

/** Reads the headers: enrolled, then in time. */
export function readHop(header: HeaderLookup, lookUps: HopLookUps, nowMs: number): HopClaim | Refusal {
  const claimed = candidates(header, lookUps);
  if (!Array.isArray(claimed)) return claimed;
  const version = header(HOP_HEADERS.key) === undefined ? 1 : 2;
  const live = claimed.filter((row) => isAdmitted(row, nowMs, version));
  if (live.length === 0) return refusal('NOT_ENROLLED', 'not enrolled');
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
  return { type: 'HopClaim', version, candidates: live, timestamp, signature };
}

/**
 * Says whether a host may make hops now: a hosted enrolment is good as long as its token. A v1 hop names no relay, so
 * one that was made for another relay would be good here; a key that made a v2 hop here needs none of v1.
 */
export function isAdmitted(row: EnrolmentRow, nowMs: number, version: HopClaim['version'] = 2): boolean {
  const { revokedAtMs, validUntilMs, madeV2Hop } = row;
  return revokedAtMs === null && (validUntilMs === null || validUntilMs > nowMs) && (version === 2 || !madeV2Hop);
}

function candidates(header: HeaderLookup, { byKey, byName }: HopLookUps): EnrolmentRow[] | Refusal {
  const keyText = header(HOP_HEADERS.key);
  if (keyText !== undefined) {
    const key = parsePublicKey(keyText);
    if (!key) return refusal('BAD_SIGNATURE', `${HOP_HEADERS.key} is not base64 of 32 bytes`);
    const row = byKey(key);
    return row ? [row] : [];
  }
  if (!byName) return [];
  const name = parseHostName(header(HOP_HEADERS.host) ?? '');
  return name ? byName(name) : refusal('BAD_SIGNATURE', `${HOP_HEADERS.host} is not a host name`);
}

/** The host whose signature covers this request at this relay; `undefined` when no signature does. */
export async function verifiedHop(
  claim: HopClaim,
  request: HopRequest,
  relayPubkey: PublicKey,
  signatures: Signatures,
): Promise<EnrolmentRow | undefined> {
  const { method, target, bodyHash } = request;
  const fields = { method, target: signedTarget(target), timestamp: claim.timestamp, bodyHash };
  const message = claim.version === 1 ? hopV1Message(fields) : hopV2Message(fields, relayPubkey);
  for (const candidate of claim.candidates)
    if (await signatures.verify(candidate.hostPubkey, message, claim.signature)) return candidate;
  return undefined;
}
