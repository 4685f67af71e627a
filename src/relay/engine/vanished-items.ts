/**
 * Notices that rows of a queue vanished from the disk, as by a flipped bit of their key: a page passes over them, its
 * host would ack them, and from then on a push of them would be a duplicate.
 *
 * The index of a queue is held against the row of its target, which counts what waits, and a page against the index,
 * where that is in memory. An ack always has the index, so one of the two comes before it. What counts less than is
 * charged is missed where the index of due items names it too; a charge alone may be left from an item that was passed
 * over before anybody looked, and keeps no host from its acks. A lone notice, which nobody is charged for, is not
 * missed.
 *
 * The operator hears once of what is missed, and one new epoch begins: the senders push again, and each such push puts
 * an item back. Pulls go on meanwhile, and acks of that queue are refused until nothing is missed.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import { targetRow } from '../core/decision.ts';
import { countText } from '../core/count-text.ts';
import type { QueueIndex } from '../core/queue-index.ts';
import { NO_USAGE, type RowReader, type UsageRow } from '../core/rows.ts';
import type { RelayStore } from '../store/relay-store.ts';
import { TimeSlice } from '../../lib/clock.ts';

/** The index of due items is walked whole: of 5 million items that takes a second of a processor. */
const SEARCHED_AGAIN_MS = 60_000;

export interface QueueFault {
  targetPubkey: PublicKey;
  reason: string;
}

interface VanishedItemsOptions {
  store: RelayStore;
  /** With everything admitted. */
  rows: RowReader;
  monotonicMs: () => number;
  /** The index of a queue that is in memory. */
  indexOf: (target: PublicKey) => QueueIndex | undefined;
  /** Called when more is missed of a queue than before. What it resolves for is waited for. */
  onVanished: (fault: QueueFault) => Promise<void>;
}

interface Missed {
  items: number;
  fault: QueueFault;
  /** The items that were charged beyond the index. While they are as many, nothing is searched until then. */
  uncounted: number;
  untilMs: number;
}

export class VanishedItems {
  readonly #options: VanishedItemsOptions;
  readonly #missed = new Map<PublicKey, Missed>();
  /** What is charged beyond an index although nothing is missed. */
  readonly #charged = new WeakMap<QueueIndex, UsageRow>();

  constructor(options: VanishedItemsOptions) {
    this.#options = options;
  }

  get faults(): QueueFault[] {
    return Array.from(this.#missed.values(), ({ fault }) => fault);
  }

  /** To be called when the host of a queue goes on under another key: nobody acks there any more. */
  forget(target: PublicKey): void {
    this.#missed.delete(target);
  }

  /** Says whether more waits at the target than its index holds, so that it must be searched for. */
  maySearch(target: PublicKey, index: QueueIndex): boolean {
    const left = this.#uncounted(target, index);
    const known = this.#charged.get(index) ?? NO_USAGE;
    const isMore = left.items > known.items || left.bytes > known.bytes;
    if (!isMore && this.#missed.size > 0) this.#missed.delete(target);
    return isMore;
  }

  /** Says whether items of the queue are missed, and tells of them; not where its index goes meanwhile. */
  async search(target: PublicKey): Promise<boolean> {
    const { store, rows, monotonicMs, indexOf, onVanished } = this.#options;
    const index = indexOf(target);
    const missed = this.#missed.get(target);
    const isKnown = index && missed?.uncounted === this.#uncounted(target, index).items;
    if (isKnown && monotonicMs() < missed.untilMs) return true;
    // What they were decoded from may be gone.
    store.forgetDecoded();
    const named = await store.due.seqsOf(target, new TimeSlice(monotonicMs));
    if (!index || indexOf(target) !== index) return false;
    const { ackedThrough } = targetRow(rows, target);
    const left = this.#uncounted(target, index);
    const unseen = named.filter((seq) => seq > ackedThrough && !index.has(seq));
    // Due entries name what was lost, too, for which nobody is charged any more.
    const items = Math.min(unseen.length, left.items);
    if (items <= 0) {
      this.#charged.set(index, left);
      return false;
    }
    const before = this.#missed.get(target)?.items ?? 0;
    const reason = `${countText(items, 'item')} of it ${items === 1 ? 'is' : 'are'} gone from the store`;
    const fault = { targetPubkey: target, reason };
    this.#missed.set(target, { items, fault, uncounted: left.items, untilMs: monotonicMs() + SEARCHED_AGAIN_MS });
    if (items > before) await onVanished(fault);
    return true;
  }

  #uncounted(target: PublicKey, { waiting }: QueueIndex): UsageRow {
    const { queueItems, queueBytes } = targetRow(this.#options.rows, target);
    return { items: queueItems - waiting.items, bytes: queueBytes - waiting.bytes };
  }
}
