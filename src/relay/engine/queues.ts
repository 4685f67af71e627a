/**
 * Makes a command at a queue wait until it can be decided: no key rotation is moving the queue's items, and, for
 * commands about a range of items, the index of the queue is in memory. Every wait ends in `StoreFailed` (the relay is
 * ending) or `BrokenQueue` (the rows of this queue are at fault) when it fails.
 *
 * Indexes are loaded on first need, updated with every event, and dropped when others need the room. While one loads,
 * commands for its target wait, so that no event can pass by unseen: the load begins when everything admitted is
 * durable, and reads durable rows only.
 *
 * Moves: a rotation is one event of fixed size. Its items follow in events of their own, a slice at a time beside other
 * commits, so that a full queue holds the event loop no longer than a few items; commands for either key wait until the
 * last item has arrived and is durable. A crash in between leaves the rest for the next start. Where a row cannot be
 * read the move ends, and commands for either key are refused from then on: an item pushed to the new key now would get
 * a seq below those that are still to come, and its reader would skip them. After a rebuild of the rows the next start
 * moves the rest.
 *
 * What vanished from a queue is noticed by its index (vanished-items.ts).
 *
 * Faults: a queue whose rows contradict what should happen to them is left unchanged. Its acks, expiries and rotations
 * are refused and change nothing, and the mail of other queues goes on. Each request tries again, so nothing of this is
 * stored: a store whose rows were repaired works at its next start.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
import { MOVED_AT_ONCE, decideMove } from '../core/decide-rotation.ts';
import { BrokenQueue, type Refusal, refusal, targetRow } from '../core/decision.ts';
import type { RelayEvent } from '../core/event.ts';
import { type IndexedItem, QueueIndex } from '../core/queue-index.ts';
import { type QueueRow, afterLooks } from '../core/rows.ts';
import { DamagedRow } from '../store/checksum.ts';
import type { RelayStore } from '../store/relay-store.ts';
import { type Committer, StoreFailed } from './committer.ts';
import { AdaptiveBatch, TimeSlice } from '../../lib/clock.ts';
import { type QueueFault, VanishedItems } from './vanished-items.ts';

/** Places for items in memory at most, over all targets; about 24 bytes each. The index in use always stays. */
const INDEXED_ITEMS_MAX = 1_000_000;
/** Queue rows read at a time: decoding them holds the loop for about 2 ms. */
const LOAD_ROWS = 250;
const MOVED_ROWS = 3 * MOVED_AT_ONCE;

interface QueuesOptions {
  store: RelayStore;
  committer: Committer;
  monotonicMs: () => number;
  /** Called once for each queue whose rows are at fault. */
  onFault: (fault: QueueFault) => void;
  /** As `VanishedItems` has it. */
  onVanished: (fault: QueueFault) => Promise<void>;
}

export class Queues {
  readonly #options: QueuesOptions;
  /** The indexes in memory, in order of last use. */
  readonly #loaded = new Map<PublicKey, QueueIndex>();
  readonly #loading = new Map<PublicKey, Promise<void>>();
  /** The moves under way, by either key. */
  readonly #moving = new Map<PublicKey, Promise<void>>();
  readonly #faults = new Map<PublicKey, QueueFault>();
  readonly #vanished: VanishedItems;

  constructor(options: QueuesOptions) {
    this.#options = options;
    const { committer: rows } = options;
    this.#vanished = new VanishedItems({ ...options, rows, indexOf: (target) => this.#loaded.get(target) });
  }

  /**
   * The work that a command for these queues waits for; `undefined` when there is none, and the command is to be
   * decided at once: during an await the load of an index could begin that never sees the command's items.
   */
  waitFor(targets: readonly PublicKey[]): Promise<void> | undefined {
    for (const target of targets) {
      const work = this.#moving.get(target) ?? this.#loading.get(target);
      if (work) return this.#at(target, work);
    }
    return undefined;
  }

  /** Resolves when no item of the queue is on its way from one key to another. */
  async migrated(target: PublicKey): Promise<void> {
    for (let work = this.#moving.get(target); work; work = this.#moving.get(target)) await this.#at(target, work);
  }

  index(target: PublicKey): QueueIndex | undefined {
    const index = this.#loaded.get(target);
    if (index) {
      this.#loaded.delete(target);
      this.#loaded.set(target, index);
    }
    return index;
  }

  /** Loads the index of `target`. Another load may have removed it again by the time the caller looks. */
  async loadIndex(target: PublicKey): Promise<void> {
    let loading = this.#loading.get(target);
    if (!loading) {
      loading = this.#load(target).finally(() => this.#loading.delete(target));
      this.#loading.set(target, loading);
    }
    await this.#at(target, loading);
    const index = this.#loaded.get(target);
    if (index) await this.lacks(target, index);
  }

  /** Says whether items of the queue are gone from the store. Its index is in memory; it may be gone afterwards. */
  lacks(target: PublicKey, index: QueueIndex): Promise<boolean> | false {
    return this.#vanished.maySearch(target, index) && this.#vanished.search(target);
  }

  /**
   * To be called with all rows of a queue with `after` < seq <= `through`, as they were read. Where some are gone, that
   * is told before it resolves; `undefined`: none are, as far as the index is in memory. Throws `BrokenQueue` when the
   * rows are there, and were not read.
   */
  compared(target: PublicKey, rows: readonly QueueRow[], after: number, through: number): Promise<void> | undefined {
    const isAll = (): boolean => this.#loaded.get(target)?.isWithin(rows, after, through) ?? true;
    if (isAll()) return undefined;
    this.#loaded.delete(target);
    return this.loadIndex(target).then(() => {
      if (!isAll()) throw this.faultAt(target, new Error('some rows of it are read now and then'));
    });
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
        this.#vanished.forget(event.oldPubkey);
        return;
      default:
    }
  }

  /** Moves what is left of a rotated key's queue, if anything is. Resolves when it is durable. Throws `StoreFailed`. */
  move(oldPubkey: PublicKey, nowMs: number): Promise<void> {
    const row = this.#options.committer.get('move', oldPubkey);
    if (!row) return Promise.resolve();
    const keys = [oldPubkey, row.newPubkey];
    const move = this.#at(oldPubkey, this.#move(oldPubkey, nowMs));
    for (const key of keys) this.#moving.set(key, move);
    move.then(
      () => {
        for (const key of keys) this.#moving.delete(key);
      },
      // Commands that wait get the error; a move without one must not end the process.
      () => undefined,
    );
    return move;
  }

  /** Resolves when no move is under way any more, also when one failed. */
  async moved(): Promise<void> {
    await Promise.allSettled(this.#moving.values());
  }

  get faults(): QueueFault[] {
    return [...this.#faults.values(), ...this.#vanished.faults];
  }

  noteFault({ targetPubkey, message }: BrokenQueue): void {
    if (this.#faults.has(targetPubkey)) return;
    const fault = { targetPubkey, reason: message.replace(/^invariant: /, '') };
    this.#faults.set(targetPubkey, fault);
    this.#options.onFault(fault);
  }

  /** The error to throw for `error`, which occurred at the queue of `target`: a failed store concerns every queue. */
  faultAt(target: PublicKey, error: unknown): StoreFailed | BrokenQueue {
    if (error instanceof StoreFailed) return error;
    const broken =
      error instanceof BrokenQueue ? error : new BrokenQueue(target, (error as Error).message, { cause: error });
    this.noteFault(broken);
    return broken.targetPubkey === target ? broken : new BrokenQueue(target, broken.message, { cause: broken });
  }

  /** Resolves with `work`, which is done at the queue of `target`. Rejects with `StoreFailed` or `BrokenQueue`. */
  async #at(target: PublicKey, work: Promise<void>): Promise<void> {
    try {
      await work;
    } catch (error) {
      throw this.faultAt(target, error);
    }
  }

  async #move(oldPubkey: PublicKey, nowMs: number): Promise<void> {
    const { store, committer, monotonicMs } = this.#options;
    await committer.durable();
    const { headSeq, ackedThrough } = targetRow(committer, oldPubkey);
    const slice = new TimeSlice(monotonicMs);
    const batch = new AdaptiveBatch(MOVED_AT_ONCE, monotonicMs);
    let rows: QueueRow[] = [];
    for (let after = ackedThrough; ; ) {
      if (rows.length === 0) rows = await store.queueRows(oldPubkey, after, headSeq, MOVED_ROWS);
      while (committer.isFull) await committer.room();
      const move = committer.get('move', oldPubkey);
      if (!move) break;
      const runs = rows.map(({ payloadBound, seq }) => payloadBound ?? seq);
      const fromSeqs = rows.splice(0, batch.sizeOf(runs)).map(({ seq }) => seq);
      const { events } = decideMove({ type: 'MoveItems', oldPubkey, fromSeqs, nowMs }, move);
      await afterLooks(() => batch.run(() => committer.admit(events)));
      after = fromSeqs.at(-1) ?? after;
      if (slice.isOver) await slice.pause();
    }
    await committer.durable();
  }

  async #load(target: PublicKey): Promise<void> {
    const { store, committer } = this.#options;
    await committer.durable();
    const { ackedThrough, headSeq } = targetRow(committer, target);
    const index = new QueueIndex();
    for (let after = ackedThrough; ; ) {
      const rows = await store.queueRows(target, after, headSeq, LOAD_ROWS);
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

/** Tells whether the rows of one queue are at fault, and nothing else. */
export function isBrokenQueue(error: unknown): error is BrokenQueue {
  return error instanceof BrokenQueue;
}

/** Tells whether a stored row that was needed is damaged: the store has recorded which. Nothing was changed. */
export function isDamagedRow(error: unknown): error is DamagedRow {
  return error instanceof DamagedRow;
}

/** Tells whether rows are at fault, which the operator sees in the log, and not the software. */
export function isRowFault(error: unknown): boolean {
  return isBrokenQueue(error) || isDamagedRow(error);
}

export function damagedRowRefusal(): Refusal {
  return refusal('UNAVAILABLE', 'a row that this needs is damaged in the store of the relay, whose operator is told');
}

export function brokenQueueRefusal(): Refusal {
  return refusal('UNAVAILABLE', 'the relay found a fault in its rows of this queue and changes nothing there');
}
