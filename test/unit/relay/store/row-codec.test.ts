import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { TableName, Tables } from '../../../../src/relay/core/rows.ts';
import { queueKey, rowKeyBytes } from '../../../../src/relay/store/keys.ts';
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

test('a queue row of a known target is the row that every other way reads', () => {
  // No row has a -0, which msgpack writes as 0.
  const double = fc.double({ min: 0 }).map((any) => any + 0);
  const number = fc.oneof(fc.nat(300), fc.nat(70_000), fc.nat(), fc.integer({ min: 0, max: 2 ** 53 - 1 }), double);
  const changed = fc.record({ bytes: number, acceptedAtMs: number, expiresAtMs: number, seq: fc.nat(2 ** 40) });
  const id = fc.string({ maxLength: 300 }) as fc.Arbitrary<Tables['queue']['itemId']>;
  fc.assert(
    fc.property(
      keyedRow.queue,
      fc.option(changed),
      fc.option(id),
      fc.boolean(),
      ({ row: given }, other, itemId, own) => {
        const row = { ...given, ...other, itemId: itemId ?? given.itemId };
        if (own) Object.assign(row, { payloadTarget: row.targetPubkey, payloadSeq: row.seq });
        const key = queueKey(row.targetPubkey, row.seq);
        const value = encodeRow('queue', key, row);
        expect(decodeRow('queue', key, value)).toEqual(row);
      },
    ),
  );
});

test('every altered byte of a queue row of a known target is found, and bytes that are none are told', () => {
  const [sample] = fc.sample(keyedRow.queue, { numRuns: 1, seed: 4 });
  const { row } = sample!;
  const key = queueKey(row.targetPubkey, row.seq);
  const value = encodeRow('queue', key, row);
  for (let at = 0; at < value.length; at++) {
    const altered = Buffer.from(value);
    altered.writeUInt8(altered.readUInt8(at) ^ 1, at);
    expect(() => decodeRow('queue', key, altered)).toThrow('does not match its checksum');
  }
  const bytes = withoutChecksum(key, value);
  for (let length = 1; length < bytes.length; length++)
    expect(() => decodeRow('queue', key, withChecksum(key, bytes.subarray(0, length)))).toThrow(
      /cannot be read|has layout/,
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
