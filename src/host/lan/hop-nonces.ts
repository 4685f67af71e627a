/**
 * The hops that this host has taken: each (key, nonce) once, for as long as its time would pass.
 *
 * Bounded for each key. A key that makes more hops than are remembered loses the oldest, and then no hop as old as those
 * is taken any more: what is forgotten is refused. So is what a paired host signed before this host began to listen,
 * which a former run may have taken; only a hop that its maker's clock dated ahead of that moment is not recognised then.
 * Hops of strangers do nothing but put items into quarantine, so the least recent strangers may be forgotten.
 */
import { HOP_SKEW_MAX_MS } from '../../protocol/hop.ts';
import type { PublicKey } from '../../protocol/public-key.ts';

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

export class HopNonces {
  readonly #clocks: HopClocks;
  readonly #start: Floor;
  readonly #paired = new Map<PublicKey, OfKey>();
  readonly #strangers = new Map<PublicKey, OfKey>();

  constructor(clocks: HopClocks) {
    this.#clocks = clocks;
    this.#start = { atMs: clocks.nowMs(), until: clocks.monotonicMs() + HOP_LIFE_MAX_MS };
  }

  /** Whether a hop may have been taken before. `pairedAtMs`: of the paired host whose key it is; null for a stranger's. */
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
    this.#strangers.delete(key);
    if (isPaired || this.#paired.has(key)) {
      this.#paired.set(key, ofKey);
      return ofKey;
    }
    this.#strangers.set(key, ofKey);
    if (this.#strangers.size > STRANGER_KEYS_MAX) {
      const leastRecent = this.#strangers.keys().next();
      if (!leastRecent.done) this.#strangers.delete(leastRecent.value);
    }
    return ofKey;
  }
}
