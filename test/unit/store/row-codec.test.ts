import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { TableName } from '../../../src/relay/core/rows.ts';
import { pack, unpackArray } from '../../../src/relay/store/packing.ts';
import { DamagedRow, decodeRow, encodeRow } from '../../../src/relay/store/row-codec.ts';
import { type KeyedRow, keyedRow } from '../../support/arbitraries.ts';

const tables = Object.keys(keyedRow) as TableName[];

test.each(tables)('a %s row survives its bytes', (table) => {
  fc.assert(
    fc.property(keyedRow[table] as fc.Arbitrary<KeyedRow>, ({ key, row }) => {
      expect(decodeRow(table, key, encodeRow(table, row))).toEqual(row);
    }),
  );
});

test.each(tables)('a %s row of an unknown layout is refused', (table) => {
  const [sample] = fc.sample<KeyedRow>(keyedRow[table], { numRuns: 1, seed: 1 });
  const fields = unpackArray(encodeRow(table, sample!.row));
  expect(() => decodeRow(table, sample!.key, pack([2, ...fields.slice(1)]))).toThrow(
    `a ${table} row has layout 1, not 2`,
  );
});

test.each(tables)('bytes that are no %s row are told from every other failure', (table) => {
  for (const bytes of [pack({ atMs: 1 }), Buffer.of(0xc1), Buffer.alloc(0), Buffer.from('no row')]) {
    expect(() => decodeRow(table, '', bytes)).toThrow(DamagedRow);
    expect(() => decodeRow(table, '', bytes)).toThrow(`a ${table} row cannot be read`);
  }
});

test('rows stay as they were written while others are encoded', () => {
  const samples = fc.sample(keyedRow.queue, { numRuns: 300, seed: 3 });
  const written = samples.map(({ row }) => encodeRow('queue', row));
  expect(written.map((bytes, at) => decodeRow('queue', samples[at]!.key, bytes))).toEqual(
    samples.map(({ row }) => row),
  );
});
