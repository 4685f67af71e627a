import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { RelayEvent } from '../../../../src/relay/core/event.ts';
import { pack } from '../../../../src/relay/store/packing.ts';
import { DamagedRecord, checkRecord, decodeRecord, encodeRecord } from '../../../../src/relay/store/record.ts';
import { anyEvent, eventOfType, wholeNumber } from '../../../../src/library/arbitraries.ts';
import { accepted, acked, rotated } from '../../../support/events.ts';
import { alice, bob, carol } from '../../../support/hosts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const lsn = wholeNumber.map((number) => Math.max(1, number));
/** A record with every kind of field, for the tests that go through it byte by byte. */
const sample = encodeRecord({
  lsn: 7,
  event: accepted(alice, 'a-message-id', [
    [bob, NOON_MS, 'for bob'],
    [carol, NOON_MS + 1, 'for carol'],
  ]),
});

test.each(Object.keys(eventOfType) as RelayEvent['type'][])('%s survives its record at any LSN', (type) => {
  fc.assert(
    fc.property(eventOfType[type], lsn, (event, at) => {
      expect(decodeRecord(at, encodeRecord({ lsn: at, event }))).toEqual({ lsn: at, event });
    }),
  );
});

test('the same entry is the same bytes, whatever was encoded before it', () => {
  fc.assert(
    fc.property(anyEvent, anyEvent, (event, other) => {
      const once = encodeRecord({ lsn: 3, event });
      encodeRecord({ lsn: 4, event: other });
      expect(encodeRecord({ lsn: 3, event }).equals(once)).toBe(true);
    }),
  );
});

test('records stay as they were written while others are encoded', () => {
  const events = fc.sample(anyEvent, { numRuns: 300, seed: 5 });
  const records = events.map((event, at) => encodeRecord({ lsn: at + 1, event }));
  expect(records.map((record, at) => decodeRecord(at + 1, record).event)).toEqual(events);
});

test('a rotation whose record was not kept is the bytes that it was before records were kept', () => {
  const record = Buffer.from(
    'AfDkZtHcABYQAcQg1b9KP8znF7A4i8wnSevBSK2ZabI/Re4bYF/Vh3hXasTEIOzBtYcn8/ErMZSIGp7LneCyjOeyByMNjpMP4bzn' +
      'XiVsy0J5qjPWxYAApWFsaWNloMDAwKhob3N0LWtlectCeaoz1sWAAMDCkpLEINW/Sj/M5xewOIvMJ0nrwUitmWmyP0XuG2Bf1Yd4' +
      'V2rEy0J5qjPWxYAAksQg7MG1hyfz8SsxlIgansud4LKM57IHIw2Okw/hvOdeJWzAwstCeaoz1sWAAAAAAJDLQnmqM9bFgAA=',
    'base64',
  );
  const entry = { lsn: 7, event: { ...rotated(alice, bob), signed: null } };
  expect(decodeRecord(7, record)).toEqual(entry);
  expect(encodeRecord(entry)).toEqual(record);
});

describe('damage is detected', () => {
  test('in any bit of a record', () => {
    const undetected: number[] = [];
    for (let bit = 0; bit < sample.length * 8; bit++) {
      const damaged = Buffer.from(sample);
      damaged[bit >> 3]! ^= 1 << (bit & 7);
      if (!isDamaged(7, damaged)) undetected.push(bit);
    }
    expect(undetected).toEqual([]);
  });

  test('in any byte of a record, whatever it becomes', () => {
    fc.assert(
      fc.property(anyEvent, fc.nat(), fc.integer({ min: 1, max: 255 }), (event, where, change) => {
        const damaged = encodeRecord({ lsn: 7, event });
        damaged[where % damaged.length]! ^= change;
        expect(() => decodeRecord(7, damaged)).toThrow(DamagedRecord);
      }),
    );
  });

  test('where a record is cut or has grown', () => {
    const lengths = Array.from({ length: sample.length }, (_none, length) => length);
    expect(lengths.filter((length) => !isDamaged(7, sample.subarray(0, length)))).toEqual([]);
    expect(isDamaged(7, Buffer.concat([sample, Buffer.of(0)]))).toBe(true);
    expect(isDamaged(7, Buffer.alloc(512))).toBe(true);
  });

  test('where a record was moved to another LSN', () => {
    fc.assert(
      fc.property(lsn, lsn, (from, to) => {
        fc.pre(from !== to);
        const record = encodeRecord({ lsn: from, event: acked(bob, 5, [[alice, 1, 1]]) });
        expect(() => checkRecord(to, record)).toThrow(DamagedRecord);
      }),
    );
  });
});

test('the error names the record and nothing of what is in it', () => {
  const damaged = Buffer.from(sample);
  damaged[20]! ^= 1;
  expect(() => checkRecord(7, damaged)).toThrow(/^log record 7 does not match its checksum$/);
  expect(() => checkRecord(7, Buffer.alloc(0))).toThrow(/^log record 7 has no known format$/);
});

test.each([
  ['an unknown tag', [999, 1], 'unknown tag 999'],
  ['a newer version', [11, 2, alice.key, 5], 'newer version'],
  ['an unknown kind', [20, 1, Buffer.alloc(32), 'm1', 9, [], 1, 2, 3], 'unknown kind'],
])('%s is refused although its checksum is right', (_what, body, message) => {
  expect(() => decodeRecord(7, sealed(7, pack(body)))).toThrow(message);
  expect(() => decodeRecord(7, sealed(7, pack(body)))).toThrow(DamagedRecord);
});

function isDamaged(at: number, record: Buffer): boolean {
  try {
    checkRecord(at, record);
    return false;
  } catch (error) {
    return error instanceof DamagedRecord;
  }
}

/** A record with this body and a right checksum, made without `encodeRecord`. */
function sealed(at: number, body: Buffer): Buffer {
  const number = Buffer.alloc(8);
  number.writeBigUInt64BE(BigInt(at));
  const header = Buffer.alloc(5);
  header[0] = 1;
  header.writeUInt32BE(naiveCrc32(Buffer.concat([number, body])), 1);
  return Buffer.concat([header, body]);
}

/** CRC-32 (ISO-HDLC) bit by bit: an independent word on the format. */
function naiveCrc32(bytes: Buffer): number {
  let remainder = 0xffff_ffff;
  for (const byte of bytes) {
    remainder ^= byte;
    for (let bit = 0; bit < 8; bit++) remainder = remainder & 1 ? (remainder >>> 1) ^ 0xedb8_8320 : remainder >>> 1;
  }
  return (remainder ^ 0xffff_ffff) >>> 0;
}
