/**
 * The items in memory against a model that looks through every row: whatever happens to queues, a page from memory is
 * the page of the store, or there is none. Memories that lack one of the rules show that these histories would find it.
 */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { sha256Hex } from '../../src/protocol/encodings.ts';
import type { PublicKey } from '../../src/protocol/public-key.ts';
import { type QueueRow, type RowChange, rowKey } from '../../src/relay/core/rows.ts';
import { RecentItems } from '../../src/relay/engine/durable-queues.ts';
import { DurableHistory, type HistoryStep, KEYS, type TestBatch, anyDurableHistory } from './durable-history.ts';
import { share, tried } from '../support/thorough.ts';

type Memory = Pick<RecentItems, 'durable' | 'rows'> & Partial<Pick<RecentItems, 'wires'>>;
type Limits = ConstructorParameters<typeof RecentItems>[0];

const anyLimits: fc.Arbitrary<NonNullable<Limits>> = fc.record({
  bytesMax: fc.integer({ min: 1600, max: 30_000 }),
  itemsMax: fc.integer({ min: 1, max: 30 }),
  itemBytesMax: fc.integer({ min: 850, max: 1000 }),
});

/**
 * Returns what the memory says of every queue, from every place in it, beside what is stored; and how many rows it
 * handed over.
 */
function handedOver(memory: Memory, history: DurableHistory): { wrong: string[]; rows: number } {
  const wrong: string[] = [];
  let handed = 0;
  for (const { key, name } of KEYS) {
    const { headSeq, ackedThrough } = history.rows.get('target', key) ?? { headSeq: 0, ackedThrough: 0 };
    const stored = history.rows.queue(key);
    const places = [ackedThrough, ...stored.flatMap(({ seq }) => [seq - 1, seq]), headSeq];
    for (const after of places.filter((place) => place >= ackedThrough)) {
      const rows = memory.rows(key, after, headSeq, 1000);
      if (!rows) continue;
      handed += rows.length;
      const expected = stored.filter(({ seq }) => seq > after);
      const said = rows.map((row) => JSON.stringify(row));
      if (said.join() !== expected.map((row) => JSON.stringify(row)).join())
        wrong.push(`${name} after ${after}: ${seqsOf(rows)} instead of ${seqsOf(expected)}`);
      else if (!hasBytes(memory, rows)) wrong.push(`${name} after ${after}: other bytes`);
    }
  }
  return { wrong, rows: handed };
}

const seqsOf = (rows: readonly QueueRow[]): string => rows.map(({ seq }) => seq).join(' ');

function hasBytes(memory: Memory, rows: readonly QueueRow[]): boolean {
  if (!memory.wires || rows.length === 0) return true;
  const wires = memory.wires(rows);
  return wires?.length === rows.length && rows.every(({ wireHash }, at) => sha256Hex(wires[at]!) === wireHash);
}

/** Plays the history to its end or to the first thing that is wrong. */
function played(steps: readonly HistoryStep[], made: () => Memory): { wrong: string[]; rows: number; batches: number } {
  const history = new DurableHistory();
  let memory = made();
  const told = { wrong: [] as string[], rows: 0, batches: 0 };
  for (const step of [...steps, { type: 'durable' } as const]) {
    history.take(step);
    if (step.type !== 'durable' && step.type !== 'restart') continue;
    const batch = history.batch();
    memory.durable(batch, (target) => history.headOf(target));
    history.published(batch);
    if (step.type === 'restart') memory = made();
    const { wrong, rows } = handedOver(memory, history);
    told.batches++;
    told.rows += rows;
    told.wrong.push(...wrong);
    if (wrong.length > 0) break;
  }
  return told;
}

test('whatever happens to queues, rows and bytes are those that are stored, or not handed over', () => {
  let [batches, rows] = [0, 0];
  fc.assert(
    fc.property(anyDurableHistory, anyLimits, (steps, limits) => {
      const told = played(steps, () => new RecentItems(limits));
      batches += told.batches;
      rows += told.rows;
      expect(told.wrong).toEqual([]);
    }),
    { numRuns: share(6400, 32) },
  );
  expect(rows).toBeGreaterThan(batches);
  tried(`${batches} batches, behind which ${rows} rows were handed over from memory and were those of the model`);
});

/** As `RecentItems` was at first: a row without bytes in a queue that is not here says that everything behind it is. */
class FloorsBelowOthers implements Memory {
  readonly #queues = new Map<PublicKey, { floor: number; rows: QueueRow[] }>();

  durable({ changes, payloads }: TestBatch, headOf: (target: PublicKey) => number): void {
    const come = new Set(payloads.map(({ targetPubkey, seq }) => rowKey.queue(targetPubkey, seq)));
    const heads = new Map(payloads.map(({ targetPubkey }) => [targetPubkey, headOf(targetPubkey)]));
    for (const { table, key, row } of changes) {
      if (table !== 'queue') continue;
      if (row) this.#added(row, come.has(key), heads);
      else this.#removed(key);
    }
  }

  rows(target: PublicKey, after: number, through: number): QueueRow[] | undefined {
    const queue = this.#queues.get(target);
    if (!queue || after < queue.floor) return undefined;
    return queue.rows.filter(({ seq }) => seq > after && seq <= through);
  }

  #added(row: QueueRow, hasBytes: boolean, heads: ReadonlyMap<PublicKey, number>): void {
    const { targetPubkey: target, seq } = row;
    const queue = this.#queues.get(target) ?? { floor: heads.get(target) ?? seq - 1, rows: [] };
    const last = queue.rows.at(-1)?.seq ?? queue.floor;
    this.#queues.set(target, queue);
    if (hasBytes && seq > last) queue.rows.push(row);
    else this.#queues.set(target, { floor: Math.max(last, seq), rows: [] });
  }

  #removed(key: string): void {
    for (const queue of this.#queues.values())
      queue.rows = queue.rows.filter(({ targetPubkey, seq }) => rowKey.queue(targetPubkey, seq) !== key);
  }
}

/** A memory that is told less, or another head than the one before the batch. */
function toldOtherwise(
  isTold: (change: RowChange) => boolean,
  headOf: (target: PublicKey, batch: TestBatch) => number | undefined = () => undefined,
): () => Memory {
  return () => {
    const memory = new RecentItems();
    return {
      durable: (batch, before) => {
        const told = { payloads: [...batch.payloads], changes: [...batch.changes].filter(isTold) };
        memory.durable(told, (target) => headOf(target, told) ?? before(target));
      },
      rows: (...range) => memory.rows(...range),
    };
  };
}

const isMoved = ({ table, key, row }: RowChange): boolean =>
  table === 'queue' && row !== null && key !== rowKey.queue(row.payloadTarget, row.payloadSeq);

test.each<[string, () => Memory]>([
  ['sets a floor at a row that was moved', () => new FloorsBelowOthers()],
  ['is not told of rows that were moved', toldOtherwise((change) => !isMoved(change))],
  ['is not told of rows that go', toldOtherwise(({ table, row }) => table !== 'queue' || row !== null)],
  [
    'takes every queue for empty that it does not have',
    toldOtherwise(
      () => true,
      () => 0,
    ),
  ],
])('a memory that %s is found', (_what, made) => {
  const property = fc.property(anyDurableHistory, (steps) => played(steps, made).wrong.length === 0);
  expect(fc.check(property, { seed: 1, numRuns: 2000, endOnFailure: true }).failed).toBe(true);
});
