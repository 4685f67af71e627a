import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { TableName } from '../../../../src/relay/core/rows.ts';
import { rowKeyBytes } from '../../../../src/relay/store/keys.ts';
import { pack, unpackArray } from '../../../../src/relay/store/packing.ts';
import { DamagedRow, withChecksum, withoutChecksum } from '../../../../src/relay/store/checksum.ts';
import { decodeRow, encodeRow } from '../../../../src/relay/store/row-codec.ts';
import { type KeyedRow, keyedRow } from '../../../../src/library/arbitraries.ts';

const tables = Object.keys(keyedRow) as TableName[];

test.each(tables)('a %s row survives its bytes', (table) => {
  fc.assert(
    fc.property(keyedRow[table] as fc.Arbitrary<KeyedRow>, ({ key, row }) => {
      const stored = rowKeyBytes(table, key);
      expect(decodeRow(table, stored, encodeRow(table, stored, row), key)).toEqual(row);
    }),
  );
});

test.each(tables)('a %s row of an unknown layout is refused', (table) => {
  const [sample] = fc.sample<KeyedRow>(keyedRow[table], { numRuns: 1, seed: 1 });
  const key = rowKeyBytes(table, sample!.key);
  const fields = unpackArray(withoutChecksum(key, encodeRow(table, key, sample!.row)));
  expect(() => decodeRow(table, key, withChecksum(key, pack([2, ...fields.slice(1)])))).toThrow('has layout 2, not 1');
});

test.each(tables)('bytes that are no %s row are told from every other failure', (table) => {
  const [sample] = fc.sample<KeyedRow>(keyedRow[table], { numRuns: 1, seed: 1 });
  const key = rowKeyBytes(table, sample!.key);
  const whole = [pack({ atMs: 1 }), Buffer.of(0xc1), Buffer.from('no row')].map((bytes) => withChecksum(key, bytes));
  for (const value of whole) {
    expect(() => decodeRow(table, key, value)).toThrow(DamagedRow);
    expect(() => decodeRow(table, key, value)).toThrow(new RegExp(`^an? ${table} row cannot be read$`));
  }
  for (const value of [Buffer.alloc(0), Buffer.from('no row')])
    expect(() => decodeRow(table, key, value)).toThrow('does not match its checksum');
});

test('rows stay as they were written while others are encoded', () => {
  const samples = fc.sample(keyedRow.queue, { numRuns: 300, seed: 3 });
  const keys = samples.map(({ key }) => rowKeyBytes('queue', key));
  const written = samples.map(({ row }, at) => encodeRow('queue', keys[at]!, row));
  expect(written.map((bytes, at) => decodeRow('queue', keys[at]!, bytes))).toEqual(samples.map(({ row }) => row));
});
