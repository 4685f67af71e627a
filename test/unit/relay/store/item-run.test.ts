import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Pair } from '../../../../src/lib/pair-block.ts';
import type { QueueRow } from '../../../../src/relay/core/rows.ts';
import {
  type WireEntry,
  cutIntoRuns,
  decodeRowRun,
  decodeWireRun,
  encodeRowRun,
  encodeWireRun,
  isWholeRow,
  placedWires,
  queueRowsOf,
  rowBytesOf,
  rowPairs,
  seqsIn,
  wholeWire,
  wireEntry,
  wirePlaceOf,
} from '../../../../src/relay/store/item-run.ts';
import { payloadKey, queueKey } from '../../../../src/relay/store/keys.ts';
import { encodeRow, rowBytes } from '../../../../src/relay/store/row-codec.ts';
import { bob, carol } from '../../../support/hosts.ts';
import { queueRowAt } from '../../../support/queue-rows.ts';

const BOUND = 1000;
const KEY = queueKey(bob.key, BOUND);
const WIRE_KEY = payloadKey(bob.key, BOUND);

/** Ascending seqs up to the bound, the last of which may have left. */
const seqs = fc
  .uniqueArray(fc.integer({ min: 1, max: BOUND }), { minLength: 1, maxLength: 20 })
  .map((some) => some.toSorted((a, b) => a - b));

function rowsAt(some: readonly number[]): QueueRow[] {
  return some.map((seq) => queueRowAt(bob.key, seq, Buffer.from(`wire of ${seq}`)));
}

function runOf(rows: readonly QueueRow[], wireKey?: Buffer): Pair {
  return [
    KEY,
    encodeRowRun(
      KEY,
      rows.map((row) => ({ seq: row.seq, bytes: rowBytes('queue', row) })),
      wireKey,
    ),
  ];
}

function flipped(value: Buffer, bit: number): Buffer {
  const altered = Buffer.from(value);
  altered[bit >> 3]! ^= 1 << (bit & 7);
  return altered;
}

function entriesOf(some: readonly (readonly [number, Uint8Array])[]): WireEntry[] {
  return some.map(([seq, wire]) => wireEntry(WIRE_KEY, seq, Buffer.from(wire)));
}

/** How many items each run gets. */
function cut(some: readonly (readonly [seq: number, bytes: number])[]): number[] {
  return Array.from(cutIntoRuns(some.map(([seq, bytes]) => ({ row: { seq, bytes } }))), ({ length }) => length);
}

function many(count: number, bytes: number): (readonly [number, number])[] {
  return Array.from({ length: count }, (_none, at) => [at + 1, bytes] as const);
}

describe('a run of rows', () => {
  it('lies there to the byte', () => {
    const bytes = [Buffer.from('first'), Buffer.from('2nd')];
    const value = encodeRowRun(KEY, [
      { seq: 998, bytes: bytes[0]! },
      { seq: 1000, bytes: bytes[1]! },
    ]);
    expect(value.toString('latin1', 5)).toBe('\x00\x02\x00\x00\x00\x00\x02\x00\x05\x00\x00\x00\x00\x00\x03first2nd');
    expect(value[0]).toBe(2);
    const elsewhere = encodeRowRun(KEY, [{ seq: 1000, bytes: bytes[0]! }], payloadKey(carol.key, 7));
    expect(elsewhere.subarray(7, 48)).toEqual(Buffer.concat([Buffer.of(1), payloadKey(carol.key, 7).subarray(1)]));
  });

  it('property: gives the rows that lay alone in schema 2, and names where their wire bytes lie', () => {
    fc.assert(
      fc.property(seqs, fc.boolean(), (some, isMoved) => {
        const rows = rowsAt(some);
        const wireKey = isMoved ? payloadKey(carol.key, 77) : WIRE_KEY;
        const pair = runOf(rows, isMoved ? wireKey : undefined);
        const alone = rows.map((row): Pair => {
          const key = queueKey(bob.key, row.seq);
          return [key, encodeRow('queue', key, row)];
        });
        expect(rowPairs(pair)).toEqual(alone);
        expect(alone.flatMap(rowPairs)).toEqual(alone);
        expect(rowBytesOf(pair)).toEqual(alone.flatMap(rowBytesOf));
        const read = queueRowsOf(pair);
        expect(read).toMatchObject(rows);
        expect(new Set(read.map(({ payloadBound }) => payloadBound))).toEqual(new Set([isMoved ? 77 : BOUND]));
        expect(seqsIn(pair)).toEqual(some);
        expect(isWholeRow(...pair)).toBe(true);
        expect(decodeRowRun(...pair)).toMatchObject({ isMoved, wireKey });
      }),
    );
  });

  it('property: with one bit another, or under another key, it is none', () => {
    fc.assert(
      fc.property(seqs, fc.nat(), (some, at) => {
        const [key, value] = runOf(rowsAt(some));
        const altered = flipped(value, at % (8 * value.length));
        expect(decodeRowRun(key, altered)).toBeUndefined();
        expect(isWholeRow(key, altered)).toBe(false);
        expect(rowPairs([key, altered])).toEqual([[key, altered]]);
        expect(() => queueRowsOf([key, altered])).toThrow('does not match its checksum');
        expect(decodeRowRun(queueKey(bob.key, BOUND + 1), value)).toBeUndefined();
        expect(decodeRowRun(queueKey(carol.key, BOUND), value)).toBeUndefined();
      }),
    );
  });

  it('is none with a count, a length or an order that cannot be, whatever its checksum says', () => {
    const row = { seq: 5, bytes: Buffer.from('row') };
    expect(decodeRowRun(KEY, encodeRowRun(KEY, []))).toBeUndefined();
    expect(decodeRowRun(KEY, encodeRowRun(KEY, [row, row]))).toBeUndefined();
    expect(decodeRowRun(KEY, encodeRowRun(KEY, [{ ...row, seq: 6 }, row]))).toBeUndefined();
    expect(decodeRowRun(KEY.subarray(1), encodeRowRun(KEY, [row]))).toBeUndefined();
  });
});

describe('a run of wire bytes', () => {
  const wires = seqs.chain((some) =>
    fc.tuple(...some.map((seq) => fc.uint8Array({ minLength: 1, maxLength: 40 }).map((of) => [seq, of] as const))),
  );

  it('lies there to the byte', () => {
    const value = encodeWireRun(WIRE_KEY, [wireEntry(WIRE_KEY, 998, Buffer.from('abc'))]);
    expect(value[0]).toBe(2);
    expect(value.toString('latin1', 5, 15)).toBe('\x00\x01\x00\x00\x00\x02\x00\x00\x00\x03');
    expect(value.toString('latin1', 19)).toBe('abc');
  });

  it('comes back where an item has no bytes, whether those have memory or not', () => {
    for (const nothing of [Buffer.alloc(0), Buffer.from(new ArrayBuffer(0)), Buffer.alloc(4).subarray(2, 2)]) {
      const value = encodeWireRun(WIRE_KEY, [wireEntry(WIRE_KEY, 998, nothing)]);
      const [entry] = decodeWireRun(WIRE_KEY, value) ?? [];
      expect(entry && wholeWire(WIRE_KEY, entry)).toEqual(Buffer.alloc(0));
      expect(entry?.checksum).not.toBe(wireEntry(WIRE_KEY, 999, nothing).checksum);
    }
  });

  it('property: comes back, each with a checksum of its own', () => {
    fc.assert(
      fc.property(wires, (some) => {
        const entries = decodeWireRun(WIRE_KEY, encodeWireRun(WIRE_KEY, entriesOf(some)));
        expect(entries).toEqual(entriesOf(some));
        expect(entries?.map((entry) => wholeWire(WIRE_KEY, entry))).toEqual(some.map(([, wire]) => Buffer.from(wire)));
      }),
    );
  });

  it('property: one bit among the wire bytes costs one item, one in the head costs all', () => {
    fc.assert(
      fc.property(wires, fc.nat(), (some, at) => {
        const value = encodeWireRun(WIRE_KEY, entriesOf(some));
        const bit = at % (8 * value.length);
        const altered = flipped(value, bit);
        const headBytes = 7 + 12 * some.length;
        const entries = decodeWireRun(WIRE_KEY, altered);
        const lost = entries?.filter((entry) => !wholeWire(WIRE_KEY, entry)).length;
        expect(lost).toBe(bit < 8 * headBytes ? undefined : 1);
      }),
    );
  });

  it('property: the places that rows name are those at which the wire bytes lie, raw ones at others', () => {
    fc.assert(
      fc.property(seqs, (some) => {
        const rows = queueRowsOf(runOf(rowsAt(some)));
        const entries = some.map((seq) => wireEntry(WIRE_KEY, seq, Buffer.from('w')));
        const places = placedWires([WIRE_KEY, encodeWireRun(WIRE_KEY, entries)]).map(([place]) => place);
        expect(rows.map(wirePlaceOf)).toEqual(places);
        const [raw] = placedWires([payloadKey(bob.key, some[0]!), Buffer.from('{}')]);
        expect(wirePlaceOf(rowsAt(some)[0]!)).toEqual(raw?.[0]);
        expect(places).not.toContainEqual(raw?.[0]);
      }),
    );
  });
});

describe('items of one batch for one target', () => {
  it('are a run until there are 256, or 64 KiB of wire bytes', () => {
    expect(cut(many(600, 10))).toEqual([256, 256, 88]);
    expect(cut(many(70, 1024))).toEqual([64, 6]);
    expect(cut([])).toEqual([]);
  });

  it('of more than 16 KiB are a run each', () => {
    expect(cut([...many(2, 10), [3, (16 << 10) + 1], [4, 10], [5, 16 << 10]])).toEqual([2, 1, 2]);
  });

  it('of seqs that lie too far apart for a run are in two', () => {
    expect(
      cut([
        [1, 10],
        [2 ** 32, 10],
        [2 ** 32 + 1, 10],
      ]),
    ).toEqual([2, 1]);
  });
});
