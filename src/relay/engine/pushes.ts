/**
 * Pushes: each item of a request is decided alone and in order, and the request is answered when all of it is durable.
 *
 * An item is decided in the same synchronous run in which nothing was left to wait for (`#obstacle`). The items of
 * hosts that had many keys are searched for first, in time slices (`WideSearch`), and few of them in one request. A
 * queue whose rows are at fault, and a damaged row, reject the items that need them and no others of the request.
 */
import type { Epoch, ItemId } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { PushItem } from '../core/command.ts';
import { type FactSource, type PushOutcome, type Refusal, refusal, relayRow } from '../core/decision.ts';
import type { RelayEvent } from '../core/event.ts';
import {
  CHARGED_PLACES_MAX,
  KNOWN_ROWS_ASKED_MAX,
  KNOWN_ROWS_SEARCHED_MAX,
  type KnownKeyPairs,
  type KnownKeys,
  decidePush,
  flatPairs,
  knownKeys,
  pushFacts,
} from '../core/decide-push.ts';
import type { Payload } from '../store/durable-log.ts';
import type { EngineParts } from './parts.ts';
import { isRowFault } from './queues.ts';
import { TimeSlice } from '../../lib/clock.ts';
import { LookFirst, type RowReader, type TableName, type Tables, afterLooks, rowKey } from '../core/rows.ts';

export interface Pushed<T> {
  type: 'Pushed';
  answer: T;
  /** The number of places that were looked in, beyond those of hosts that changed their keys a few times. */
  places: number;
}

type Outcome = PushOutcome | Refusal;

export class Pushes {
  readonly #parts: EngineParts;
  readonly #wide: WideSearch;
  /** The rows as they stand. Whether an item is known is a question of its own: its row may be gone from the disk. */
  readonly #rows: FactSource;

  constructor(parts: EngineParts) {
    const { committer } = parts;
    this.#parts = parts;
    this.#rows = {
      get: <T extends TableName>(table: T, key: string) =>
        table === 'dedup' ? (committer.known(key) as Tables[T] | undefined) : committer.get(table, key),
      hasPayload: (row) => committer.hasPayload(row),
    };
    this.#wide = new WideSearch(this.#rows, parts.monotonicMs);
  }

  /**
   * Decides each item alone and in order; nothing after an outcome for which `stopsAt` is true. `prepare` turns the
   * outcomes into an answer while they are being synced; the answer is returned when everything it rests on is durable.
   */
  async push<T>(
    commands: readonly PushItem[],
    prepare: (outcomes: PushOutcome[], epoch: Epoch) => T | Promise<T>,
    stopsAt: (outcome: PushOutcome) => boolean = () => false,
  ): Promise<Pushed<T> | Refusal> {
    const { committer, observer, monotonicMs } = this.#parts;
    const outcomes: PushOutcome[] = [];
    const slice = new TimeSlice(monotonicMs);
    const asked = { places: 0, byOthers: 0 };
    for (const command of commands) {
      if (slice.isOver) await slice.pause();
      asked.byOthers = asked.places;
      let tried = this.#tried(command, asked);
      // Mostly there is nothing to wait for, and a promise for each item costs as much as half of its decision.
      while (tried instanceof Promise)
        tried = (await tried.catch<Outcome | void>(afterFault)) ?? this.#tried(command, asked);
      const outcome = tried;
      if (outcome.type === 'Refusal') return committer.answer(outcome);
      outcomes.push(outcome);
      if (stopsAt(outcome)) break;
    }
    const durable = committer.durable();
    const [answer] = await Promise.all([prepare(outcomes, relayRow(committer).epoch), durable]);
    observer.pushed(outcomes);
    return { type: 'Pushed', answer, places: asked.places };
  }

  /** Decides an item; or answers what it has to wait for, after which it is tried again where that has no outcome. */
  #tried(command: PushItem, asked: { places: number; byOthers: number }): Outcome | Promise<Outcome | void> {
    const { itemId } = command.item;
    try {
      const wait = this.#obstacle(command) ?? this.#wide.pendingFor(itemId);
      if (wait) return wait;
      const keys = this.#knownKeys(command);
      const { byOthers } = asked;
      const isTooMuch = byOthers > 0 && keys.charged > 0 && byOthers + keys.charged > CHARGED_PLACES_MAX;
      if (isTooMuch) return { type: 'ItemRejected', rejection: 'quota:places' };
      asked.places = byOthers + keys.charged;
      if (keys.asked <= KNOWN_ROWS_ASKED_MAX) return this.#decide(command, keys);
      return this.#wide.inTurn(itemId, () => this.#pushWide(command));
    } catch (error) {
      return afterFault(error);
    }
  }

  /** Searches for what is known of an item of hosts that had many keys; anew when one of them rotates meanwhile. */
  async #pushWide(command: PushItem): Promise<Outcome> {
    let keys = this.#knownKeys(command);
    while (keys.asked <= KNOWN_ROWS_SEARCHED_MAX) {
      const searched = keys;
      const found = await this.#wide.find(command, searched);
      const decided = await afterLooks(async () => {
        for (let wait = this.#obstacle(command); wait; wait = this.#obstacle(command)) await wait;
        const now = this.#knownKeys(command);
        return haveSameKeys(searched, now) ? this.#decide(command, now, found) : now;
      });
      if ('type' in decided) return decided;
      keys = decided;
    }
    return this.#decide(command, keys);
  }

  /** `keys` are those of this moment. */
  #decide(command: PushItem, keys: KnownKeys, found?: KnownKeyPairs[][]): Outcome {
    const { committer, directory, settings } = this.#parts;
    // The sender may be revoked while its request runs: items pushed by then stay, and the request is refused.
    const sender = directory.get(command.senderPubkey);
    if (sender && sender.revokedAtMs !== null) return refusal('NOT_ENROLLED', 'not enrolled');
    const facts = pushFacts(command, keys, this.#rows, this.#parts, settings, found);
    const decision = decidePush(command, facts, settings);
    committer.admit(decision.events, payloadsOf(command, decision.events));
    return decision.outcome;
  }

  #knownKeys(command: PushItem): KnownKeys {
    const { committer, settings, store } = this.#parts;
    return knownKeys(command, committer, settings, store.knownPairs);
  }

  /** Returns what a push waits for; `undefined` when it is to be decided now, in the same synchronous run. */
  #obstacle({ item }: PushItem): Promise<void> | undefined {
    const { committer, queues } = this.#parts;
    if (committer.isFull) return committer.room();
    return queues.waitFor(item.targets.map(({ hostPubkey }) => hostPubkey));
  }
}

/** What follows from the error of an item: the disk is looked at, or the item is rejected. Others are thrown. */
function afterFault(error: unknown): PushOutcome | Promise<void> {
  if (error instanceof LookFirst) return error.look().then(() => undefined);
  if (isRowFault(error)) return { type: 'ItemRejected', rejection: 'target unavailable' };
  throw error;
}

/** Says whether no host of the push has rotated in between. */
function haveSameKeys(before: KnownKeys, now: KnownKeys): boolean {
  return areSame(before.senders, now.senders) && before.lineages.every((keys, at) => areSame(keys, now.lineages[at]));
}

function areSame(keys: readonly PublicKey[], others: readonly PublicKey[] = []): boolean {
  return keys.length === others.length && keys.every((key, at) => key === others[at]);
}

function payloadsOf({ item }: PushItem, events: readonly RelayEvent[]): Payload[] {
  const accepted = events.at(-1);
  if (accepted?.type !== 'ItemAccepted') return [];
  return accepted.targets.map(({ hostPubkey, seq }) => {
    const pushed = item.targets.find((target) => target.hostPubkey === hostPubkey);
    if (!pushed) throw new Error('invariant: an accepted target was pushed');
    return { targetPubkey: hostPubkey, seq, wire: pushed.wire };
  });
}

/**
 * Searches for what is known of an item whose sender and targets had so many keys that one search for all of them would
 * hold the event loop: in time slices, before the item is decided.
 *
 * Other hosts push meanwhile. An item of the same id waits (`pendingFor`), so that no row appears behind the search; a
 * row that was found is read again when the item is decided; the search is repeated when the keys have changed. One
 * search at a time, so that hosts which change their keys often get their share of the event loop and no more.
 */
class WideSearch {
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

  /** Returns where the item is known, for each target. */
  async find({ item }: PushItem, { pairs }: KnownKeys): Promise<KnownKeyPairs[][]> {
    const slice = new TimeSlice(this.#monotonicMs);
    const found: KnownKeyPairs[][] = [];
    for (const ofTarget of pairs) {
      const places: KnownKeyPairs[] = [];
      for (const [sender, target] of flatPairs(ofTarget)) {
        const key = rowKey.dedup(sender, target, item.itemId);
        if (await afterLooks(() => this.#rows.get('dedup', key))) places.push([sender, [target]]);
        if (slice.isOver) await slice.pause();
      }
      found.push(places);
    }
    return found;
  }
}
