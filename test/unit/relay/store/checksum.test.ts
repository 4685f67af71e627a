import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { TableName } from '../../../../src/relay/core/rows.ts';
import {
  CHECKPOINT_PREFIXES,
  DEDUP_RUN_BYTES,
  EXPIRY_RUN_BYTES,
  PREFIX,
  TREE_PREFIXES,
  collectedKey,
  dueKey,
  rowKeyBytes,
} from '../../../../src/relay/store/keys.ts';
import {
  DamagedRow,
  ROW_PREFIXES,
  mayBeOfSchemaOne,
  pairBeforeFlip,
  withChecksum,
  withoutChecksum,
} from '../../../../src/relay/store/checksum.ts';
import { encodeRow } from '../../../../src/relay/store/row-codec.ts';
import { keyedRow, publicKey, wholeNumber } from '../../../../src/library/arbitraries.ts';

type Stored = [key: Buffer, value: Buffer];

const row: fc.Arbitrary<Stored> = fc.oneof(
  ...(Object.keys(keyedRow) as TableName[]).map((table) =>
    keyedRow[table].map(({ key: text, row: fields }): Stored => {
      const key = rowKeyBytes(table, text);
      return [key, encodeRow(table, key, fields)];
    }),
  ),
);
const due = (prefix: number, runBytes: number): fc.Arbitrary<Stored> =>
  fc.tuple(wholeNumber, wholeNumber, fc.integer({ min: 1, max: 3 })).chain(([ms, lsn, runs]) =>
    fc.uint8Array({ minLength: runs * runBytes, maxLength: runs * runBytes }).map((bytes): Stored => {
      const key = dueKey(prefix, ms, lsn);
      return [key, withChecksum(key, Buffer.from(bytes))];
    }),
  );
const collected: fc.Arbitrary<Stored> = publicKey.map((target) => {
  const key = collectedKey(target);
  return [key, withChecksum(key, Buffer.alloc(8, 7))];
});
/** Anything that has the checksum of a row. */
const stored = fc.oneof(row, due(PREFIX.expiry, EXPIRY_RUN_BYTES), due(PREFIX.dedupUntil, DEDUP_RUN_BYTES), collected);

function flipped(bytes: Buffer, bit: number): Buffer {
  const copy = Buffer.from(bytes);
  const at = (bit >>> 3) % bytes.length;
  copy.writeUInt8(copy.readUInt8(at) ^ (1 << (bit & 7)), at);
  return copy;
}

function name(key: Buffer): string {
  return new DamagedRow(key, 'is damaged').sentence;
}

describe('the checksum of a row', () => {
  test('property: tells which bit of a row or its key flipped, and nothing wrong where two did', () => {
    fc.assert(
      fc.property(stored, fc.nat(), fc.nat(), ([key, value], first, second) => {
        const bits = 8 * (key.length + value.length);
        const flip = (bytes: Buffer, bit: number): Buffer => flipped(bytes, bit % bits);
        const cut = (bytes: Buffer): Stored => [bytes.subarray(0, key.length), bytes.subarray(key.length)];
        const once = flip(Buffer.concat([key, value]), first);
        expect(pairBeforeFlip(...cut(once))).toEqual([key, value]);
        const twice = pairBeforeFlip(...cut(flip(once, second)));
        expect([undefined, [key, value]]).toContainEqual(twice);
      }),
    );
  });

  test('covers everything in the database that has no other', () => {
    const others = [
      PREFIX.schema,
      PREFIX.view,
      PREFIX.log,
      PREFIX.pruned,
      PREFIX.payload,
      ...TREE_PREFIXES,
      ...CHECKPOINT_PREFIXES,
    ];
    expect([...ROW_PREFIXES, ...others].toSorted((a, b) => a - b)).toEqual(
      Object.values(PREFIX).toSorted((a, b) => a - b),
    );
  });

  test('comes off again', () => {
    fc.assert(
      fc.property(stored, ([key, value]) => {
        expect(withChecksum(key, withoutChecksum(key, value))).toEqual(value);
      }),
    );
  });

  test('tells of every flipped bit, in the value and in the key', () => {
    fc.assert(
      fc.property(stored, fc.nat(), ([key, value], bit) => {
        expect(() => withoutChecksum(key, flipped(value, bit))).toThrow(DamagedRow);
        expect(() => withoutChecksum(flipped(key, bit), value)).toThrow('does not match its checksum');
      }),
      { numRuns: 500 },
    );
  });

  test('tells of a row that lies under the key of another', () => {
    fc.assert(
      fc.property(stored, stored, ([key], [otherKey, value]) => {
        fc.pre(!key.equals(otherKey));
        expect(() => withoutChecksum(key, value)).toThrow(DamagedRow);
      }),
    );
  });

  test('tells of a value that was cut, and of none at all', () => {
    fc.assert(
      fc.property(stored, fc.nat(), ([key, value], length) => {
        expect(() => withoutChecksum(key, value.subarray(0, length % value.length))).toThrow(DamagedRow);
      }),
    );
  });

  test('is seen on what has it, whatever bit of it flips: schema 1 wrote nothing like it', () => {
    fc.assert(
      fc.property(stored, fc.nat(), ([key, value], bit) => {
        expect(mayBeOfSchemaOne(key, value)).toBe(false);
        expect(mayBeOfSchemaOne(key, flipped(value, bit))).toBe(false);
        expect(mayBeOfSchemaOne(key, withoutChecksum(key, value))).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  test('names the row, also under a key that no row has', () => {
    expect(name(Buffer.of(PREFIX.relay))).toBe('the relay row of the relay is damaged');
    expect(name(dueKey(PREFIX.expiry, 0, 1))).toBe('the expiry entry of 1970-01-01T00:00:00.000Z is damaged');
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => {
        expect(name(Buffer.from(bytes))).toMatch(/^the .* is damaged$/);
      }),
    );
  });
});
