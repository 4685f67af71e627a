/**
 * Histories of everything that writes queue rows, as durable batches: decided and reduced by the relay's core, in rows
 * that a model can look through. Rotations move their items whenever they come to it, whatever else happens to either
 * key.
 */
import * as fc from 'fast-check';
import { decide, type DecidableCommand } from '../../src/library/decide.ts';
import { MapRows } from '../../src/library/map-rows.ts';
import type { PublicKey } from '../../src/protocol/public-key.ts';
import { decideExpire, signNotice } from '../../src/relay/core/decide-queue.ts';
import type { RelayEvent } from '../../src/relay/core/event.ts';
import { presentKey } from '../../src/relay/core/decision.ts';
import { reduce } from '../../src/relay/core/reduce.ts';
import { type QueueRow, type RowChange, rowKey } from '../../src/relay/core/rows.ts';
import { RowOverlay } from '../../src/relay/engine/open-batch.ts';
import type { Payload } from '../../src/relay/store/durable-log.ts';
import {
  ackOf,
  enrolOf,
  expireOf,
  extendOf,
  pushOf,
  reportLostOf,
  rotateEpochOf,
  rotateOf,
} from '../support/commands.ts';
import { epochNumbered } from '../support/epochs.ts';
import { initialised } from '../support/events.ts';
import { type TestHost, hostNamed, relay } from '../support/hosts.ts';
import { settingsWith } from '../support/settings.ts';
import { NOON_MS } from '../support/test-clock.ts';

/** Keys that take the place of each other. */
export const KEYS: readonly TestHost[] = ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((name) => hostNamed(name));
const MONTH_MS = 30 * 86_400_000;
/** So small that pushes are refused. */
const SETTINGS = settingsWith({ limits: { max_queue_items: 9, max_targets: 3 } });

/**
 * Hosts are numbers of `KEYS`, and are meant under the key that they have now; `at` says which of the items that wait.
 */
export type HistoryStep =
  | { type: 'push'; from: number; to: number[]; bytes: number }
  | { type: 'push again'; at: number }
  | { type: 'ack'; to: number; at: number }
  | { type: 'rotate'; from: number; to: number }
  | { type: 'move'; from: number; items: number }
  | { type: 'expire'; to: number; at: number; items: number }
  | { type: 'extend'; to: number }
  | { type: 'lose'; to: number; at: number }
  | { type: 'find missing'; to: number; at: number }
  | { type: 'raise'; to: number; by: number }
  | { type: 'new epoch' }
  | { type: 'later'; ms: number }
  | { type: 'durable' }
  | { type: 'restart' };

const key = fc.nat(KEYS.length - 1);
const at = fc.nat(9);

function often<S extends HistoryStep>(
  weight: number,
  model: { [Member in keyof S]: fc.Arbitrary<S[Member]> },
): { weight: number; arbitrary: fc.Arbitrary<HistoryStep> } {
  return { weight, arbitrary: fc.record(model) as unknown as fc.Arbitrary<HistoryStep> };
}

const anyStep: fc.Arbitrary<HistoryStep> = fc.oneof(
  often(14, {
    type: fc.constant('push' as const),
    from: key,
    to: fc.uniqueArray(key, { minLength: 1, maxLength: 3 }),
    bytes: fc.integer({ min: 1, max: 900 }),
  }),
  often(1, { type: fc.constant('push again' as const), at }),
  often(3, { type: fc.constant('ack' as const), to: key, at }),
  often(2, { type: fc.constant('rotate' as const), from: key, to: key }),
  often(4, { type: fc.constant('move' as const), from: key, items: fc.integer({ min: 1, max: 3 }) }),
  often(1, { type: fc.constant('expire' as const), to: key, at, items: fc.integer({ min: 1, max: 3 }) }),
  often(1, { type: fc.constant('extend' as const), to: key }),
  often(1, { type: fc.constant('lose' as const), to: key, at }),
  often(1, { type: fc.constant('find missing' as const), to: key, at }),
  often(1, { type: fc.constant('raise' as const), to: key, by: fc.nat(5) }),
  often(1, { type: fc.constant('new epoch' as const) }),
  often(2, { type: fc.constant('later' as const), ms: fc.nat(20) }),
  often(9, { type: fc.constant('durable' as const) }),
  often(1, { type: fc.constant('restart' as const) }),
);

export const anyDurableHistory: fc.Arbitrary<HistoryStep[]> = fc.array(anyStep, {
  minLength: 1,
  maxLength: 120,
  size: 'max',
});

export interface TestBatch {
  changes: RowChange[];
  payloads: Payload[];
}

export class DurableHistory {
  /** With everything that was admitted, durable or not. */
  readonly rows = new MapRows(initialised);
  /** Wire bytes by the key of the row with which they came. */
  readonly wires = new Map<string, Buffer>();
  readonly #heads = new Map<PublicKey, number>();
  #changes = new RowOverlay();
  #payloads: Payload[] = [];
  #lsn = 1;
  #nowMs = NOON_MS;
  #items = 0;

  constructor() {
    for (const host of KEYS) this.#decide(enrolOf(host));
    this.batch();
  }

  /** The head that the batches before this one left. */
  headOf(target: PublicKey): number {
    return this.#heads.get(target) ?? 0;
  }

  /** Everything since the last batch, which is durable now; `headOf` still answers for the time before it. */
  batch(): TestBatch {
    const batch = { changes: this.#changes.changes(), payloads: this.#payloads };
    this.#changes = new RowOverlay();
    this.#payloads = [];
    return batch;
  }

  /** `headOf` answers for the time behind the last batch from here on. */
  published({ changes }: TestBatch): void {
    for (const { table, key: target, row } of changes)
      if (table === 'target') this.#heads.set(target as PublicKey, row?.headSeq ?? 0);
  }

  take(step: HistoryStep): void {
    switch (step.type) {
      case 'push':
        return this.#push(
          `m${this.#items++}`,
          this.#host(step.from),
          new Set(step.to.map((to) => this.#host(to))),
          step.bytes,
        );
      case 'push again':
        return this.#pushAgain(step.at);
      case 'ack': {
        const through = this.#waiting(step.to, step.at)?.seq;
        return through === undefined ? undefined : this.#decide(ackOf(this.#host(step.to), through));
      }
      case 'rotate':
        return this.#rotate(this.#host(step.from), this.#host(step.to));
      case 'move':
        return this.#move(KEYS[step.from]!.key, step.items);
      case 'expire':
        return this.#expire(step);
      case 'extend':
        return this.#decide(extendOf(this.#host(step.to), this.#seqs(step.to), this.#nowMs + MONTH_MS));
      case 'lose': {
        const seq = this.#waiting(step.to, step.at)?.seq;
        return seq === undefined ? undefined : this.#decide(reportLostOf(this.#host(step.to), seq));
      }
      case 'find missing': {
        const row = this.#waiting(step.to, step.at);
        if (row) this.rows.missingPayloads.add(rowKey.queue(row.payloadTarget, row.payloadSeq));
        return;
      }
      case 'raise': {
        const targetPubkey = this.#host(step.to).key;
        const headSeq = (this.rows.get('target', targetPubkey)?.headSeq ?? 0) + step.by;
        return this.#admit({ type: 'SeqFloorsRaised', floors: [{ targetPubkey, headSeq }], atMs: this.#nowMs });
      }
      case 'new epoch':
        return this.#decide(rotateEpochOf(epochNumbered(2)));
      case 'later':
        this.#nowMs += step.ms;
        return;
      case 'durable':
      case 'restart':
    }
  }

  #host(number: number): TestHost {
    const present = presentKey(this.rows, KEYS[number]!.key);
    return KEYS.find((host) => host.key === present)!;
  }

  #push(itemId: string, from: TestHost, to: ReadonlySet<TestHost>, bytes: number): void {
    const wire = Buffer.alloc(bytes, `${itemId} `);
    const targets = Array.from(to, (host) => [host, wire] as const);
    this.#decide(pushOf(from, itemId, targets), wire);
  }

  /** The engine waits with a rotation until no items of either key are on their way. */
  #rotate(from: TestHost, to: TestHost): void {
    const moving = new Set<PublicKey>();
    for (const { key: old } of KEYS) {
      const move = this.rows.get('move', old);
      if (move) moving.add(old).add(move.newPubkey);
    }
    if (from !== to && !moving.has(from.key) && !moving.has(to.key)) this.#decide(rotateOf(from, to));
  }

  /** An item that waits is pushed again, under the key that has it now; stored anew where its bytes are missing. */
  #pushAgain(number: number): void {
    const rows = KEYS.flatMap(({ key: target }) => this.rows.queue(target)).filter(({ kind }) => kind === 'envelope');
    const row = rows[number % Math.max(1, rows.length)];
    const from = KEYS.find(({ key: sender }) => sender === row?.senderPubkey);
    const to = KEYS.find(({ key: target }) => target === row?.targetPubkey);
    if (row && from && to) this.#push(row.itemId, from, new Set([to]), row.bytes);
  }

  #move(oldPubkey: PublicKey, items: number): void {
    if (!this.rows.get('move', oldPubkey)) return;
    const fromSeqs = this.rows
      .queue(oldPubkey)
      .slice(0, items)
      .map(({ seq }) => seq);
    this.#decide({ type: 'MoveItems', oldPubkey, fromSeqs, nowMs: this.#nowMs });
  }

  #expire({ to, at: from, items }: HistoryStep & { type: 'expire' }): void {
    const seqs = this.#seqs(to).slice(from, from + items);
    const command = expireOf(this.#host(to), seqs, this.#nowMs + MONTH_MS);
    const expiry = decideExpire(command, this.rows, SETTINGS);
    if (!expiry) return;
    const notices = expiry.notices.map((notice) => signNotice(notice, relay.signer));
    for (const { targetPubkey, seq, wire } of notices) this.#payload(targetPubkey, seq, Buffer.from(wire));
    this.#admit({ ...expiry, notices });
  }

  #decide(command: DecidableCommand, wire?: Buffer): void {
    const nowMs = Math.max(command.nowMs, this.#nowMs);
    const decision = decide({ ...command, nowMs }, this.rows, SETTINGS);
    if (decision.type === 'Refusal') return;
    for (const event of decision.events) {
      this.#admit(event);
      if (event.type !== 'ItemAccepted') continue;
      for (const { hostPubkey, seq } of event.targets) this.#payload(hostPubkey, seq, wire!);
    }
  }

  #payload(targetPubkey: PublicKey, seq: number, wire: Buffer): void {
    this.#payloads.push({ targetPubkey, seq, wire });
    this.wires.set(rowKey.queue(targetPubkey, seq), wire);
  }

  #admit(event: RelayEvent): void {
    for (const change of reduce({ lsn: ++this.#lsn, event }, this.rows)) {
      this.rows.put(change);
      this.#changes.set(change);
    }
  }

  #seqs(to: number): number[] {
    return this.rows.queue(this.#host(to).key).map(({ seq }) => seq);
  }

  #waiting(to: number, number: number): QueueRow | undefined {
    return this.rows.queue(this.#host(to).key)[number];
  }
}
