/**
 * One target's queue in memory: sequence number, size, sender and deadline of every waiting item, about 24 bytes each.
 *
 * An ack can release 10,000 items; what it releases must be known before it is decided, without reading 10,000 rows
 * in the loop. Loaded from the queue rows on first need, then updated with every event.
 * Invariant: `seqs` ascends, and holds exactly the queue rows above `ackedThrough`.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { ReleasedShare } from './event.ts';
import type { UsageRow } from './rows.ts';

export interface IndexedItem {
  seq: number;
  bytes: number;
  /** `null` for a notice, which counts towards no sender's share. */
  senderPubkey: PublicKey | null;
  /** When it is to expire; a notice, of which nothing is known afterwards, at infinity. */
  expiresAtMs: number;
}

export interface Released {
  /** The last seq: `through`, or less when more senders lie below it than were asked for. */
  through: number;
  /** The items, without notices, for which no quota is charged. */
  items: number;
  bytes: number;
  notices: number;
  shares: ReleasedShare[];
}

const NO_SENDER = 0xffff_ffff;
const INITIAL_CAPACITY = 64;

export class QueueIndex {
  #seqs = new Float64Array(INITIAL_CAPACITY);
  #bytes = new Uint32Array(INITIAL_CAPACITY);
  #senders = new Uint32Array(INITIAL_CAPACITY);
  #deadlines = new Float64Array(INITIAL_CAPACITY);
  /** Items lie in [#start, #end). */
  #start = 0;
  #end = 0;
  /** Without notices. */
  readonly #waiting: UsageRow = { items: 0, bytes: 0 };
  readonly #senderNumbers = new Map<PublicKey, number>();
  readonly #senderKeys: PublicKey[] = [];

  /** Places held in memory, about 24 bytes each. */
  get capacity(): number {
    return this.#seqs.length;
  }

  get length(): number {
    return this.#end - this.#start;
  }

  /** The items and their bytes without notices, as the row of the target counts them. */
  get waiting(): Readonly<UsageRow> {
    return this.#waiting;
  }

  has(seq: number): boolean {
    const at = this.#firstAbove(seq) - 1;
    return at >= this.#start && this.#at(this.#seqs, at) === seq;
  }

  /** Says whether all that is here with `after` < seq <= `through` is among `rows`, which ascend. */
  isWithin(rows: readonly { seq: number }[], after: number, through: number): boolean {
    const stop = this.#firstAbove(through);
    let row = 0;
    for (let at = this.#firstAbove(after); at < stop; at++) {
      const seq = this.#at(this.#seqs, at);
      while ((rows[row]?.seq ?? Infinity) < seq) row++;
      if (rows[row++]?.seq !== seq) return false;
    }
    return true;
  }

  append(item: IndexedItem): void {
    if (this.length > 0 && item.seq <= this.#at(this.#seqs, this.#end - 1)) {
      throw new Error('invariant: sequence numbers of a queue ascend');
    }
    if (this.#end === this.#seqs.length) this.#makeRoom();
    this.#seqs[this.#end] = item.seq;
    this.#bytes[this.#end] = item.bytes;
    this.#senders[this.#end] = item.senderPubkey === null ? NO_SENDER : this.#senderNumber(item.senderPubkey);
    this.#deadlines[this.#end] = item.expiresAtMs;
    this.#count(this.#end, 1);
    this.#end++;
  }

  /** Sums up the items at or below `through`, by sender; it ends before the sender after the first `sendersMax`. */
  released(through: number, sendersMax: number): Released {
    const stop = this.#firstAbove(through);
    const usage = new Map<number, { items: number; bytes: number }>();
    let bytes = 0;
    let notices = 0;
    let at = this.#start;
    for (; at < stop; at++) {
      const size = this.#at(this.#bytes, at);
      const sender = this.#at(this.#senders, at);
      if (sender === NO_SENDER) {
        notices++;
        continue;
      }
      const used = usage.get(sender);
      if (!used && usage.size === sendersMax) break;
      bytes += size;
      if (used) {
        used.items++;
        used.bytes += size;
      } else {
        usage.set(sender, { items: 1, bytes: size });
      }
    }
    const shares: ReleasedShare[] = [];
    for (const [sender, used] of usage) {
      const senderPubkey = this.#senderKeys[sender];
      if (senderPubkey !== undefined) shares.push({ senderPubkey, ...used });
    }
    const reached = at === stop ? through : this.#at(this.#seqs, at - 1);
    return { through: reached, items: at - this.#start - notices, bytes, notices, shares };
  }

  /** Items up to `through` that have expired by `nowMs` and still wait: the first `max`. */
  late(through: number, nowMs: number, max: number): number[] {
    const stop = this.#firstAbove(through);
    const seqs: number[] = [];
    for (let at = this.#start; at < stop && seqs.length < max; at++) {
      if (this.#at(this.#deadlines, at) <= nowMs) seqs.push(this.#at(this.#seqs, at));
    }
    return seqs;
  }

  dropThrough(through: number): void {
    const start = this.#firstAbove(through);
    for (let at = this.#start; at < start; at++) this.#count(at, -1);
    this.#start = start;
    if (this.#start === this.#end) this.#reset();
  }

  drop(seq: number): void {
    if (!this.has(seq)) return;
    const at = this.#firstAbove(seq) - 1;
    if (at === this.#start) {
      this.dropThrough(seq);
      return;
    }
    this.#count(at, -1);
    for (const column of [this.#seqs, this.#bytes, this.#senders, this.#deadlines])
      column.copyWithin(at, at + 1, this.#end);
    this.#end--;
  }

  #count(at: number, times: 1 | -1): void {
    if (this.#at(this.#senders, at) === NO_SENDER) return;
    this.#waiting.items += times;
    this.#waiting.bytes += times * this.#at(this.#bytes, at);
  }

  /** An empty index keeps no memory of how large it was, nor of whom it held. */
  #reset(): void {
    this.#start = this.#end = 0;
    this.#senderNumbers.clear();
    this.#senderKeys.length = 0;
    this.#seqs = new Float64Array(INITIAL_CAPACITY);
    this.#bytes = new Uint32Array(INITIAL_CAPACITY);
    this.#senders = new Uint32Array(INITIAL_CAPACITY);
    this.#deadlines = new Float64Array(INITIAL_CAPACITY);
  }

  #firstAbove(through: number): number {
    let low = this.#start;
    let high = this.#end;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#at(this.#seqs, middle) <= through) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #senderNumber(key: PublicKey): number {
    const known = this.#senderNumbers.get(key);
    if (known !== undefined) return known;
    const number = this.#senderKeys.push(key) - 1;
    this.#senderNumbers.set(key, number);
    return number;
  }

  #makeRoom(): void {
    const live = this.length;
    const capacity = live * 2 > this.#seqs.length ? this.#seqs.length * 2 : this.#seqs.length;
    this.#seqs = moveWithin(this.#seqs, new Float64Array(capacity), this.#start, this.#end);
    this.#bytes = moveWithin(this.#bytes, new Uint32Array(capacity), this.#start, this.#end);
    this.#senders = moveWithin(this.#senders, new Uint32Array(capacity), this.#start, this.#end);
    this.#deadlines = moveWithin(this.#deadlines, new Float64Array(capacity), this.#start, this.#end);
    this.#start = 0;
    this.#end = live;
  }

  #at(column: Float64Array | Uint32Array, position: number): number {
    const value = column[position];
    if (value === undefined) throw new Error('invariant: a position lies inside the index');
    return value;
  }
}

function moveWithin<T extends Float64Array | Uint32Array>(from: T, to: T, start: number, end: number): T {
  to.set(from.subarray(start, end));
  return to;
}
