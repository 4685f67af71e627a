/**
 * Counts what the relay does for a host beyond what the host brings and what is new to it: charged to the host,
 * whatever key it has, and to its client address.
 *
 * An item that is pushed, a page that was never handed over and an ack that releases something cost nothing here: each
 * happens once, and is paid for by the push. What may be asked again and again is counted: a page that was handed over
 * before, a request that brings and gets nothing, the items that a rotation moves, and places to look at beyond those
 * of hosts that changed their keys a few times.
 */
import {
  PAGE_BYTES_A_WORK,
  PLACES_A_WORK,
  WORK_OF_ADDRESS,
  WORK_OF_REQUEST,
  WORK_PER_PUSH,
} from '../../protocol/limits.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { QueueRow } from '../core/rows.ts';
import type { Reply } from '../../http/exchange.ts';
import { RateLimiter } from '../../http/budget.ts';
import { keepRecent } from '../../lib/recent.ts';
import { problemReply } from '../../http/replies.ts';

/** Hosts of which it is known how far their queues were handed over; of others it counts as new. */
const HANDED_OVER_MAX = 10_000;

interface WorkBudgetOptions {
  pushesPerMinute: number;
  /** Tells every key that the host of a key ever had. */
  directory: { keysOf: (key: PublicKey) => ReadonlySet<PublicKey> };
  monotonicMs: () => number;
}

export class WorkBudget {
  readonly #directory: WorkBudgetOptions['directory'];
  readonly #most: number;
  readonly #hosts: RateLimiter;
  readonly #addresses: RateLimiter;
  /** The seq up to which the queue of each key was handed over, least recent first. */
  readonly #handedOver = new Map<PublicKey, number>();

  constructor({ pushesPerMinute, directory, monotonicMs }: WorkBudgetOptions) {
    this.#directory = directory;
    this.#most = pushesPerMinute * WORK_PER_PUSH;
    this.#hosts = new RateLimiter(this.#most, monotonicMs);
    this.#addresses = new RateLimiter(this.#most * WORK_OF_ADDRESS, monotonicMs);
  }

  /** Charges `work`, or refuses it. A cost above half of a minute's passes when that much may. */
  charge(key: PublicKey, address: string, work: number): Reply | undefined {
    const host = this.#hostOf(key);
    const refused = this.#refusal(host, address, work);
    if (!refused) this.#add(host, address, work);
    return refused;
  }

  #refusal(host: PublicKey, address: string, work: number): Reply | undefined {
    const asked = Math.min(work, this.#most / 2);
    const retryAfterS = Math.max(this.#hosts.waitS(host, asked), this.#addresses.waitS(address, asked));
    return retryAfterS > 0 ? tooMuch(retryAfterS) : undefined;
  }

  /** Charges what is done already; what is below zero is given back. */
  owe(key: PublicKey, address: string, work: number): void {
    if (work !== 0) this.#add(this.#hostOf(key), address, work);
  }

  /** Refuses a push of a host that owes more than a minute's work. */
  debt(key: PublicKey): Reply | undefined {
    const retryAfterS = this.#hosts.waitS(this.#hostOf(key), 0);
    return retryAfterS > 0 ? tooMuch(retryAfterS) : undefined;
  }

  owePlaces(key: PublicKey, address: string, places: number): void {
    this.owe(key, address, Math.floor(places / PLACES_A_WORK));
  }

  /** True when a page of `target` behind `after` begins with items that were handed over before. */
  isRepeated(target: PublicKey, after: number): boolean {
    return after < (this.#handedOver.get(target) ?? 0);
  }

  /**
   * Charges a page for being empty, or for those of its rows that were handed over before, and notes the others; or
   * refuses it. `reserved` was charged before it was read.
   */
  chargePage(target: PublicKey, address: string, rows: readonly QueueRow[], reserved = 0): Reply | undefined {
    const through = this.#handedOver.get(target) ?? 0;
    const last = rows.at(-1)?.seq ?? 0;
    if (last === 0 && reserved === 0) return this.charge(target, address, WORK_OF_REQUEST);
    const repeated = rows.filter(({ seq }) => seq <= through);
    const bytes = repeated.reduce((sum, row) => sum + row.bytes, 0);
    const items = reserved > 0 ? Math.max(repeated.length, WORK_OF_REQUEST) : repeated.length;
    const work = items + Math.ceil(bytes / PAGE_BYTES_A_WORK);
    this.owe(target, address, -reserved);
    const refused = work > 0 ? this.charge(target, address, work) : undefined;
    if (refused) {
      // It was read, and is handed over to nobody. The host is told when the page passes after that.
      this.owe(target, address, WORK_OF_REQUEST);
      return this.#refusal(this.#hostOf(target), address, work) ?? refused;
    }
    if (last <= through) return undefined;
    keepRecent(this.#handedOver, target, last, HANDED_OVER_MAX);
    return undefined;
  }

  #add(host: PublicKey, address: string, work: number): void {
    this.#hosts.add(host, work);
    this.#addresses.add(address, work);
  }

  /** The first key that the host had: a rotation brings no new budget. */
  #hostOf(key: PublicKey): PublicKey {
    let first = key;
    for (const one of this.#directory.keysOf(key)) first = one;
    return first;
  }
}

function tooMuch(retryAfterS: number): Reply {
  return problemReply('RATE_LIMITED', 'the relay did much for this host or address', { retryAfterS });
}
