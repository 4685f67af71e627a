/**
 * Searches for what is known of an item whose sender and targets had so many keys that one search for all of them would
 * hold the event loop: in time slices, before the item is decided.
 *
 * Other hosts push meanwhile. An item of the same id waits (`pendingFor`), so that no row appears behind the search; a row
 * that was found is read again when the item is decided; the search is repeated when the keys have changed. One search at
 * a time, so that hosts which change their keys often get their share of the event loop and no more.
 */
import type { ItemId } from '../../protocol/names.ts';
import type { PushItem } from '../core/command.ts';
import type { KnownKeys, KnownKeyPair } from '../core/push-facts.ts';
import { type RowReader, rowKey } from '../core/rows.ts';
import { TimeSlice } from './time-slice.ts';

export class WidePushes {
  readonly #rows: RowReader;
  readonly #monotonicMs: () => number;
  #current: { itemId: ItemId; done: Promise<void> } | undefined;

  constructor(rows: RowReader, monotonicMs: () => number) {
    this.#rows = rows;
    this.#monotonicMs = monotonicMs;
  }

  /** The search that another push of this item waits for. */
  pendingFor(itemId: ItemId): Promise<void> | undefined {
    return this.#current?.itemId === itemId ? this.#current.done : undefined;
  }

  /** Runs `work`, the push of an item, when no other search is under way. */
  async inTurn<T>(itemId: ItemId, work: () => Promise<T>): Promise<T> {
    while (this.#current) await this.#current.done;
    let end!: () => void;
    this.#current = { itemId, done: new Promise((resolve) => (end = resolve)) };
    try {
      return await work();
    } finally {
      this.#current = undefined;
      end();
    }
  }

  /** Where the item is known, for each target. */
  async find({ item }: PushItem, { known, lineages }: KnownKeys): Promise<KnownKeyPair[][]> {
    const slice = new TimeSlice(this.#monotonicMs);
    const found: KnownKeyPair[][] = [];
    for (const members of lineages) {
      const places: KnownKeyPair[] = [];
      for (const sender of known) {
        for (const member of members) {
          if (this.#rows.get('dedup', rowKey.dedup(sender, member, item.itemId))) places.push([sender, member]);
          if (slice.isOver) await slice.pause();
        }
      }
      found.push(places);
    }
    return found;
  }
}
