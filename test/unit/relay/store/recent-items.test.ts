/** Items in memory: what is handed over is what a store without it would hand over, or nothing. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { sha256Hex } from '../../../../src/protocol/digest.ts';
import type { ItemId } from '../../../../src/protocol/names.ts';
import type { PublicKey } from '../../../../src/protocol/public-key.ts';
import { EMPTY_TARGET, type QueueRow, type RowChange, rowKey } from '../../../../src/relay/core/rows.ts';
import type { Payload } from '../../../../src/relay/store/durable-log.ts';
import { RecentItems } from '../../../../src/relay/store/recent-items.ts';
import { alice, bob, carol } from '../../../support/hosts.ts';

const TARGETS = [bob.key, carol.key];
const wireAt = (seq: number, length = 100): Buffer => Buffer.alloc(length, `wire ${seq} `);

function rowAt(targetPubkey: PublicKey, seq: number, wire: Buffer = wireAt(seq)): QueueRow {
  return {
    targetPubkey,
    seq,
    kind: 'envelope',
    itemId: `m${seq}` as ItemId,
    senderPubkey: alice.key,
    wireHash: sha256Hex(wire),
    bytes: wire.length,
    acceptedAtMs: 0,
    expiresAtMs: 0,
    payloadTarget: targetPubkey,
    payloadSeq: seq,
  };
}

/** Every durable row, and what the memory holds of it. */
class Subject {
  readonly recent: RecentItems;
  readonly #rows = new Map<PublicKey, QueueRow[]>();
  readonly #heads = new Map<PublicKey, { headSeq: number; ackedThrough: number }>();
  #changes: RowChange[] = [];
  #payloads: Payload[] = [];

  constructor(limits?: ConstructorParameters<typeof RecentItems>[0]) {
    this.recent = new RecentItems(limits);
  }

  head(target: PublicKey): { headSeq: number; ackedThrough: number } {
    return this.#heads.get(target) ?? { headSeq: 0, ackedThrough: 0 };
  }

  stored(target: PublicKey, after = 0): QueueRow[] {
    return (this.#rows.get(target) ?? []).filter(({ seq }) => seq > after);
  }

  /** An item, or a row that a rotation moved: its bytes are elsewhere. */
  add(target: PublicKey, { gap = 1, length = 100, isMoved = false } = {}): this {
    const { headSeq, ackedThrough } = this.head(target);
    const seq = headSeq + gap;
    const wire = wireAt(seq, length);
    const row = { ...rowAt(target, seq, wire), ...(isMoved && { payloadTarget: alice.key }) };
    this.#changes.push({ table: 'queue', key: rowKey.queue(target, seq), row });
    if (!isMoved) this.#payloads.push({ targetPubkey: target, seq, wire });
    this.#rows.set(target, [...this.stored(target), row]);
    return this.#moveHead(target, seq, ackedThrough);
  }

  ack(target: PublicKey, through: number): this {
    this.#rows.set(target, this.stored(target, through));
    return this.#moveHead(target, this.head(target).headSeq, through);
  }

  remove(target: PublicKey, seq: number): this {
    this.#rows.set(
      target,
      this.stored(target).filter((row) => row.seq !== seq),
    );
    this.#changes.push({ table: 'queue', key: rowKey.queue(target, seq), row: null });
    return this;
  }

  #moveHead(target: PublicKey, headSeq: number, ackedThrough: number): this {
    this.#heads.set(target, { headSeq, ackedThrough });
    this.#changes.push({ table: 'target', key: target, row: { ...EMPTY_TARGET, headSeq, ackedThrough } });
    return this;
  }

  /** What came since the last batch, as one. */
  commit(headsBefore: ReadonlyMap<PublicKey, number>): this {
    const batch = { changes: this.#changes, payloads: this.#payloads };
    this.#changes = [];
    this.#payloads = [];
    const heads = this.recent.headsBefore(batch.payloads, (target) => headsBefore.get(target) ?? 0);
    this.recent.durable(batch, heads);
    return this;
  }
}

/** A batch that `fill` makes. */
function commit(subject: Subject, fill: (subject: Subject) => unknown): void {
  const before = new Map(TARGETS.map((target) => [target, subject.head(target).headSeq]));
  fill(subject);
  subject.commit(before);
}

const seqs = (rows: readonly QueueRow[] | undefined): number[] | undefined => rows?.map(({ seq }) => seq);

describe('rows and wire bytes', () => {
  test('of a queue that was empty are all there from the first item on', () => {
    const subject = new Subject();
    commit(subject, () => subject.add(bob.key, { gap: 1000 }).add(bob.key));
    commit(subject, () => subject.add(bob.key, { gap: 7 }));
    expect(seqs(subject.recent.rows(bob.key, 0, 9999, 10))).toEqual([1000, 1001, 1008]);
    expect(seqs(subject.recent.rows(bob.key, 0, 9999, 2))).toEqual([1000, 1001]);
    expect(seqs(subject.recent.rows(bob.key, 1000, 1001, 10))).toEqual([1001]);
    expect(subject.recent.wires(subject.stored(bob.key))).toEqual([1000, 1001, 1008].map((seq) => wireAt(seq)));
    expect(subject.recent.rows(carol.key, 0, 9999, 10)).toBeUndefined();
  });

  test('of a queue in which others wait already are there for those who have the others', () => {
    const subject = new Subject();
    commit(subject, () => subject.add(bob.key, { gap: 50, isMoved: true }));
    const later = new Subject();
    later.add(bob.key, { gap: 100 }).commit(new Map([[bob.key, 50]]));
    expect(later.recent.rows(bob.key, 49, 100, 10)).toBeUndefined();
    expect(seqs(later.recent.rows(bob.key, 50, 100, 10))).toEqual([100]);
  });

  test('a moved row is not there, and nothing before it', () => {
    const subject = new Subject();
    commit(subject, () => subject.add(bob.key).add(bob.key, { isMoved: true }).add(bob.key));
    expect(subject.recent.rows(bob.key, 1, 9, 10)).toBeUndefined();
    expect(seqs(subject.recent.rows(bob.key, 2, 9, 10))).toEqual([3]);
    expect(subject.recent.wires(subject.stored(bob.key))).toBeUndefined();
  });

  test('bytes of another hash than the row has are not handed over', () => {
    const subject = new Subject();
    commit(subject, () => subject.add(bob.key));
    expect(subject.recent.wires([rowAt(bob.key, 1)])).toEqual([wireAt(1)]);
    expect(subject.recent.wires([rowAt(bob.key, 1, Buffer.from('another'))])).toBeUndefined();
    expect(subject.recent.wires([])).toBeUndefined();
  });

  test('the oldest go when there are more bytes than may be held, and what never fits is not there', () => {
    const subject = new Subject({ bytesMax: 10_000 });
    commit(subject, () => subject.add(bob.key, { length: 4000 }));
    commit(subject, () => subject.add(carol.key, { length: 4000 }));
    commit(subject, () => subject.add(carol.key, { length: 4000 }));
    expect(subject.recent.rows(bob.key, 0, 9, 10)).toBeUndefined();
    expect(subject.recent.rows(bob.key, 1, 9, 10)).toEqual([]);
    expect(subject.recent.wires(subject.stored(carol.key))).toEqual([wireAt(1, 4000), wireAt(2, 4000)]);
    commit(subject, () => subject.add(carol.key, { length: 10_001 }));
    expect(subject.recent.rows(carol.key, 2, 9, 10)).toBeUndefined();
    expect(subject.recent.rows(carol.key, 3, 9, 10)).toEqual([]);
  });

  test('the oldest go when there are more items or queues than may be held', () => {
    const items = new Subject({ itemsMax: 2 });
    commit(items, () => items.add(bob.key).add(carol.key).add(bob.key));
    expect(seqs(items.recent.rows(bob.key, 1, 9, 10))).toEqual([2]);
    expect(seqs(items.recent.rows(carol.key, 0, 9, 10))).toEqual([1]);
    expect(items.recent.rows(bob.key, 0, 9, 10)).toBeUndefined();
    const queues = new Subject({ queuesMax: 1 });
    commit(queues, () => queues.add(bob.key).add(carol.key));
    expect(queues.recent.rows(bob.key, 1, 9, 10)).toBeUndefined();
    expect(seqs(queues.recent.rows(carol.key, 0, 9, 10))).toEqual([1]);
  });
});

test('whatever happens, rows and bytes are those that are stored, or not handed over', () => {
  const target = fc.constantFrom(...TARGETS);
  const step = fc.oneof(
    { weight: 6, arbitrary: fc.tuple(fc.constant('add'), target, fc.integer({ min: 1, max: 3000 })) },
    { weight: 1, arbitrary: fc.tuple(fc.constant('move'), target, fc.constant(0)) },
    { weight: 2, arbitrary: fc.tuple(fc.constant('ack'), target, fc.nat(8)) },
    { weight: 1, arbitrary: fc.tuple(fc.constant('remove'), target, fc.nat(8)) },
  );
  const batches = fc.array(fc.array(step, { minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 30 });
  const limits = fc.record({
    bytesMax: fc.integer({ min: 3000, max: 30_000 }),
    itemsMax: fc.integer({ min: 1, max: 40 }),
    queuesMax: fc.integer({ min: 1, max: 3 }),
  });
  let handedOver = 0;
  fc.assert(
    fc.property(batches, limits, fc.nat(5), (steps, most, back) => {
      const subject = new Subject(most);
      for (const batch of steps) {
        commit(subject, () => {
          for (const [what, of, number] of batch) {
            const row = subject.stored(of)[number];
            if (what === 'add') subject.add(of, { length: number, gap: 1 + (number % 3) });
            else if (what === 'move') subject.add(of, { isMoved: true });
            else if (row && what === 'ack') subject.ack(of, row.seq);
            else if (row && what === 'remove') subject.remove(of, row.seq);
          }
        });
        for (const of of TARGETS) {
          const { headSeq, ackedThrough } = subject.head(of);
          for (const after of [ackedThrough, Math.max(ackedThrough, headSeq - back)]) {
            const rows = subject.recent.rows(of, after, headSeq, 100);
            if (!rows) continue;
            handedOver += rows.length;
            expect(rows).toEqual(subject.stored(of, after));
            const wires = subject.recent.wires(rows) ?? [];
            expect(wires.map(sha256Hex)).toEqual(rows.map(({ wireHash }) => wireHash));
          }
        }
      }
    }),
  );
  expect(handedOver).toBeGreaterThan(100);
});
