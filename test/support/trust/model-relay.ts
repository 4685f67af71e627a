/** A relay as hosts meet its log, honest or told to lie, with real trees and signatures. Its clock has minutes. */
import type { Answer, Question } from '../../../src/host/core/relay-trust.ts';
import { openCheckpoint } from '../../../src/protocol/checkpoint.ts';
import { type Sha256Hex, sha256Hex } from '../../../src/protocol/encodings.ts';
import { type Epoch, epochFromRandom, type ItemId } from '../../../src/protocol/names.ts';
import type { PublicKey } from '../../../src/protocol/public-key.ts';
import { type SeenEntry, decodeKnew, knewHolds, noteHash } from '../../../src/protocol/seen.ts';
import type { ItemAccepted } from '../../../src/relay/core/event.ts';
import { encodeRecord } from '../../../src/relay/store/record.ts';
import { hostNamed, relay as relayHost } from '../hosts.ts';
import type { SeededRandom } from '../seeded-random.ts';
import { SmallLog } from '../small-log.ts';

export interface ModelItem {
  id: ItemId;
  from: string;
  to: string;
  receiptOf?: ItemId;
  seen: SeenEntry[];
  /** Marks of what the other host has shown. */
  heard: string[];
}

interface Accepted {
  epoch: Epoch;
  /** The leaf; undefined for what was accepted and left out. */
  index: number | undefined;
  seq: number;
}

export interface PushAnswer {
  epoch: Epoch;
  seq: number;
}

export const wireHashOf = (id: ItemId): Sha256Hex => sha256Hex(id);

let epochs = 0;
function newEpoch(): Epoch {
  const bytes = Buffer.alloc(16);
  bytes.writeUInt32BE(++epochs);
  return epochFromRandom(bytes);
}

export class ModelStore {
  tip: SmallLog;
  ended: Map<Epoch, SmallLog>;
  queue: Map<ItemId, ModelItem>;
  accepted: Map<ItemId, Accepted>;
  #seq: number;

  constructor(from?: ModelStore) {
    this.tip = from?.tip.copy() ?? new SmallLog(newEpoch());
    this.ended = new Map(from?.ended);
    this.queue = new Map(from?.queue);
    this.accepted = new Map(from?.accepted);
    this.#seq = from ? from.#seq : 0;
  }

  copy(): ModelStore {
    return new ModelStore(this);
  }

  /** Begins an epoch, which says that the one before ended with `size` leaves. */
  rotate(size = this.tip.size): void {
    const last = size === this.tip.size ? this.tip : this.tip.copy(size);
    this.ended.set(last.epoch, last);
    this.tip = last.next(newEpoch());
    this.#forget((log) => log.epoch === last.epoch);
  }

  /** Goes back within the epoch, as no honest store does. */
  cut(size: number): void {
    this.tip = this.tip.copy(size);
    this.#forget((log) => log === this.tip);
  }

  /** Without the items whose leaf is gone. */
  #forget(isCut: (log: SmallLog) => boolean): void {
    for (const [id, { epoch, index }] of this.accepted) {
      const log = this.logOf(epoch);
      if (log && (!isCut(log) || index === undefined || index < log.size)) continue;
      this.accepted.delete(id);
      this.queue.delete(id);
    }
  }

  logOf(epoch: Epoch): SmallLog | undefined {
    return epoch === this.tip.epoch ? this.tip : this.ended.get(epoch);
  }

  push(item: ModelItem, atMs: number, isLogged = true): PushAnswer {
    const { epoch } = this.tip;
    const known = this.accepted.get(item.id);
    if (known) return { epoch, seq: known.seq };
    const seq = ++this.#seq;
    this.accepted.set(item.id, { epoch, index: isLogged ? this.tip.size : undefined, seq });
    if (!isLogged) return { epoch, seq };
    const target = { hostPubkey: hostNamed(item.to).key, seq, wireHash: wireHashOf(item.id), bytes: 100 };
    const times = { acceptedAtMs: atMs, expiresAtMs: atMs, dedupUntilMs: atMs };
    const head = { senderPubkey: hostNamed(item.from).key, itemId: item.id, kind: 'envelope' as const };
    const event: ItemAccepted = { type: 'ItemAccepted', ...head, targets: [target], ...times };
    this.tip.append(encodeRecord({ lsn: this.tip.size, event }));
    this.queue.set(item.id, item);
    return { epoch, seq };
  }
}

export class ModelRelay {
  store = new ModelStore();
  /** Hosts that are shown another history. */
  readonly views = new Map<string, ModelStore>();
  /** Hosts that are shown this head for ever. */
  readonly frozen = new Map<string, { log: SmallLog; size: number }>();
  /** Hosts that are answered this note by a cache. */
  readonly cached = new Map<string, string>();
  /** Epochs of which the link is refused. */
  readonly cutLinks = new Set<Epoch>();
  /** What all views store is stored in each. */
  isBridged = false;
  isLying = false;
  isFlaky = false;
  /** False for a relay of before, which knows neither `size` nor `after`. */
  givesAfter: boolean;
  downUntil = 0;
  /** A reader that lags behind, or a cache. */
  lagging: { store: ModelStore; until: number } | undefined;
  refuses = (_host: string): boolean => false;
  leavesOut = (_host: string): boolean => false;
  /** It logs the item, and never brings it. */
  swallows = (_item: ModelItem): boolean => false;
  /** New epochs that notes which were shown made it begin. */
  epochsOfNotes = 0;
  minute = 0;
  readonly #random: SeededRandom;

  constructor(random: SeededRandom) {
    this.#random = random;
    this.givesAfter = random.chance(0.7);
  }

  viewOf(host: string): ModelStore {
    return this.views.get(host) ?? this.store;
  }

  get isDown(): boolean {
    return this.minute < this.downUntil || (this.isFlaky && this.#random.chance(0.02));
  }

  push(host: string, item: ModelItem, atMs: number): PushAnswer | undefined {
    if (this.isDown) return undefined;
    const view = this.viewOf(host);
    const answer = view.push(item, atMs, !this.leavesOut(host));
    if (this.isBridged) for (const other of new Set([this.store, ...this.views.values()])) other.push(item, atMs);
    return answer;
  }

  pull(host: string): { epoch: Epoch; items: ModelItem[] } | undefined {
    if (this.isDown) return undefined;
    const { queue, tip } = this.viewOf(host);
    const items = [...queue.values()].filter(({ to }) => to === host);
    for (const { id } of items) queue.delete(id);
    return { epoch: tip.epoch, items: items.filter((item) => !this.swallows(item)) };
  }

  answer(host: string, question: Question): Answer {
    if (this.isDown) return { type: 'none' };
    const { lagging } = this;
    const isOld = lagging !== undefined && this.minute < lagging.until && this.#random.chance(0.7);
    const store = isOld ? lagging.store : this.viewOf(host);
    if (question.ask === 'show') return this.#shown(question, store);
    const document =
      question.ask === 'head'
        ? this.#head(host, store, isOld ? undefined : question.knew)
        : this.#proof(host, store, question);
    return document === undefined ? { type: 'refused', status: 404, code: 'NOT_FOUND' } : { type: 'answer', document };
  }

  #head(host: string, store: ModelStore, knew: Buffer | undefined): string {
    const cached = this.cached.get(host);
    if (cached !== undefined) return cached;
    const { log, size } = this.frozen.get(host) ?? { log: store.tip, size: store.tip.size };
    return log.note(size, this.givesAfter ? knew : undefined);
  }

  #proof(host: string, store: ModelStore, question: Exclude<Question, { ask: 'head' | 'show' }>): unknown {
    if (this.refuses(host)) return undefined;
    if (question.ask === 'proof') {
      const { epoch, index } = store.accepted.get(question.itemId) ?? {};
      const log = epoch && store.logOf(epoch);
      if (!log || index === undefined) return undefined;
      const { size = log.size } = this.givesAfter ? question : {};
      return size <= log.size && index < size ? log.leafAt(index, size) : undefined;
    }
    const log = store.logOf(question.epoch);
    if (question.ask === 'link') return this.cutLinks.has(question.epoch) ? undefined : log?.leafAt(0);
    if (question.ask === 'consistency') return log?.consistency(question.from, question.to);
    if (!this.givesAfter) return log?.note();
    return log && question.size <= log.size ? log.note(question.size) : undefined;
  }

  /** An honest relay begins a new epoch when it signed what its log does not hold. */
  #shown({ note, knew, older }: Question & { ask: 'show' }, store: ModelStore): Answer {
    const shown = openCheckpoint(note, relayHost.key);
    if (!this.givesAfter || !shown) return { type: 'refused', status: 404, code: 'NOT_FOUND' };
    const { tip } = store;
    const log = store.logOf(shown.epoch);
    const bytes = knew === undefined ? undefined : decodeKnew(knew);
    const isAfterOlder = bytes !== undefined && older !== undefined && knewHolds(bytes, noteHash(older));
    const isOfTip = older !== undefined && openCheckpoint(older, relayHost.key)?.epoch === tip.epoch;
    const isHead = log !== undefined && shown.size <= log.size && log.root(shown.size).equals(shown.rootHash);
    const isContradiction = log ? log === tip && !isHead : isAfterOlder && isOfTip;
    if (!isContradiction || this.isLying || store !== this.store)
      return { type: 'answer', document: { known: isHead } };
    this.store.rotate();
    this.epochsOfNotes++;
    return { type: 'refused', status: 409, code: 'EPOCH_CHANGED' };
  }
}

export function targetOf(host: string): PublicKey {
  return hostNamed(host).key;
}
