/**
 * The open enrolment challenges: in memory only, so a restart invalidates them and clients ask again.
 *
 * Invariants ("Enrolment", rule 2): each is used at most once, lives 5 minutes, and there are never more than 10,000.
 */
import { encodeBase64 } from '../../protocol/encodings.ts';
import {
  CHALLENGE_BYTES,
  CHALLENGE_LIFETIME_MS,
  OPEN_CHALLENGES_MAX,
  OPEN_CHALLENGES_PER_KEY_AND_ADDRESS,
} from '../../protocol/limits.ts';
import type { PublicKey } from '../../protocol/public-key.ts';

/** Challenges of other addresses that one enrolment tries; each costs about 0.1 ms. */
const OTHERS_TRIED_MAX = 32;

interface Challenge {
  /** Base64 of 32 random bytes. */
  text: string;
  pubkey: PublicKey;
  /** The client address it was given to. */
  address: string;
  endsMs: number;
}

export class Challenges {
  readonly #monotonicMs: () => number;
  readonly #randomBytes: (count: number) => Buffer;
  /** The open challenges by text, oldest first. */
  readonly #open = new Map<string, Challenge>();
  readonly #byKey = new Map<PublicKey, Set<Challenge>>();

  constructor(monotonicMs: () => number, randomBytes: (count: number) => Buffer) {
    this.#monotonicMs = monotonicMs;
    this.#randomBytes = randomBytes;
  }

  /** A new challenge for `pubkey`, or `undefined` when too many are open. */
  issue(pubkey: PublicKey, address: string): string | undefined {
    this.forgetEnded();
    const own = this.#openFor(pubkey).filter((challenge) => challenge.address === address);
    const oldest = own[0];
    if (oldest && own.length >= OPEN_CHALLENGES_PER_KEY_AND_ADDRESS) this.#close(oldest);
    if (this.#open.size >= OPEN_CHALLENGES_MAX) return undefined;
    const text = encodeBase64(this.#randomBytes(CHALLENGE_BYTES));
    const challenge = { text, pubkey, address, endsMs: this.#monotonicMs() + CHALLENGE_LIFETIME_MS };
    this.#open.set(text, challenge);
    const ofKey = this.#byKey.get(pubkey);
    if (ofKey) ofKey.add(challenge);
    else this.#byKey.set(pubkey, new Set([challenge]));
    return text;
  }

  /**
   * Uses up and answers whether there is an open challenge of `pubkey` for which `verifies` says yes. Those that were
   * given to `address` are tried first; of the others only the newest, so that no client makes a look-up costly by
   * asking for challenges of a key that is not theirs.
   */
  use(
    pubkey: PublicKey,
    address: string,
    verifies: (challenge: string) => boolean,
  ): 'used' | 'none open' | 'none verifies' {
    this.forgetEnded();
    const open = this.#openFor(pubkey);
    if (open.length === 0) return 'none open';
    const own = open.filter((challenge) => challenge.address === address);
    const others = open.filter((challenge) => challenge.address !== address).slice(-OTHERS_TRIED_MAX);
    const used = [...own, ...others].find(({ text }) => verifies(text));
    if (!used) return 'none verifies';
    this.#close(used);
    return 'used';
  }

  forgetEnded(): void {
    const nowMs = this.#monotonicMs();
    for (const challenge of this.#open.values()) {
      if (challenge.endsMs > nowMs) return;
      this.#close(challenge);
    }
  }

  #openFor(pubkey: PublicKey): readonly Challenge[] {
    return [...(this.#byKey.get(pubkey) ?? [])];
  }

  #close(challenge: Challenge): void {
    this.#open.delete(challenge.text);
    const ofKey = this.#byKey.get(challenge.pubkey);
    ofKey?.delete(challenge);
    if (ofKey?.size === 0) this.#byKey.delete(challenge.pubkey);
  }
}
