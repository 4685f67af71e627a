/**
 * Keys that were found to be acceptable points, so that none is inspected twice: an inspection costs a millisecond, and
 * a sender list names 256 keys. Those that are not acceptable end the request that names them and are not kept.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import { isAcceptablePoint } from '../../protocol/acceptable-point.ts';

/** About 1 MB. */
const KEYS_MAX = 10_000;

export class InspectedKeys {
  readonly #isKnown: (key: PublicKey) => boolean;
  readonly #inspect: (key: PublicKey) => boolean;
  /** The one longest here goes. */
  readonly #good = new Set<PublicKey>();

  /** `isKnown` says of which keys the relay knows already: those that are enrolled were inspected then. */
  constructor(isKnown: (key: PublicKey) => boolean, inspect: (key: PublicKey) => boolean = isAcceptablePoint) {
    this.#isKnown = isKnown;
    this.#inspect = inspect;
  }

  isAcceptable(key: PublicKey): boolean {
    if (this.#isKnown(key) || this.#good.has(key)) return true;
    if (!this.#inspect(key)) return false;
    if (this.#good.size >= KEYS_MAX) {
      const [oldest] = this.#good;
      if (oldest !== undefined) this.#good.delete(oldest);
    }
    this.#good.add(key);
    return true;
  }
}
