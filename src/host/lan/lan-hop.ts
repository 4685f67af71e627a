/**
 * Hops between paired hosts: made by the host that calls, judged by the host that is called.
 *
 * The called host's key and a nonce stand in what is signed, so that a request is good at one host only and once
 * (`HopNonces`). A caller may not know yet that the called host goes on under a new key: hops for its retired keys are
 * taken as long as retired encryption keys still open.
 */
import { randomBytes } from 'node:crypto';
import { sha256Hex } from '../../protocol/encodings.ts';
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
import { type PublicKey, parsePublicKey } from '../../protocol/public-key.ts';
import { isAcceptablePoint } from '../../protocol/acceptable-point.ts';
import { keepRecent } from '../../lib/recent.ts';

interface LanHopCaller {
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

/** The claim of the headers: judged before a body is read. */
export function claimedHop(header: (name: string) => string | undefined, nowMs: number): ClaimedHop | HopFault {
  const key = parsePublicKey(header(HOP_HEADERS.key));
  const timestamp = header(HOP_HEADERS.timestamp);
  const nonce = header(HOP_HEADERS.nonce);
  const signature = header(HOP_HEADERS.signature);
  const atMs = timestamp === undefined ? undefined : parseHopTimestamp(timestamp);
  if (!key || timestamp === undefined || atMs === undefined || signature === undefined || !isHopNonce(nonce)) {
    return { code: 'BAD_SIGNATURE', detail: 'a header of the hop is missing or malformed' };
  }
  if (Math.abs(atMs - nowMs) > HOP_SKEW_MAX_MS) {
    return { code: 'CLOCK_SKEW', detail: 'the clocks of the two hosts differ by more than 5 minutes' };
  }
  return { key, timestamp, atMs, nonce, signature };
}

/** Tells whether the hop is `key`'s over this request, for one of the keys that the called host has or had. */
export function isHopSigned(
  { key, timestamp, nonce, signature }: ClaimedHop,
  request: Pick<HopFields, 'method' | 'target' | 'bodyHash'>,
  calledKeys: readonly PublicKey[],
  isPinned: boolean,
): boolean {
  // A pinned key was inspected when it was pinned.
  if (!isPinned && !isAcceptablePoint(key)) return false;
  const fields: HopFields = { ...request, timestamp };
  return calledKeys.some((called) => verifySignature(key, hopLanMessage(fields, called, nonce), signature));
}

/** Nonces that are remembered of one key. */
export const NONCES_PER_KEY_MAX = 2048;
/** Keys of strangers whose nonces are remembered. */
export const STRANGER_KEYS_MAX = 256;
/** No hop is good for longer: from as far ahead as its time may be to as far behind. */
export const HOP_LIFE_MAX_MS = 2 * HOP_SKEW_MAX_MS;

export interface NoncedHop {
  key: PublicKey;
  nonce: string;
  /** When it was made, by its maker. */
  atMs: number;
}

export interface HopClocks {
  nowMs(): number;
  monotonicMs(): number;
}

/** Hops that were made then or before are not taken, until the monotonic clock says so. */
interface Floor {
  atMs: number;
  until: number;
}

interface OfKey {
  /** The hops of one key by their nonces, in the order in which they came. */
  taken: Map<string, { atMs: number; until: number }>;
  floor: Floor | undefined;
}

/**
 * The hops that this host has taken: each (key, nonce) once, for as long as its time would pass.
 *
 * Bounded for each key. A key that makes more hops than are remembered loses the oldest, and then no hop as old as
 * those is taken any more: what is forgotten is refused. So is what a paired host signed before this host began to
 * listen, which a former run may have taken; only a hop that its maker's clock dated ahead of that moment is not
 * recognised then. Hops of strangers do nothing but put items into quarantine, so the least recent strangers may be
 * forgotten.
 */
export class HopNonces {
  readonly #clocks: HopClocks;
  readonly #start: Floor;
  readonly #paired = new Map<PublicKey, OfKey>();
  readonly #strangers = new Map<PublicKey, OfKey>();

  constructor(clocks: HopClocks) {
    this.#clocks = clocks;
    this.#start = { atMs: clocks.nowMs(), until: clocks.monotonicMs() + HOP_LIFE_MAX_MS };
  }

  /** Tells whether a hop may have been taken before. `pairedAtMs`: of the host whose key it is; null for strangers. */
  isUsed({ key, nonce, atMs }: NoncedHop, pairedAtMs: number | null): boolean {
    const ofKey = this.#paired.get(key) ?? this.#strangers.get(key);
    if (ofKey?.taken.has(nonce) === true || this.#isBelow(ofKey?.floor, atMs)) return true;
    return pairedAtMs !== null && pairedAtMs < this.#start.atMs && this.#isBelow(this.#start, atMs);
  }

  /** Takes a hop whose signature was verified; false when it may have been taken before. */
  take(hop: NoncedHop, pairedAtMs: number | null): boolean {
    if (this.isUsed(hop, pairedAtMs)) return false;
    const now = this.#clocks.monotonicMs();
    const until = now + HOP_LIFE_MAX_MS;
    const ofKey = this.#ofKey(hop.key, pairedAtMs !== null);
    ofKey.taken.set(hop.nonce, { atMs: hop.atMs, until });
    for (const [nonce, oldest] of ofKey.taken) {
      const isOver = oldest.until <= now;
      if (!isOver && ofKey.taken.size <= NONCES_PER_KEY_MAX) break;
      ofKey.taken.delete(nonce);
      if (!isOver) ofKey.floor = { atMs: Math.max(ofKey.floor?.atMs ?? 0, oldest.atMs), until };
    }
    return true;
  }

  #isBelow(floor: Floor | undefined, atMs: number): boolean {
    return floor !== undefined && atMs <= floor.atMs && this.#clocks.monotonicMs() < floor.until;
  }

  #ofKey(key: PublicKey, isPaired: boolean): OfKey {
    const known = this.#paired.get(key) ?? this.#strangers.get(key);
    const ofKey = known ?? { taken: new Map<string, { atMs: number; until: number }>(), floor: undefined };
    if (isPaired || this.#paired.has(key)) {
      this.#strangers.delete(key);
      this.#paired.set(key, ofKey);
    } else {
      keepRecent(this.#strangers, key, ofKey, STRANGER_KEYS_MAX);
    }
    return ofKey;
  }
}
