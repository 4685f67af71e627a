import * as fc from 'fast-check';
import { Packr, unpack } from 'msgpackr';
import { describe, expect, test } from 'vitest';
import { TABLES, decodeRow, encodeRow, endOfRange, keyBytes, keyParts } from '../../../../src/host/store/tables.ts';
import type { AgentId } from '../../../../src/host/core/rows.ts';
import { acceptedInTree, outboxRow, relayAccepted } from '../../../support/outbox-rows.ts';

const packr = new Packr({ useRecords: false });

const text = fc
  .string({ unit: 'grapheme', maxLength: 6 })
  .filter((value) => value.isWellFormed() && !value.includes('\0'));
const number = fc.oneof(fc.nat(300), fc.maxSafeNat());
const key = fc.tuple(text, number);
const bytesOf = ([agent, position]: [string, number]): Buffer => keyBytes('entry', [agent as AgentId, position]);

describe('keys', () => {
  test('no two tables share a prefix', () => {
    expect(new Set(Object.values(TABLES).map(({ prefix }) => prefix)).size).toBe(Object.keys(TABLES).length);
  });

  test('sort as their parts do: text by its UTF-8 bytes, then the number', () => {
    fc.assert(
      fc.property(key, key, (one, other) => {
        const byText = Buffer.compare(Buffer.from(one[0]), Buffer.from(other[0]));
        const expected = byText === 0 ? Math.sign(one[1] - other[1]) : byText;
        expect(Buffer.compare(bytesOf(one), bytesOf(other))).toBe(expected);
      }),
    );
  });

  test('give back their parts', () => {
    fc.assert(
      fc.property(key, (parts) => {
        expect(keyParts('entry', bytesOf(parts))).toEqual(parts);
      }),
    );
  });

  test('all that begin with the same parts are one range, and no other key lies in it', () => {
    fc.assert(
      fc.property(text, key, (agent, other) => {
        const start = keyBytes('entry', [agent as AgentId]);
        const bytes = bytesOf(other);
        const isInside = Buffer.compare(bytes, start) >= 0 && Buffer.compare(bytes, endOfRange(start)) < 0;
        expect(isInside).toBe(other[0] === agent);
      }),
    );
  });

  test('a part that no key can hold is a broken invariant', () => {
    for (const bad of ['a\0b', '\ud800']) expect(() => keyBytes('agent', [bad as AgentId])).toThrow(RangeError);
    for (const bad of [-1, 1.5, Number.NaN, 2 ** 53]) expect(() => keyBytes('outbox', [bad])).toThrow(RangeError);
    expect(() => keyParts('entry', Buffer.from([TABLES.entry.prefix, 1]))).toThrow(RangeError);
    expect(() => keyParts('entry', keyBytes('outbox', [1]))).toThrow(RangeError);
    expect(() => endOfRange(Buffer.from([0xff, 0xff]))).toThrow(RangeError);
  });
});

describe('versions of rows', () => {
  const accepted = outboxRow(relayAccepted());
  const inTree = {
    ...accepted,
    acceptance: acceptedInTree(),
  };

  test('a row as it was written before receipts were signed together is read, and written so again', () => {
    const before = Buffer.from(packr.pack([1, accepted]));
    expect(decodeRow('outbox', before)).toEqual(accepted);
    expect(encodeRow('outbox', accepted).equals(before)).toBe(true);
    expect(encodeRow('outbox', outboxRow()).equals(packr.pack([1, outboxRow()]))).toBe(true);
  });

  test('a row whose receipt is in a tree has a version that older software refuses', () => {
    const bytes = encodeRow('outbox', inTree);
    expect(unpack(bytes)).toEqual([2, inTree]);
    expect(decodeRow('outbox', bytes)).toEqual(inTree);
    // As soon as its receipt has a signature of its own, older software can read it.
    expect(unpack(encodeRow('outbox', { ...inTree, acceptance: accepted.acceptance }))).toEqual([1, accepted]);
  });

  test('what was proven or denied of a row does not keep older software from reading it', () => {
    const denied = { times: 2, atMs: 5 };
    for (const row of [
      { ...accepted, proven: { epoch: accepted.acceptance!.epoch, size: 9 } },
      { ...accepted, denied },
    ])
      expect(unpack(encodeRow('outbox', row))).toEqual([1, row]);
  });

  test('a version of nobody, or of another table, is refused', () => {
    const refusal = 'has a layout that this software does not know';
    expect(() => decodeRow('outbox', Buffer.from(packr.pack([3, inTree])))).toThrow(refusal);
    expect(() => decodeRow('peer', Buffer.from(packr.pack([2, {}])))).toThrow(refusal);
    expect(() => decodeRow('outbox', Buffer.from(packr.pack([inTree])))).toThrow(refusal);
  });
});
