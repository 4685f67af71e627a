/**
 * The view of a standby, as its backups and its scrub use it: it is read between two batches, so that it is always one
 * that the leader had, and made whole from the log. Only the relay that leads says that an item is lost.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import { type QueueRow, rowKey } from '../core/rows.ts';
import {
  type ItemPlace,
  type RepairedItem,
  repairFromCopies,
  repairedPayload,
  type LostFinder,
} from '../engine/lost-items.ts';
import { NothingYet } from '../operator/relay-state.ts';
import type { FollowedView } from '../shared-log/node-options.ts';
import type { SharedLog } from '../shared-log/shared-log.ts';
import { placeOf } from '../shared-log/take-lead.ts';
import type { RelayStore } from '../store/relay-store.ts';
import type { QueueSlice } from '../store/scan.ts';
import type { StoreSnapshot } from '../store/store-reader.ts';
import type { WireDamage } from '../store/wire-check.ts';

interface StandbyStoreOptions {
  log: SharedLog;
  onRepaired: (items: number, foundBy: LostFinder) => void;
  /** Gets items of which the log has no bytes either. */
  onMissing: (items: number, foundBy: LostFinder) => void;
  onUnreadable: (rows: number, foundBy: LostFinder) => void;
}

export class StandbyStore {
  readonly #options: StandbyStoreOptions;
  #view: FollowedView | undefined;

  constructor(options: StandbyStoreOptions) {
    this.#options = options;
  }

  /** From now on the node follows with this view. */
  follows(view: FollowedView): void {
    this.#view = view;
  }

  get store(): RelayStore | undefined {
    return this.#view?.store;
  }

  /** Shows everything that the view holds, between two batches; the caller closes it. Throws `NothingYet`. */
  snapshot(): Promise<StoreSnapshot> {
    const { log, store } = this.#present;
    return log.between(async () => {
      if (!store.get('relay', rowKey.relay)) throw new NothingYet();
      return store.snapshot();
    });
  }

  /** Returns a slice of all queues without what is acked, as the engine does. */
  waitingSlice(after: Buffer, through: Buffer, bytesMax: number): Promise<QueueSlice | undefined> {
    const { store } = this.#present;
    const ackedThrough = (target: PublicKey): number => store.get('target', target)?.ackedThrough ?? 0;
    return store.waitingSlice([after, through], bytesMax, ackedThrough);
  }

  checkRows(after: Buffer): Promise<Buffer | undefined> {
    return this.#present.store.checkRows(after);
  }

  payloads(rows: readonly QueueRow[]): Promise<(Buffer | undefined)[]> {
    return this.#present.store.payloads(rows);
  }

  /** Makes whole what the log has. Returns how many items are lost: none, for only the relay that leads knows that. */
  async report(places: readonly ItemPlace[], foundBy: LostFinder): Promise<number> {
    const { log, onRepaired, onMissing } = this.#options;
    const { store, log: viewLog } = this.#present;
    const { repaired, left } = await repairFromCopies(places, {
      queued: (target, seq) => store.queueRow(target, seq),
      wireBytes: (rows) => log.payloads(viewLog.logId, rows.map(placeOf)),
      repair: (items) => this.#repair(items),
    });
    if (repaired > 0) onRepaired(repaired, foundBy);
    // An item that was acked since is gone from the view by now, or soon.
    const missing = await stillQueued(store, left, (row) => row);
    if (missing.length > 0) onMissing(missing.length, foundBy);
    return 0;
  }

  async foundByBackup({ places, unreadable }: WireDamage): Promise<void> {
    this.reportUnreadable(unreadable, 'backup');
    await this.report(places, 'backup');
  }

  reportUnreadable(rows: number, foundBy: LostFinder): void {
    if (rows > 0) this.#options.onUnreadable(rows, foundBy);
  }

  get #present(): FollowedView {
    if (!this.#view) throw new NothingYet();
    return this.#view;
  }

  /** Bytes of an item that was acked meanwhile would stay for ever. */
  async #repair(items: readonly RepairedItem[]): Promise<void> {
    const { log, store } = this.#present;
    await log.between(async () => {
      const waiting = await stillQueued(store, items, ({ row }) => row);
      if (waiting.length === 0) return;
      const node = { repaired: waiting.map(repairedPayload) };
      await store.append({ entries: [], changes: [], payloads: [], node });
    });
  }
}

/** Keeps those of `all` whose row is still in the store. */
async function stillQueued<T>(store: RelayStore, all: readonly T[], rowOf: (one: T) => QueueRow): Promise<T[]> {
  const queued: T[] = [];
  for (const one of all) {
    const { targetPubkey, seq } = rowOf(one);
    if (await store.queueRow(targetPubkey, seq)) queued.push(one);
  }
  return queued;
}
