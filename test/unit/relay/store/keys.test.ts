import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { publicKeyBytes } from '../../../../src/protocol/public-key.ts';
import { type TableName, rowKey } from '../../../../src/relay/core/rows.ts';
import {
  PREFIX,
  collectedKey,
  dueKey,
  firstKeyOf,
  logKey,
  lsnOf,
  payloadKey,
  prefixRange,
  queueKey,
  rowKeyBytes,
  seqOf,
} from '../../../../src/relay/store/keys.ts';
import { keyedRow, publicKey, wholeNumber } from '../../../../src/library/arbitraries.ts';

const order = (a: number, b: number): number => Math.sign(a - b);

describe('byte order is the order of the numbers', () => {
  test('for log keys', () => {
    fc.assert(
      fc.property(wholeNumber, wholeNumber, (a, b) => {
        expect(Buffer.compare(logKey(a), logKey(b))).toBe(order(a, b));
      }),
    );
  });

  test('for queue and payload keys of one target, and no target runs into another', () => {
    fc.assert(
      fc.property(publicKey, publicKey, wholeNumber, wholeNumber, (target, other, a, b) => {
        for (const keyOf of [queueKey, payloadKey]) {
          expect(Buffer.compare(keyOf(target, a), keyOf(target, b))).toBe(order(a, b));
          const byTarget = Buffer.compare(publicKeyBytes(target), publicKeyBytes(other));
          expect(Buffer.compare(keyOf(target, a), keyOf(other, b))).toBe(byTarget === 0 ? order(a, b) : byTarget);
        }
      }),
    );
  });

  test('for due keys: by time first, then by LSN', () => {
    fc.assert(
      fc.property(fc.array(wholeNumber, { minLength: 4, maxLength: 4 }), ([aMs = 0, a = 0, bMs = 0, b = 0]) => {
        const compared = Buffer.compare(dueKey(PREFIX.expiry, aMs, a), dueKey(PREFIX.expiry, bMs, b));
        expect(compared).toBe(order(aMs, bMs) || order(a, b));
      }),
    );
  });
});

test('what is in a key can be read back', () => {
  fc.assert(
    fc.property(publicKey, wholeNumber, (key, number) => {
      expect(lsnOf(logKey(number))).toBe(number);
      expect(seqOf(queueKey(key, number))).toBe(number);
      expect(seqOf(payloadKey(key, number))).toBe(number);
      expect(firstKeyOf(queueKey(key, number))).toBe(key);
      expect(rowKeyBytes('queue', rowKey.queue(key, number)).equals(queueKey(key, number))).toBe(true);
    }),
  );
});

describe('every table has keys of its own', () => {
  const tables = Object.keys(keyedRow) as TableName[];

  test('no two prefixes are the same', () => {
    expect(new Set(Object.values(PREFIX)).size).toBe(Object.keys(PREFIX).length);
  });

  test.each(tables)('a key of table %s has its prefix and one width', (table) => {
    const widths = new Set<number>();
    fc.assert(
      fc.property(keyedRow[table], ({ key }) => {
        const bytes = rowKeyBytes(table, key);
        widths.add(bytes.length);
        expect(bytes[0]).toBe(PREFIX[table]);
        const { gte, lt } = prefixRange(PREFIX[table]);
        expect(Buffer.compare(bytes, gte) >= 0 && Buffer.compare(bytes, lt) < 0).toBe(true);
      }),
    );
    expect(widths.size).toBe(1);
  });

  test.each(tables)('two rows of table %s share a key only when they share their textual one', (table) => {
    fc.assert(
      fc.property(keyedRow[table], keyedRow[table], (one, other) => {
        expect(rowKeyBytes(table, one.key).equals(rowKeyBytes(table, other.key))).toBe(one.key === other.key);
      }),
    );
  });

  test('a due or collected key has its prefix', () => {
    fc.assert(
      fc.property(publicKey, wholeNumber, wholeNumber, (key, ms, lsn) => {
        expect(dueKey(PREFIX.expiry, ms, lsn)[0]).toBe(PREFIX.expiry);
        expect(dueKey(PREFIX.dedupUntil, ms, lsn)[0]).toBe(PREFIX.dedupUntil);
        expect(collectedKey(key)[0]).toBe(PREFIX.collected);
      }),
    );
  });
});
