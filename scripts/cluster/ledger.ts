/**
 * Keeps what hosts were promised and what they got: the account that the cluster shows. It knows nothing of relays, so
 * that nothing of theirs is taken on trust.
 */

/** The place at which the relay says that it stored an item for its target. */
export interface Place {
  epoch: string;
  seq: number;
}

export interface Counts {
  accepted: number;
  arrived: number;
  /** Accepted, and not there yet. */
  waiting: number;
  /** Accepted, and its target was given everything behind it without it. */
  lost: number;
  /** Given to its target at two places of one epoch. */
  doubled: number;
  /** Came again as it was: its ack was lost, or it was pushed again in a new epoch. */
  cameAgain: number;
  /** The number of those that arrived whose delivery receipt is back at the sender. */
  confirmed: number;
  epochChanges: number;
}

/** Without an acceptance for so long, acceptance has stopped. */
export const STOP_MS = 2_000;

export class Ledger {
  /** Everything else that contradicts what was said before. */
  readonly faults: string[] = [];
  readonly #accepted = new Map<string, { to: string; place: Place }>();
  readonly #arrived = new Map<string, Place>();
  readonly #itemAt = new Map<string, string>();
  readonly #ackedThrough = new Map<string, number>();
  readonly #waiting = new Set<string>();
  readonly #lost = new Set<string>();
  readonly #doubled = new Set<string>();
  readonly #epochs: string[] = [];
  #cameAgain = 0;
  #confirmed = 0;
  #lastMs: number | undefined;
  #lastStopMs: number | undefined;

  get counts(): Counts {
    return {
      accepted: this.#accepted.size,
      arrived: this.#arrived.size,
      waiting: this.#waiting.size,
      lost: this.#lost.size,
      doubled: this.#doubled.size,
      cameAgain: this.#cameAgain,
      confirmed: this.#confirmed,
      epochChanges: Math.max(0, this.#epochs.length - 1),
    };
  }

  get epoch(): string | undefined {
    return this.#epochs.at(-1);
  }

  /** Returns how long nothing was accepted when that happened last. */
  get lastStopMs(): number | undefined {
    return this.#lastStopMs;
  }

  /** Returns how long nothing has been accepted; 0 before the first acceptance. */
  quietMs(nowMs: number): number {
    return this.#lastMs === undefined ? 0 : nowMs - this.#lastMs;
  }

  /** True when the hosts had not seen this epoch. An answer of an old one may come late. */
  sawEpoch(epoch: string): boolean {
    if (this.#epochs.includes(epoch)) return false;
    this.#epochs.push(epoch);
    return true;
  }

  /**
   * The relay signed that it stored `item` for `to` there; answers how long it had accepted nothing, if that was long.
   */
  accept(item: string, to: string, place: Place, nowMs: number): number | undefined {
    const key = `${to} ${place.epoch} ${place.seq}`;
    const holder = this.#itemAt.get(key);
    if (holder !== undefined && holder !== item) this.faults.push(`${item} and ${holder} have one place: ${key}`);
    this.#itemAt.set(key, item);
    this.#accepted.set(item, { to, place });
    if (!this.#arrived.has(item)) {
      this.#waiting.add(item);
      this.#lost.delete(item);
      if (this.#wasPassed(to, place)) this.#lose(item);
    }
    const quietMs = this.quietMs(nowMs);
    this.#lastMs = nowMs;
    if (quietMs < STOP_MS) return undefined;
    this.#lastStopMs = quietMs;
    return quietMs;
  }

  /** `to` was given the item; true the first time. */
  arrive(item: string, to: string, place: Place): boolean {
    const before = this.#arrived.get(item);
    if (before) {
      const isElsewhere = before.epoch === place.epoch && before.seq !== place.seq;
      if (isElsewhere) this.#doubled.add(item);
      else this.#cameAgain++;
      return false;
    }
    const accepted = this.#accepted.get(item);
    if (accepted && accepted.to !== to) this.faults.push(`${item} is for ${accepted.to} and came to ${to}`);
    this.#arrived.set(item, place);
    this.#waiting.delete(item);
    this.#lost.delete(item);
    return true;
  }

  /** `to` has everything of this epoch through `seq`: an accepted item that lies there and did not come is lost. */
  pass(to: string, { epoch, seq }: Place): void {
    const key = `${to} ${epoch}`;
    this.#ackedThrough.set(key, Math.max(seq, this.#ackedThrough.get(key) ?? 0));
    for (const item of this.#waiting) {
      const accepted = this.#accepted.get(item);
      if (accepted?.to === to && this.#wasPassed(to, accepted.place)) this.#lose(item);
    }
  }

  confirm(): void {
    this.#confirmed++;
  }

  /** Says whether everything that was accepted came, once, and nothing contradicts itself. */
  get isClean(): boolean {
    const { waiting, lost, doubled } = this.counts;
    return waiting + lost + doubled + this.faults.length === 0;
  }

  #wasPassed(to: string, { epoch, seq }: Place): boolean {
    return seq <= (this.#ackedThrough.get(`${to} ${epoch}`) ?? 0);
  }

  #lose(item: string): void {
    this.#waiting.delete(item);
    this.#lost.add(item);
  }
}
