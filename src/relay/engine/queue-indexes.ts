/**
 * The queue indexes that are in memory: loaded on first need, updated with every event, dropped when others need the
 * room.
 *
 * While an index loads, commands for its target wait (`loading`), so that no event can pass by unseen: the load begins
 * when everything admitted is durable, and reads durable rows only.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { RelayEvent } from '../core/event.ts';
import { type IndexedItem, QueueIndex } from '../core/queue-index.ts';
import type { TargetRow } from '../core/rows.ts';
import type { RelayStore } from '../store/relay-store.ts';

/** Places for items in memory at most, over all targets; about 24 bytes each. The index in use always stays. */
const INDEXED_ITEMS_MAX = 1_000_000;
/** Queue rows read at a time: decoding them holds the loop for about 2 ms. */
const LOAD_ROWS = 250;

interface QueueIndexesOptions {
  store: RelayStore;
  durable: () => Promise<void>;
  targetRow: (target: PublicKey) => TargetRow;
}

export class QueueIndexes {
  readonly #options: QueueIndexesOptions;
  /** In order of last use. */
  readonly #loaded = new Map<PublicKey, QueueIndex>();
  readonly #loading = new Map<PublicKey, Promise<void>>();

  constructor(options: QueueIndexesOptions) {
    this.#options = options;
  }

  /** Whether a command for `target` must wait until its index has loaded. */
  loading(target: PublicKey): Promise<void> | undefined {
    return this.#loading.get(target);
  }

  get(target: PublicKey): QueueIndex | undefined {
    const index = this.#loaded.get(target);
    if (index) {
      this.#loaded.delete(target);
      this.#loaded.set(target, index);
    }
    return index;
  }

  /** Brings the index of `target` into memory; another load may have pushed it out again by the time one looks. */
  async load(target: PublicKey): Promise<void> {
    let loading = this.#loading.get(target);
    if (!loading) {
      loading = this.#read(target).finally(() => this.#loading.delete(target));
      this.#loading.set(target, loading);
    }
    await loading;
  }

  /** To be called for every admitted event. */
  admitted(event: RelayEvent): void {
    switch (event.type) {
      case 'ItemAccepted': {
        const { senderPubkey, expiresAtMs } = event;
        for (const { hostPubkey, seq, bytes } of event.targets) {
          this.#loaded.get(hostPubkey)?.append({ seq, bytes, senderPubkey, expiresAtMs });
        }
        return;
      }
      case 'ItemsAcked':
        this.#loaded.get(event.targetPubkey)?.dropThrough(event.through);
        return;
      case 'ItemsExpired':
        for (const { seq } of event.items) this.#loaded.get(event.targetPubkey)?.drop(seq);
        for (const { targetPubkey, seq, wire } of event.notices) {
          this.#loaded.get(targetPubkey)?.append(indexedNotice(seq, wire.length));
        }
        return;
      case 'ItemLost':
        this.#loaded.get(event.targetPubkey)?.drop(event.seq);
        return;
      case 'KeyRotated':
        // Loaded again when the items have been moved.
        this.#loaded.delete(event.oldPubkey);
        this.#loaded.delete(event.newPubkey);
        return;
      default:
    }
  }

  async #read(target: PublicKey): Promise<void> {
    await this.#options.durable();
    const { ackedThrough, headSeq } = this.#options.targetRow(target);
    const index = new QueueIndex();
    for (let after = ackedThrough; ; ) {
      const rows = await this.#options.store.queueRows(target, after, headSeq, LOAD_ROWS);
      for (const { seq, bytes, kind, senderPubkey, expiresAtMs } of rows)
        index.append(kind === 'expired' ? indexedNotice(seq, bytes) : { seq, bytes, senderPubkey, expiresAtMs });
      const last = rows.at(-1);
      if (!last || rows.length < LOAD_ROWS) break;
      after = last.seq;
    }
    this.#makeRoom(index.capacity);
    this.#loaded.set(target, index);
  }

  #makeRoom(wanted: number): void {
    let items = wanted;
    for (const index of this.#loaded.values()) items += index.capacity;
    for (const [target, index] of this.#loaded) {
      if (items <= INDEXED_ITEMS_MAX) return;
      this.#loaded.delete(target);
      items -= index.capacity;
    }
  }
}

function indexedNotice(seq: number, bytes: number): IndexedItem {
  return { seq, bytes, senderPubkey: null, expiresAtMs: Infinity };
}
