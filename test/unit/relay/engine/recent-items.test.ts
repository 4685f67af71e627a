/** Items in memory: which pages come from there. Any history at all is in test/property/recent-items.test.ts. */
import { expect, test } from 'vitest';
import type { PublicKey } from '../../../../src/protocol/public-key.ts';
import { EMPTY_TARGET, type RowChange, rowKey } from '../../../../src/relay/core/rows.ts';
import { RecentItems } from '../../../../src/relay/engine/durable-queues.ts';
import type { Payload } from '../../../../src/relay/store/durable-log.ts';
import { pushOf } from '../../../support/commands.ts';
import { alice, bob, carol } from '../../../support/hosts.ts';
import { queueRowAt } from '../../../support/queue-rows.ts';
import { enrolledTestRelay } from '../../../support/test-relay.ts';

/** Batches, each told to the memory with the heads before it. */
class Subject {
  readonly recent: RecentItems;
  readonly #heads = new Map<PublicKey, number>();

  constructor(limits?: ConstructorParameters<typeof RecentItems>[0]) {
    this.recent = new RecentItems(limits);
  }

  /** New items: the target, the seq and the length of each. */
  accept(...items: readonly (readonly [PublicKey, number, number?])[]): this {
    const changes: RowChange[] = [];
    const payloads: Payload[] = [];
    const heads = new Map<PublicKey, number>();
    for (const [target, seq, length = 100] of items) {
      const wire = Buffer.alloc(length, `${seq} `);
      changes.push({ table: 'queue', key: rowKey.queue(target, seq), row: queueRowAt(target, seq, wire) });
      payloads.push({ targetPubkey: target, seq, wire });
      heads.set(target, seq);
    }
    for (const [key, headSeq] of heads) changes.push({ table: 'target', key, row: { ...EMPTY_TARGET, headSeq } });
    return this.told(changes, payloads);
  }

  told(changes: RowChange[], payloads: Payload[] = []): this {
    this.recent.durable({ changes, payloads }, (target) => this.head(target));
    for (const { table, key, row } of changes) if (table === 'target') this.#heads.set(key as PublicKey, row!.headSeq);
    return this;
  }

  head(target: PublicKey): number {
    return this.#heads.get(target) ?? 0;
  }

  seqs(target: PublicKey, after: number, limit = 100): number[] | undefined {
    return this.recent.rows(target, after, this.head(target), limit)?.map(({ seq }) => seq);
  }
}

test('a queue that was empty is there from its first item on', () => {
  const subject = new Subject().accept([bob.key, 1000], [bob.key, 1001]).accept([bob.key, 1008]);
  expect(subject.seqs(bob.key, 0)).toEqual([1000, 1001, 1008]);
  expect(subject.seqs(bob.key, 0, 2)).toEqual([1000, 1001]);
  expect(subject.seqs(bob.key, 1000)).toEqual([1001, 1008]);
  expect(subject.seqs(carol.key, 0)).toBeUndefined();
});

test('a queue in which others wait already is there for those who have the others', () => {
  const subject = new Subject().told([{ table: 'target', key: bob.key, row: { ...EMPTY_TARGET, headSeq: 50 } }]);
  subject.accept([bob.key, 100]);
  expect(subject.seqs(bob.key, 49)).toBeUndefined();
  expect(subject.seqs(bob.key, 50)).toEqual([100]);
});

test('a head is asked for only where the batch wrote it', () => {
  const recent = new RecentItems();
  const asked: PublicKey[] = [];
  const headOf = (target: PublicKey): number => {
    asked.push(target);
    return 0;
  };
  const moved = { ...queueRowAt(bob.key, 40, Buffer.from('x')), payloadTarget: carol.key };
  const changes: RowChange[] = [
    { table: 'queue', key: rowKey.queue(bob.key, 40), row: moved },
    { table: 'queue', key: rowKey.queue(carol.key, 1), row: queueRowAt(carol.key, 1, Buffer.from('y')) },
    { table: 'target', key: carol.key, row: { ...EMPTY_TARGET, headSeq: 1 } },
  ];
  recent.durable({ changes, payloads: [{ targetPubkey: carol.key, seq: 1, wire: Buffer.from('y') }] }, headOf);
  expect(asked).toEqual([carol.key]);
  expect(recent.rows(carol.key, 0, 1, 10)).toHaveLength(1);
});

test('a row that comes to a kept place ends the memory of its queue, which begins anew behind everything', () => {
  const subject = new Subject();
  subject.told([{ table: 'target', key: bob.key, row: { ...EMPTY_TARGET, headSeq: 50 } }]).accept([bob.key, 60]);
  const moved = { ...queueRowAt(bob.key, 40, Buffer.from('x')), payloadTarget: carol.key };
  subject.told([{ table: 'queue', key: rowKey.queue(bob.key, 40), row: moved }]);
  for (const after of [39, 40, 50, 60]) expect(subject.seqs(bob.key, after)).toBeUndefined();
  subject.accept([bob.key, 61]);
  expect(subject.seqs(bob.key, 59)).toBeUndefined();
  expect(subject.seqs(bob.key, 60)).toEqual([61]);
});

test('a page of another head than the one that is durable is not there', () => {
  const subject = new Subject().accept([bob.key, 1], [bob.key, 2]);
  expect(subject.recent.rows(bob.key, 0, 1, 10)).toBeUndefined();
  expect(subject.recent.rows(bob.key, 0, 3, 10)).toBeUndefined();
});

test('the oldest go when there are more bytes than may be held, and a large item ends the memory of its queue', () => {
  const subject = new Subject({ bytesMax: 11_000, itemBytesMax: 4000 });
  subject.accept([bob.key, 1, 4000]).accept([carol.key, 1, 4000]).accept([carol.key, 2, 4000]);
  expect(subject.seqs(bob.key, 0)).toBeUndefined();
  expect(subject.seqs(carol.key, 0)).toEqual([1, 2]);
  subject.accept([carol.key, 3, 4001]);
  expect(subject.seqs(carol.key, 2)).toBeUndefined();
});

test('the oldest go when there are more items than may be held', () => {
  const subject = new Subject({ itemsMax: 2 }).accept([bob.key, 1], [carol.key, 1], [bob.key, 2]);
  expect(subject.seqs(bob.key, 0)).toBeUndefined();
  expect(subject.seqs(bob.key, 1)).toEqual([2]);
  expect(subject.seqs(carol.key, 0)).toEqual([1]);
});

test('the wire bytes are handed over as they came, also where the ring begins anew', () => {
  const subject = new Subject({ bytesMax: 700 });
  // The last one does not fit behind the others, so it lies in front of them.
  subject.accept([bob.key, 1, 200], [bob.key, 2, 200], [bob.key, 3, 200], [bob.key, 4, 200]);
  const rows = subject.recent.rows(bob.key, 1, 4, 10)!;
  expect(rows.map(({ seq }) => seq)).toEqual([2, 3, 4]);
  const wires = rows.map(({ seq }) => Buffer.alloc(200, `${seq} `));
  expect(subject.recent.wires(rows)).toEqual(wires);
  expect(subject.recent.wires(rows.slice(1))).toEqual(wires.slice(1));
});

test('bytes of another hash than the row has are not handed over', () => {
  const subject = new Subject().accept([bob.key, 1, 3]);
  expect(subject.recent.wires([queueRowAt(bob.key, 1, Buffer.alloc(3, '1 '))])).toBeDefined();
  expect(subject.recent.wires([queueRowAt(bob.key, 1, Buffer.from('abc'))])).toBeUndefined();
  expect(subject.recent.wires([])).toBeUndefined();
});

test('an engine hands over what became durable lately from memory, and after a start what is stored', async () => {
  const relay = await enrolledTestRelay(alice, bob);
  await relay.push(pushOf(alice, 'm1', [[bob, 'one']]), pushOf(alice, 'm2', [[bob, 'two']]));
  const { rows } = await relay.engine.page(bob.key, 0, 10);
  expect(rows).toHaveLength(2);
  expect(relay.engine.recent.wires(rows)).toEqual([Buffer.from('one'), Buffer.from('two')]);
  await relay.reopen();
  expect((await relay.engine.page(bob.key, 0, 10)).rows).toEqual(rows);
  expect(relay.engine.recent.wires(rows)).toBeUndefined();
});
