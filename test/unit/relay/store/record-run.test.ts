/** Records as they lie under their keys: alone or in runs, and read as if each were alone. */
import { crc32 } from 'node:zlib';
import * as fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Pair } from '../../../../src/lib/pair-block.ts';
import { PREFIX, logKey, prefixRange } from '../../../../src/relay/store/keys.ts';
import { type Level, levelAt } from '../../../../src/relay/store/level.ts';
import { DamagedRecord, checkRecord, encodeRecord } from '../../../../src/relay/store/record.ts';
import {
  RecentRuns,
  firstStoredLsn,
  lastEndUpTo,
  lastStoredLsn,
  readableRecordsIn,
  recordAt,
  recordPairs,
  recordRuns,
  recordRunsBack,
  recordsIn,
} from '../../../../src/relay/store/record-run.ts';
import { BulkDatabase } from '../../../../src/relay/store/bulk-database.ts';
import { collected } from '../../../support/collected.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { share } from '../../../support/thorough.ts';

async function writePairs(level: Level, pairs: readonly Pair[]): Promise<void> {
  const database = new BulkDatabase(level);
  await database.take(pairs);
  await database.flush();
}

const KIB = 1 << 10;

/** A record whose label has so many characters. */
function recordOf(lsn: number, characters = 1): Buffer {
  const label = 'x'.repeat(characters);
  const event = { type: 'InviteIssued', inviteHash: 'ab'.repeat(32), label, expiresAtMs: 9, atMs: NOON_MS } as const;
  return encodeRecord({ lsn, event: event as never });
}

/** Records from `firstLsn` on, with so many characters each. */
function recordsFrom(firstLsn: number, characters: readonly number[]): Buffer[] {
  return characters.map((count, at) => recordOf(firstLsn + at, count));
}

function lengths(pairs: Iterable<Pair>): number[] {
  return [...pairs].map((pair) => recordsIn(pair).length);
}

describe('what is written', () => {
  test('a lone record lies under its LSN as it is, and its first byte is 1', () => {
    const record = recordOf(7);
    expect([...recordPairs(7, [record])]).toEqual([[logKey(7), record]]);
    expect(record[0]).toBe(1);
    expect([...recordPairs(7, [])]).toEqual([]);
  });

  test('a run: form 2, checksum, how many, the length of each, the records; under the LSN of the last', () => {
    const records = recordsFrom(7, [1, 5, 2]);
    const [[key, value] = [], ...others] = [...recordPairs(7, records)];
    expect(others).toEqual([]);
    expect(key).toEqual(Buffer.from('100000000000000009', 'hex'));
    const head = Buffer.alloc(14);
    head.writeUInt16BE(3);
    for (const [at, { length }] of records.entries()) head.writeUInt32BE(length, 2 + 4 * at);
    const checksum = Buffer.alloc(4);
    checksum.writeUInt32BE(crc32(Buffer.concat([key ?? Buffer.of(), head])));
    expect(value).toEqual(Buffer.concat([Buffer.of(2), checksum, head, ...records]));
  });

  test('a run ends at 256 records', () => {
    expect(lengths(recordPairs(1, recordsFrom(1, Array<number>(600).fill(1))))).toEqual([256, 256, 88]);
    expect(lengths(recordPairs(1, recordsFrom(1, Array<number>(257).fill(1))))).toEqual([256, 1]);
  });

  test('a run ends at 64 KiB, as it is stored, and a larger record is alone', () => {
    const own = recordOf(1, KIB).length - KIB;
    // Two lengths and the head beside them.
    const half = 32 * KIB - own;
    expect(lengths(recordPairs(1, recordsFrom(1, [half, half - 15])))).toEqual([2]);
    expect(lengths(recordPairs(1, recordsFrom(1, [half, half - 14])))).toEqual([1, 1]);
    expect(lengths(recordPairs(1, recordsFrom(1, [1, 1, 70 * KIB, 1, 1])))).toEqual([2, 1, 2]);
    expect(lengths(recordPairs(1, recordsFrom(1, [70 * KIB, 70 * KIB])))).toEqual([1, 1]);
  });
});

function isSound(lsn: number, record: Buffer): boolean {
  try {
    checkRecord(lsn, record);
    return true;
  } catch {
    return false;
  }
}

describe('damage', () => {
  const records = recordsFrom(40, [1, 9, 3]);
  const [pair = [Buffer.of(), Buffer.of()] as Pair] = recordPairs(40, records);
  const [key, value] = pair;
  const headBytes = 7 + 4 * 3;

  test('in any bit of the head or of a length is met by every reader of the run', () => {
    const passed: number[] = [];
    // Without the first byte, the form: another form is of no run.
    for (let bit = 8; bit < headBytes * 8; bit++) {
      const damaged = Buffer.from(value);
      damaged[bit >> 3]! ^= 1 << (bit & 7);
      if (readableRecordsIn([key, damaged]).length > 0) passed.push(bit);
    }
    expect(passed).toEqual([]);
    expect(() => recordsIn([key, value.subarray(0, -1)])).toThrow(DamagedRecord);
    expect(() => recordsIn([key, Buffer.concat([value, Buffer.of(0)])])).toThrow(
      'the run of log records that ends with 42 does not match its checksum',
    );
    for (let bytes = 1; bytes < headBytes; bytes++)
      expect(readableRecordsIn([key, value.subarray(0, bytes)])).toEqual([]);
  });

  test('in the form leaves a lone record that is none', () => {
    for (let bit = 0; bit < 8; bit++) {
      const damaged = Buffer.from(value);
      damaged[0]! ^= 1 << bit;
      const [[lsn, record] = [0, Buffer.of()]] = recordsIn([key, damaged]);
      expect(() => checkRecord(lsn, record)).toThrow('log record 42');
    }
  });

  test('in any bit of a record costs that record alone', () => {
    const wrong: number[] = [];
    for (let bit = headBytes * 8; bit < value.length * 8; bit++) {
      const damaged = Buffer.from(value);
      damaged[bit >> 3]! ^= 1 << (bit & 7);
      const bad = recordsIn([key, damaged]).filter(([lsn, record]) => !isSound(lsn, record));
      if (bad.length !== 1) wrong.push(bit);
    }
    expect(wrong).toEqual([]);
  });

  test('a run under the key of another is met', () => {
    for (const lsn of [1, 2, 41, 43, 2 ** 40]) expect(() => recordsIn([logKey(lsn), value])).toThrow(DamagedRecord);
    expect(() => recordsIn([Buffer.of(PREFIX.log, 1), value])).toThrow(DamagedRecord);
  });
});

async function openedLevel(): Promise<Level> {
  const level = levelAt(await temporaryFolder());
  await level.open({ createIfMissing: true });
  onTestFinished(() => level.close());
  return level;
}

function nameOf(lsn: number, record: Buffer | undefined): string {
  return `${lsn} ${record ? crc32(record) : 'none'}`;
}

/** Every record that a walk gives, by its name, and what it throws at its end. */
async function walked(runs: AsyncIterable<readonly [number, Buffer][]>): Promise<string[]> {
  const found: string[] = [];
  try {
    for await (const run of runs) for (const one of run) found.push(nameOf(...one));
  } catch (error) {
    if (!(error instanceof DamagedRecord)) throw error;
    found.push(error.message);
  }
  return found;
}

/** Batches of a log that was cut, each of records with so many characters. */
const anyLog = fc.record({
  before: fc.integer({ min: 0, max: 2 ** 33 }),
  batches: fc.array(
    fc.oneof(
      { weight: 4, arbitrary: fc.array(fc.integer({ min: 0, max: 40 }), { minLength: 1, maxLength: 12 }) },
      { weight: 1, arbitrary: fc.integer({ min: 250, max: 600 }).map((count) => Array<number>(count).fill(1)) },
      { weight: 1, arbitrary: fc.array(fc.constantFrom(1, 20 * KIB, 40 * KIB, 70 * KIB), { maxLength: 6 }) },
    ),
    { maxLength: 6 },
  ),
});

describe('what is read', () => {
  test('by LSN, forwards, backwards and at its ends, is the plain list of the records', async () => {
    const level = await openedLevel();
    const places = fc.array(fc.tuple(fc.nat(), fc.nat()), { minLength: 3, maxLength: 3 });
    await fc.assert(
      fc.asyncProperty(anyLog, places, async ({ before, batches }, chosen) => {
        await level.clear(prefixRange(PREFIX.log));
        const plain: string[] = [];
        for (const batch of batches) {
          const firstLsn = before + plain.length + 1;
          const records = recordsFrom(firstLsn, batch);
          await writePairs(level, [...recordPairs(firstLsn, records)]);
          plain.push(...records.map((record, at) => nameOf(firstLsn + at, record)));
        }
        const last = before + plain.length;
        expect([await firstStoredLsn(level), await lastStoredLsn(level)]).toEqual(
          plain.length === 0 ? [0, 0] : [before + 1, last],
        );
        expect(await walked(recordRuns(level, before + 1, last))).toEqual(plain);
        expect(await walked(recordRunsBack(level, last, before + 1))).toEqual(plain.toReversed());
        for (const [one, other] of chosen) {
          if (plain.length === 0) break;
          const from = before + 1 + (one % plain.length);
          const through = from + (other % (last - from + 1));
          const between = plain.slice(from - before - 1, through - before);
          expect(await walked(recordRuns(level, from, through))).toEqual(between);
          expect(await walked(recordRunsBack(level, through, from))).toEqual(between.toReversed());
          expect(nameOf(from, await recordAt(level, from))).toBe(between[0]);
        }
        expect(await recordAt(level, last + 1)).toBeUndefined();
        expect(await recordAt(level, before)).toBeUndefined();
      }),
      { numRuns: share(400) },
    );
  });

  test('one by one, as often as one likes, in any order, is each record as it is', async () => {
    const level = await openedLevel();
    const batches = [1, 300, 1, 2, 3, 70 * KIB, ...Array<number>(20).fill(2)];
    const records: Buffer[] = [];
    for (const batch of batches) {
      const sizes = batch > KIB ? [batch] : Array<number>(batch).fill(1);
      const added = recordsFrom(records.length + 1, sizes);
      await writePairs(level, [...recordPairs(records.length + 1, added)]);
      records.push(...added);
    }
    const runs = new RecentRuns(level);
    await fc.assert(
      fc.asyncProperty(fc.nat(records.length + 1), async (lsn) => {
        expect(await runs.recordAt(lsn)).toEqual(records[lsn - 1]);
      }),
      { numRuns: 500 },
    );
  });

  test('of a run stays, for its other records, until 16 others were read; a lone record does not', async () => {
    const level = await openedLevel();
    const all = recordsFrom(1, Array<number>(36).fill(1));
    for (let lsn = 1; lsn < 35; lsn += 2) await writePairs(level, [...recordPairs(lsn, all.slice(lsn - 1, lsn + 1))]);
    await writePairs(level, [...recordPairs(35, all.slice(34, 35)), ...recordPairs(36, all.slice(35))]);
    const runs = new RecentRuns(level);
    let reads = 0;
    const iterator = level.iterator.bind(level);
    level.iterator = ((...given: Parameters<Level['iterator']>) => {
      reads++;
      return iterator(...given);
    }) as Level['iterator'];
    const readsFor = async (...lsns: number[]): Promise<number> => {
      const before = reads;
      for (const lsn of lsns) expect(await runs.recordAt(lsn)).toEqual(all[lsn - 1]);
      return reads - before;
    };
    expect(await readsFor(1, 2, 2, 1)).toBe(1);
    expect(await readsFor(35, 35, 36)).toBe(3);
    expect(await readsFor(...Array.from({ length: 15 }, (_none, at) => 3 + 2 * at))).toBe(15);
    expect(await readsFor(2, 33, 1)).toBe(1);
    expect(await readsFor(3, 1)).toBe(1);
  });

  test('a log that is cut behind a run begins with the next one, and loses no other record', async () => {
    const level = await openedLevel();
    const records = recordsFrom(1, Array<number>(700).fill(1));
    await writePairs(level, [...recordPairs(1, records.slice(0, 600)), ...recordPairs(601, records.slice(600))]);
    const ends = [256, 512, 600, 700];
    for (const lsn of [1, 255, 256, 257, 511, 599, 600, 650, 700, 9000])
      expect([lsn, await lastEndUpTo(level, lsn)]).toEqual([lsn, ends.findLast((end) => end <= lsn) ?? 0]);
    for (const end of ends.slice(0, -1)) {
      await level.clear({ gte: logKey(1), lte: logKey(end) });
      expect(await firstStoredLsn(level)).toBe(end + 1);
      expect((await walked(recordRuns(level, end + 1, 700))).length).toBe(700 - end);
    }
  });

  test('a run that is missing, damaged or twice there ends a walk where it begins', async () => {
    const level = await openedLevel();
    const batches = [1, 5, 9].map((lsn) => Array.from(recordPairs(lsn, recordsFrom(lsn, [1, 1, 1, 1]))));
    await writePairs(level, batches.flat());
    const [key, value] = batches[1]?.[0] ?? [Buffer.of(), Buffer.of()];
    const ends = async (): Promise<unknown[]> => [
      (await walked(recordRuns(level, 1, 12))).at(-1),
      (await walked(recordRunsBack(level, 12, 1))).at(-1),
      (await walked(recordRuns(level, 1, 12))).length,
    ];
    await level.del(key);
    expect(await ends()).toEqual(['log record 5 is missing', 'log record 8 is missing', 5]);
    expect(await recordAt(level, 6)).toBeUndefined();
    const damaged = Buffer.from(value);
    damaged[9]! ^= 1;
    await level.put(key, damaged);
    const what = 'the run of log records that ends with 8 does not match its checksum';
    expect(await ends()).toEqual([what, what, 5]);
    await expect(recordAt(level, 6)).rejects.toThrow(what);
    // A lone record inside of what a run holds.
    await level.put(key, value);
    await level.put(logKey(6), recordOf(6));
    expect(await ends()).toEqual(['log record 5 is missing', 'log record 4 is missing', 5]);
  });

  test('a key among them that is none of theirs is no record', async () => {
    const level = await openedLevel();
    await writePairs(level, [...recordPairs(1, recordsFrom(1, [1, 1])), ...recordPairs(3, recordsFrom(3, [1, 1]))]);
    await level.put(Buffer.concat([logKey(2), Buffer.of(0)]), recordOf(3));
    expect((await walked(recordRuns(level, 1, 4))).at(-1)).toBe('log record 3 is missing');
    expect((await collected(recordRuns(level, 4, 4))).flat()).toEqual([[4, recordOf(4)]]);
    await level.put(Buffer.of(PREFIX.log, 0xff, 0xff), Buffer.of(2));
    expect([await firstStoredLsn(level), await lastStoredLsn(level)]).toEqual([1, 4]);
  });
});
