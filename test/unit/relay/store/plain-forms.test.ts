/** What is read and written where it lies is what MessagePack itself reads and writes. */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { publicKeyBytes } from '../../../../src/protocol/public-key.ts';
import type { ItemAccepted, ItemsAcked } from '../../../../src/relay/core/event.ts';
import type { Tables } from '../../../../src/relay/core/rows.ts';
import { withoutChecksum } from '../../../../src/relay/store/checksum.ts';
import { rowKeyBytes } from '../../../../src/relay/store/keys.ts';
import { pack, unpackArray } from '../../../../src/relay/store/packing.ts';
import { PlainReader, PlainWriter } from '../../../../src/relay/store/plain-forms.ts';
import { decodeProvenRecord, decodeRecord, encodeRecord } from '../../../../src/relay/store/record.ts';
import { decodeRow, encodeRow } from '../../../../src/relay/store/row-codec.ts';
import { type KeyedRow, eventOfType, keyedRow } from '../../../../src/library/arbitraries.ts';
import { accepted, acked } from '../../../support/events.ts';
import { alice, bob } from '../../../support/hosts.ts';

const HEADER_BYTES = 5;
/** Around the bounds of every form, and no number at all. */
const number = fc.oneof(
  fc.constantFrom(0x7f, 0x80, 0xff, 0x100, 0xffff, 0x1_0000, 2 ** 32 - 1, 2 ** 32, -0, Infinity),
  fc.nat(70_000),
  fc.maxSafeNat(),
  fc.double({ noNaN: true, min: 0 }),
);
const text = fc.oneof(
  fc.string({ maxLength: 40 }),
  fc.string({ unit: 'grapheme', maxLength: 40 }),
  fc.string({ minLength: 250, maxLength: 260 }),
);
const event: fc.Arbitrary<ItemAccepted | ItemsAcked> = fc.oneof(
  fc
    .tuple(eventOfType.ItemAccepted, text, number, number, fc.nat(20))
    .map(([any, itemId, acceptedAtMs, bytes, copies]) => {
      const targets = [any.targets[0]!, ...Array.from({ length: copies }, () => ({ ...any.targets[0]!, bytes }))];
      return Object.assign(any, { itemId: itemId as ItemAccepted['itemId'], acceptedAtMs, targets });
    }),
  eventOfType.ItemAccepted,
  fc
    .tuple(eventOfType.ItemsAcked, fc.option(text), number)
    .map(([any, account, items]) => Object.assign(any, { account, items })),
  eventOfType.ItemsAcked,
);

/** As MessagePack writes it: a -0 is stored as 0. */
function withoutMinusZero<T>(value: T): T {
  return JSON.parse(JSON.stringify(value, (_name, one: unknown) => (one === Infinity ? 'Infinity' : one))) as T;
}

test('a record of an item or an ack is the bytes that MessagePack writes, and says what MessagePack reads', () => {
  fc.assert(
    fc.property(event, fc.nat(2 ** 40), (any, lsn) => {
      const record = encodeRecord({ lsn, event: any });
      const fields = unpackArray(record.subarray(HEADER_BYTES));
      expect(pack(fields).equals(record.subarray(HEADER_BYTES))).toBe(true);
      expect(decodeRecord(lsn, record).event).toEqual(decodeProvenRecord(record));
      expect(withoutMinusZero(decodeProvenRecord(record))).toEqual(withoutMinusZero(any));
    }),
  );
});

test.each(['queue', 'dedup'] as const)('a %s row is the bytes that MessagePack writes', (table) => {
  fc.assert(
    fc.property(keyedRow[table] as fc.Arbitrary<KeyedRow>, number, fc.option(text), (any, bytes, id) => {
      const given = { ...(any.row as Tables['queue' | 'dedup']), bytes };
      const row = { ...given, ...(table === 'queue' && id !== null && { itemId: id as typeof given.itemId }) };
      const key = rowKeyBytes(table, any.key);
      const value = encodeRow(table, key, row);
      expect(pack(unpackArray(withoutChecksum(key, value))).equals(withoutChecksum(key, value))).toBe(true);
      expect(withoutMinusZero(decodeRow(table, key, value, any.key))).toEqual(withoutMinusZero(row));
    }),
  );
});

test('a record of an item or an ack that is cut or has grown is told', () => {
  const events = [accepted(alice, 'a-message-id', [[bob, 70_000, 'for bob']]), acked(bob, 5, [[alice, 1, 1]])];
  for (const one of events) {
    const record = encodeRecord({ lsn: 1, event: one });
    for (let length = HEADER_BYTES + 1; length < record.length; length++)
      expect(() => decodeProvenRecord(record.subarray(0, length))).toThrow('the record is unreadable');
    expect(() => decodeProvenRecord(Buffer.concat([record, Buffer.of(0)]))).toThrow('the record is unreadable');
  }
});

test('bytes of any kind never read as more than they are', () => {
  const bytes = fc.uint8Array({ maxLength: 40 });
  const read = fc.constantFrom('number', 'boolean', 'text', 'textOrNull', 'key', 'hash', 'array');
  fc.assert(
    fc.property(bytes, fc.array(read, { maxLength: 6 }), (any, reads) => {
      const reader = new PlainReader();
      reader.begin(Buffer.from(any));
      const readAll = (): void => {
        for (const name of reads) reader[name]();
        reader.end();
        reader.number();
      };
      expect(readAll).toThrow(Error);
    }),
  );
});

test('a writer makes room for what it is given, and begins anew', () => {
  const writer = new PlainWriter();
  writer.begin();
  for (let nth = 0; nth < 200; nth++) writer.key(alice.key);
  for (const write of [() => writer.boolean(true), () => writer.textOrNull(null), () => writer.array(1)]) write();
  const key = pack(publicKeyBytes(alice.key));
  expect(writer.taken).toEqual(
    Buffer.concat([...Array.from({ length: 200 }, () => key), pack(true), pack(null), Buffer.of(0x91)]),
  );
  writer.begin();
  writer.boolean(true);
  expect(writer.taken).toEqual(pack(true));
});
