/** Keys and values in the order of their keys, which can be looked at as they were while they change. */

export interface KeyBounds {
  gt?: Buffer;
  gte?: Buffer;
  lt?: Buffer;
  lte?: Buffer;
  reverse?: boolean;
  limit?: number;
}

/** A key in latin1, whose order is that of its bytes; without a value it is deleted. */
export type Change = readonly [key: string, value: Buffer | undefined];

export class SortedTable {
  #keys: string[];
  #values: Map<string, Buffer>;
  /** Says whether somebody keeps what is in here as it is. */
  #isShared = false;

  constructor(keys: string[] = [], values: Map<string, Buffer> = new Map()) {
    this.#keys = keys;
    this.#values = values;
  }

  get(key: string): Buffer | undefined {
    return this.#values.get(key);
  }

  apply(changes: readonly Change[]): void {
    if (this.#isShared) {
      this.#keys = [...this.#keys];
      this.#values = new Map(this.#values);
      this.#isShared = false;
    }
    for (const [key, value] of changes) {
      const isThere = this.#values.has(key);
      if (value) this.#values.set(key, value);
      else this.#values.delete(key);
      if (isThere === (value !== undefined)) continue;
      if (value) this.#keys.splice(this.#placeOf(key), 0, key);
      else this.#keys.splice(this.#placeOf(key), 1);
    }
  }

  /** Returns what is in here now, whatever comes. */
  copy(): SortedTable {
    this.#isShared = true;
    const copy = new SortedTable(this.#keys, this.#values);
    copy.#isShared = true;
    return copy;
  }

  /** The keys of a range, in its order. */
  keysIn({ gt, gte, lt, lte, reverse = false, limit = Infinity }: KeyBounds): string[] {
    const from = gt ? this.#placeOf(latin1(gt), true) : gte ? this.#placeOf(latin1(gte)) : 0;
    const to = lt ? this.#placeOf(latin1(lt)) : lte ? this.#placeOf(latin1(lte), true) : this.#keys.length;
    const most = limit < 0 ? Infinity : limit;
    if (!reverse) return this.#keys.slice(from, Math.min(to, from + most));
    return this.#keys.slice(Math.max(from, to - most), to).toReversed();
  }

  /** Returns where the first key is that is not below `key`, or the first above it. */
  #placeOf(key: string, isAbove = false): number {
    let [low, high] = [0, this.#keys.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const found = this.#keys[middle]!;
      if (found < key || (isAbove && found === key)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

export function latin1(key: Buffer): string {
  return key.toString('latin1');
}
