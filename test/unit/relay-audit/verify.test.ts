import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { sha256Hex } from '../../../src/protocol/digest.ts';
import { displayFingerprint } from '../../../src/protocol/public-key.ts';
import { FINDINGS_TOLD_MAX, type FindingCode } from '../../../src/relay/audit/finding.ts';
import { type VerifyOptions, verify } from '../../../src/relay/audit/verify.ts';
import type { ItemId } from '../../../src/protocol/names.ts';
import { rowKey } from '../../../src/relay/core/rows.ts';
import {
  PREFIX,
  SCHEMA_KEY,
  collectedKey,
  logKey,
  payloadKey,
  prefixRange,
  queueKey,
  rowKeyBytes,
} from '../../../src/relay/store/keys.ts';
import type { Level } from '../../../src/relay/store/level.ts';
import { openOffline } from '../../../src/relay/store/offline.ts';
import { POSITION_FILE } from '../../../src/relay/store/open.ts';
import { EVENT_TYPES, encodeRecord } from '../../../src/relay/store/record.ts';
import { RELAY_KEY_FILE, generateRelayKey } from '../../../src/relay/store/relay-key.ts';
import { decodeRow, encodeRow } from '../../../src/relay/store/row-codec.ts';
import { resultOf, verified } from '../../support/audits.ts';
import { collected } from '../../support/collected.ts';
import { accountEnrolOf, pushOf } from '../../support/commands.ts';
import { acked } from '../../support/events.ts';
import { alice, bob, carol } from '../../support/hosts.ts';
import { liveALife } from '../../support/life.ts';
import { withRawLevel } from '../../support/raw-level.ts';
import { NOON_MS } from '../../support/test-clock.ts';
import { type TestRelay, openTestRelay } from '../../support/test-relay.ts';

const ALICE = displayFingerprint(alice.key);
const BOB = displayFingerprint(bob.key);
/** Records: initialised, bob, carol, m1 (4), m2 (5), ack of m1 (6), m3 (7). */
const LAST = 7;

/** A closed relay where m2 and m3 wait for bob, and m1 was acked. */
async function closedRelay(): Promise<TestRelay> {
  const relay = await openTestRelay();
  await relay.enrolAll(bob);
  await relay.enrol(accountEnrolOf(carol, 'acme'));
  await relay.push(pushOf(alice, 'm1', [[bob, 'one']]));
  await relay.push(
    pushOf(alice, 'm2', [
      [bob, 'two'],
      [carol, 'two for carol'],
    ]),
  );
  await relay.ack(bob, NOON_MS);
  await relay.push(pushOf(alice, 'm3', [[bob, 'three']]));
  await relay.close();
  return relay;
}

/** The codes and first sentences of what verify finds after `work`. */
async function foundAfter(
  work: (level: Level) => Promise<unknown>,
): Promise<{ codes: FindingCode[]; first: string; firstBadLsn: number | undefined; folder: string }> {
  const { folder } = await closedRelay();
  await withRawLevel(folder, work);
  const { findings, firstBadLsn, found } = await verified(folder);
  expect(found).toBeGreaterThan(0);
  return { codes: findings.map(({ code }) => code), first: findings[0]?.message ?? '', firstBadLsn, folder };
}

async function flipBit(level: Level, key: Buffer, at: number): Promise<void> {
  const value = Buffer.from((await level.get(key)) as Buffer);
  value.writeUInt8((value.at(at) as number) ^ 4, at < 0 ? value.length + at : at);
  await level.put(key, value);
}

test('a store that lived is verified, whatever happened in it', async () => {
  const relay = await openTestRelay();
  await liveALife(relay.engine, relay.clock);
  await relay.close();
  const { findings, records, payloads, epoch } = await verified(relay.folder);
  expect({ findings, records, payloads }).toEqual({ findings: [], records: 38, payloads: 4 });
  expect(epoch).toBe(relay.engine.epoch);
  const offline = await openOffline(relay.folder);
  const types = new Set((await collected(offline.store.read(1))).map(({ event }) => event.type));
  await offline.close();
  expect(EVENT_TYPES.filter((type) => !types.has(type))).toEqual(['SchemaMigrated', 'EnrolmentLapsed', 'InviteSpent']);
});

test('acked rows that are not collected yet are no findings, nor are their payloads', async () => {
  const { folder } = await closedRelay();
  const keys = await withRawLevel(folder, (level) => level.keys(prefixRange(PREFIX.payload)).all());
  expect((await verified(folder)).findings).toEqual([]);
  await withRawLevel(folder, (level) => level.del(collectedKey(bob.key)));
  expect((await verified(folder)).findings).toEqual([]);
  expect(keys.length).toBeGreaterThan(2);
});

describe('the log', () => {
  test('an altered record is the first bad one, and the rows tell what it accepted', async () => {
    const { codes, first, firstBadLsn } = await foundAfter((level) => flipBit(level, logKey(5), -1));
    expect(codes).toEqual(['RECORD_DAMAGED']);
    expect(firstBadLsn).toBe(5);
    expect(first).toMatch(/^log record 5 does not match its checksum: by the rows, it accepted envelope m2 of /);
    expect(first).toContain(`envelope m2 of ${ALICE}, which waits for ${BOB} at seq ${NOON_MS + 1}`);
    expect(first).toContain('restore the newest backup that verifies');
  });

  test('an altered record that no row tells of is guessed at', async () => {
    const { first } = await foundAfter((level) => flipBit(level, logKey(6), -1));
    expect(first).toContain('it seems to say (unproven): ');
    expect(first).toContain('acked through');
  });

  test.each([
    [[4], 'log record 4 is missing'],
    [[4, 5, 6], 'log records 4 to 6 are missing'],
    [[1], 'log record 1 is missing'],
  ])('records %j that are gone are said to be', async (lsns, words) => {
    const { codes, first, firstBadLsn } = await foundAfter(async (level) => {
      for (const lsn of lsns) await level.del(logKey(lsn));
    });
    expect(codes[0]).toBe('RECORD_MISSING');
    expect(firstBadLsn).toBe(lsns[0]);
    expect(first.startsWith(words)).toBe(true);
  });

  test('an end that is gone contradicts the position', async () => {
    const { codes } = await foundAfter((level) => level.del(logKey(LAST)));
    expect(codes).toContain('POSITION_DIFFERS');
    expect(codes).toContain('ROW_UNEXPECTED');
  });

  test('an empty log is one', async () => {
    const { codes, first } = await foundAfter(async (level) => {
      for (let lsn = 1; lsn <= LAST; lsn++) await level.del(logKey(lsn));
    });
    expect(codes[0]).toBe('RECORD_MISSING');
    expect(first).toContain('the log holds no record');
  });

  test('a whole record that contradicts those before it is named', async () => {
    const greedy = acked(bob, NOON_MS + 9, [[alice, 9, 900]]);
    const { codes, first, firstBadLsn } = await foundAfter((level) =>
      level.put(logKey(LAST), encodeRecord({ lsn: LAST, event: greedy })),
    );
    expect(codes[0]).toBe('REPLAY_FAILED');
    expect(firstBadLsn).toBe(LAST);
    expect(first).toContain('usage never falls below zero');
  });

  test('what else vouches for it is shown every record and asked at the end', async () => {
    const { folder } = await closedRelay();
    const shown: number[] = [];
    const options: VerifyOptions = {
      witnesses: [
        {
          record: (lsn, bytes) => void shown.push(lsn, bytes.length > 5 ? 1 : 0),
          disagreements: () => Promise.resolve(['the root is another one']),
        },
      ],
    };
    const offline = await openOffline(folder);
    const { findings } = await resultOf(verify(offline, options));
    await offline.close();
    expect(shown).toEqual(Array.from({ length: LAST }, (_none, at) => [at + 1, 1]).flat());
    expect(findings).toMatchObject([{ code: 'LOG_WITNESS', message: 'the root is another one' }]);
  });
});

describe('the rows', () => {
  test('one that is gone, one too many, one that differs: each by its name and what is different', async () => {
    const { codes, folder } = await foundAfter(async (level) => {
      await level.del(queueKey(bob.key, NOON_MS + 1));
      await level.put(rowKeyBytes('sender', bob.key), encodeRow('sender', { dedupRows: 4 }));
      const key = rowKeyBytes('target', carol.key);
      const row = decodeRow('target', carol.key, (await level.get(key)) as Buffer);
      await level.put(key, encodeRow('target', { ...row, queueItems: 7 }));
    });
    const { findings } = await verified(folder);
    expect(codes).toEqual(['ROW_DIFFERS', 'ROW_UNEXPECTED', 'ROW_MISSING', 'PAYLOAD_UNEXPECTED']);
    const messages = findings.map(({ message }) => message);
    expect(messages[0]).toBe(
      `the target row of ${displayFingerprint(carol.key)} differs: queueItems is 7 and by the log 1`,
    );
    expect(messages[1]).toBe(`the sender row of ${BOB} is in the store, and by the log it is not`);
    expect(messages[2]).toBe(
      `the queue row of ${BOB} at seq ${NOON_MS + 1} is not in the store, and by the log it is (envelope m2)`,
    );
  });

  test('rows under hashes are named by what was hashed', async () => {
    const { folder } = await foundAfter(async (level) => {
      await level.del(rowKeyBytes('account', 'acme'));
      await level.put(rowKeyBytes('dedup', rowKey.dedup(alice.key, bob.key, 'm1' as ItemId)), Buffer.from('rubbish'));
    });
    const messages = (await verified(folder)).findings.map(({ message }) => message);
    expect(messages[0]).toBe('the account row of acme is not in the store, and by the log it is');
    expect(messages[1]).toBe(`the dedup row of item m1 of ${ALICE} for ${BOB} differs: what is stored cannot be read`);
  });

  test('of many differences the first are told and the others counted', async () => {
    const { folder } = await foundAfter(async (level) => {
      for (let at = 0; at < 50; at++) {
        await level.put(rowKeyBytes('invite', sha256Hex(String(at))), Buffer.from('rubbish'));
      }
    });
    const { findings, untold, found } = await verified(folder);
    expect(findings).toHaveLength(FINDINGS_TOLD_MAX);
    expect(found).toBe(50);
    expect(untold.reduce((sum, { count }) => sum + count, 0)).toBe(30);
  });
});

describe('the wire bytes', () => {
  test.each([
    ['gone', 'PAYLOAD_MISSING', 'are gone', (level: Level, key: Buffer) => level.del(key)],
    [
      'altered',
      'PAYLOAD_DIFFERS',
      'are not the ones that were accepted',
      (level: Level, key: Buffer) => flipBit(level, key, 0),
    ],
  ])('that are %s are told with their item', async (_what, code, words, damage) => {
    const { codes, first } = await foundAfter((level) => damage(level, payloadKey(bob.key, NOON_MS + 1)));
    expect(codes).toEqual([code]);
    expect(first).toContain(`the wire bytes of envelope m2 of ${ALICE} for ${BOB} at seq ${NOON_MS + 1} ${words}`);
  });

  test('that no item names are told', async () => {
    const { codes, first } = await foundAfter((level) => level.put(payloadKey(carol.key, 5), Buffer.from('old')));
    expect(codes).toEqual(['PAYLOAD_UNEXPECTED']);
    expect(first).toContain(`${displayFingerprint(carol.key)} at seq 5`);
  });
});

describe('the due indexes', () => {
  test.each([
    ['expiry', PREFIX.expiry, 3],
    ['purge', PREFIX.dedupUntil, 4],
  ])('entries of the %s index that are gone are told, a finding for each row', async (_name, prefix, rows) => {
    const { codes } = await foundAfter((level) => level.clear(prefixRange(prefix)));
    expect(codes).toEqual(Array.from({ length: rows }, () => 'DUE_MISSING'));
  });

  test('are held against the rows part by part, with the same findings', async () => {
    const relay = await openTestRelay();
    await relay.enrolAll(bob);
    await relay.push(...Array.from({ length: 60 }, (_none, at) => pushOf(alice, `m${at}`, [[bob, 'x']])));
    await relay.close();
    expect((await verified(relay.folder, { partRows: 7 })).findings).toEqual([]);
    await withRawLevel(relay.folder, (level) => level.clear(prefixRange(PREFIX.expiry)));
    const [parts, whole] = [await verified(relay.folder, { partRows: 7 }), await verified(relay.folder)];
    expect([parts.found, whole.found]).toEqual([60, 60]);
    expect(parts.bytes).toBe(whole.bytes);
  });

  test.each([
    ['expiry', PREFIX.expiry],
    ['purge', PREFIX.dedupUntil],
  ])('an entry of the %s index that is cut short is told', async (_name, prefix) => {
    const { codes } = await foundAfter(async (level) => {
      const [[key, value] = []] = await level.iterator(prefixRange(prefix)).all();
      await level.put(key as Buffer, (value as Buffer).subarray(0, -1));
    });
    expect(codes[0]).toBe('DUE_DAMAGED');
  });

  test('an entry that names another sender than the row is told', async () => {
    const { codes } = await foundAfter(async (level) => {
      const [[key, value] = []] = await level.iterator(prefixRange(PREFIX.dedupUntil)).all();
      const other = Buffer.from(value as Buffer);
      other[3] = (other[3] as number) ^ 1;
      await level.put(key as Buffer, other);
      const doubled = Buffer.from(key as Buffer);
      doubled[16] = (doubled[16] as number) + 100;
      await level.put(doubled, value as Buffer);
    });
    expect(codes).toEqual(['DUE_DAMAGED']);
  });
});

describe('what holds the store together', () => {
  test('a key that is none of a store', async () => {
    const { codes, first } = await foundAfter(async (level) => {
      await level.put(Buffer.from('60ff', 'hex'), Buffer.of());
      await level.put(Buffer.from('1001', 'hex'), Buffer.of());
    });
    expect(codes).toEqual(['KEY_UNEXPECTED', 'KEY_UNEXPECTED']);
    expect(first).toContain('the key 1001 is none of a store');
  });

  test('a mark of the collector beyond what was acked', async () => {
    const { codes, first } = await foundAfter((level) => level.put(collectedKey(bob.key), Buffer.alloc(8, 1)));
    expect(codes).toEqual(['MARK_DIFFERS']);
    expect(first).toContain(BOB);
  });

  test('a heartbeat that is gone, and a schema version that is another one', async () => {
    expect((await foundAfter((level) => level.del(rowKeyBytes('heartbeat', '')))).codes).toEqual(['MARK_DIFFERS']);
    expect((await foundAfter((level) => level.del(SCHEMA_KEY))).codes).toEqual(['IDENTITY_DIFFERS']);
  });

  test('a position file that is gone, and a relay.key of another relay', async () => {
    const { folder } = await closedRelay();
    await rm(join(folder, POSITION_FILE));
    await writeFile(join(folder, RELAY_KEY_FILE), generateRelayKey());
    const { findings } = await verified(folder);
    expect(findings.map(({ code }) => code)).toEqual(['POSITION_DIFFERS', 'IDENTITY_DIFFERS']);
    expect(findings[0]?.message).toContain('missing or unreadable');
    expect(findings[1]?.message).toContain(displayFingerprint(carol.key).slice(0, 7));
  });
});
