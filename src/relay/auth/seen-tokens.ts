/**
 * The tokens that were used, so that none serves two hosts: `jti` is unique ("Enrolment", rule 7).
 *
 * In memory only. A restart forgets it, and that admits no other host: `sub` binds a token to one host key anyway. The table
 * is bounded; when it is full, no other token is taken until the oldest has ended.
 */
import { sha256Hex } from '../../protocol/digest.ts';
import type { PublicKey } from '../../protocol/public-key.ts';

/** More than a hundred new tokens a second for the whole of their 15 minutes. */
const SEEN_TOKENS_MAX = 100_000;

interface SeenToken {
  hostPubkey: PublicKey;
  endsMs: number;
}

export class SeenTokens {
  readonly #monotonicMs: () => number;
  readonly #max: number;
  /** By the hash of `jti`, whose length is the issuer's choice; oldest first. */
  readonly #seen = new Map<string, SeenToken>();

  constructor(monotonicMs: () => number, max: number = SEEN_TOKENS_MAX) {
    this.#monotonicMs = monotonicMs;
    this.#max = max;
  }

  /** Notes that `hostPubkey` used the token, which is in force for `leftMs` more. */
  use(jti: string, hostPubkey: PublicKey, leftMs: number): 'used' | 'used by another' | 'full' {
    const nowMs = this.#monotonicMs();
    this.#forgetEnded(nowMs);
    const name = sha256Hex(jti);
    const seen = this.#seen.get(name);
    if (seen && seen.endsMs > nowMs) return seen.hostPubkey === hostPubkey ? 'used' : 'used by another';
    if (this.#seen.size >= this.#max) return 'full';
    this.#seen.delete(name);
    this.#seen.set(name, { hostPubkey, endsMs: nowMs + leftMs });
    return 'used';
  }

  /** Up to the first that is in force: those behind it wait for it, at most the lifetime of a token. */
  #forgetEnded(nowMs: number): void {
    for (const [name, { endsMs }] of this.#seen) {
      if (endsMs > nowMs) return;
      this.#seen.delete(name);
    }
  }
}
