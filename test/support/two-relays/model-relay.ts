/** A relay as the law has it: queue and dedup of each target, seqs that never go back, notices of what expired. */
import { DAY_MS, HOUR_MS } from '../../../src/protocol/limits.ts';
import type { Epoch } from '../../../src/protocol/names.ts';
import type { PublicKey } from '../../../src/protocol/public-key.ts';
import { epochNumbered } from '../epochs.ts';
import { hostNamed } from '../hosts.ts';

export const RETENTION_MS = 30 * HOUR_MS;
const DEDUP_MS = RETENTION_MS + 7 * DAY_MS;

export interface ModelItem {
  kind: 'envelope' | 'receipt' | 'expired';
  /** Of a receipt and of a notice: the message that it is about. */
  about: string;
  id: string;
  sender: string;
  seq: number;
  atMs: number;
}

/** `at`: when the item was stored first, under which seq. */
export type PushResult = { at: { atMs: number; seq: number } } | 'refused';

/** What may be put back to a copy. */
interface ModelStore {
  queues: Record<string, ModelItem[]>;
  heads: Record<string, number>;
  dedup: Map<string, { atMs: number; seq: number }>;
}

export class ModelRelay {
  readonly number: 1 | 2;
  readonly key: PublicKey;
  isUp = true;
  /** It accepts and swallows everything, or receipts alone. */
  lies: 'all' | 'receipts' | null = null;
  /** Targets that take mail of nobody any more. */
  readonly shut = new Set<string>();
  store: ModelStore = { queues: {}, heads: {}, dedup: new Map() };
  copy: ModelStore | undefined;
  epoch: Epoch;
  #epochs = 1;

  constructor(number: 1 | 2) {
    this.number = number;
    this.key = hostNamed(`model relay ${number}`).key;
    this.epoch = epochNumbered(number * 100);
  }

  push(target: string, item: Pick<ModelItem, 'kind' | 'id' | 'about' | 'sender'>, nowMs: number): PushResult {
    // Refusals come before dedup.
    if (this.shut.has(target)) return 'refused';
    const key = `${item.sender}|${item.id}|${target}`;
    const known = this.store.dedup.get(key);
    if (known) return { at: known };
    const isSwallowed = this.lies === 'all' || (this.lies === 'receipts' && item.kind === 'receipt');
    const at = isSwallowed ? { atMs: nowMs, seq: this.#nextSeq(target, nowMs) } : this.#append(target, item, nowMs);
    this.store.dedup.set(key, at);
    return { at };
  }

  queueOf(target: string): ModelItem[] {
    return this.store.queues[target] ?? [];
  }

  headOf(target: string): number {
    return this.store.heads[target] ?? 0;
  }

  ack(target: string, through: number): void {
    this.store.queues[target] = this.queueOf(target).filter(({ seq }) => seq > through);
  }

  /** Drops what expired; a notice of each envelope goes to its sender. Answers the envelopes. */
  sweep(nowMs: number): string[] {
    const late: string[] = [];
    const { queues, dedup } = this.store;
    for (const [target, queue] of Object.entries(queues)) {
      const over = queue.filter(({ atMs }) => nowMs >= atMs + RETENTION_MS);
      if (over.length === 0) continue;
      queues[target] = queue.filter(({ atMs }) => nowMs < atMs + RETENTION_MS);
      for (const { kind, id, sender } of over) {
        if (kind !== 'envelope') continue;
        late.push(id);
        this.#append(sender, { kind: 'expired', id: `notice ${id} ${target}`, about: id, sender: 'relay' }, nowMs);
      }
    }
    for (const [key, { atMs }] of dedup) if (nowMs > atMs + DEDUP_MS) dedup.delete(key);
    return late;
  }

  keepCopy(): void {
    this.copy = structuredClone(this.store);
  }

  /** The store goes back to its copy, and begins a new epoch or not. */
  goBack(isNoticed: boolean): void {
    if (this.copy) this.store = structuredClone(this.copy);
    if (isNoticed) this.epoch = epochNumbered(this.number * 100 + this.#epochs++);
  }

  #append(target: string, item: Omit<ModelItem, 'seq' | 'atMs'>, nowMs: number): { atMs: number; seq: number } {
    const at = { atMs: nowMs, seq: this.#nextSeq(target, nowMs) };
    (this.store.queues[target] ??= []).push({ ...item, ...at });
    return at;
  }

  #nextSeq(target: string, nowMs: number): number {
    return (this.store.heads[target] = Math.max(this.headOf(target) + 1, nowMs));
  }
}
