import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import { displayFingerprint } from '../../../../src/protocol/public-key.ts';
import { FINDINGS_LISTED_MAX, type FindingCode } from '../../../../src/relay/replay/finding.ts';
import { verify } from '../../../../src/relay/replay/verify.ts';
import { describeEvent } from '../../../../src/relay/core/describe-event.ts';
import type { ItemId } from '../../../../src/protocol/names.ts';
import type { RelayEvent } from '../../../../src/relay/core/event.ts';
import { rowKey } from '../../../../src/relay/core/rows.ts';
import {
  PREFIX,
  SCHEMA_KEY,
  TREE_PREFIXES,
  collectedKey,
  logKey,
  payloadKey,
  queueKey,
  prefixRange,
  rowKeyBytes,
} from '../../../../src/relay/store/keys.ts';
import { rootHash } from '../../../../src/protocol/merkle.ts';
import { LEVEL_FOLDER, type Level } from '../../../../src/relay/store/level.ts';
import type { TreeView } from '../../../../src/relay/store/log-tree.ts';
import { TILE_HASHES } from '../../../../src/relay/store/tile-nodes.ts';
import { openOffline } from '../../../../src/relay/replay/offline.ts';
import { POSITION_FILE } from '../../../../src/relay/store/position.ts';
import { EVENT_TYPES, encodeRecord } from '../../../../src/relay/store/record.ts';
import { RELAY_KEY_FILE, generateRelayKey } from '../../../../src/relay/store/relay-key.ts';
import {
  type WireEntry,
  decodeRowRun,
  decodeWireRun,
  encodeRowRun,
  encodeWireRun,
  wireEntry,
} from '../../../../src/relay/store/item-run.ts';
import { decodeRow, encodeRow } from '../../../../src/relay/store/row-codec.ts';
import { withChecksum, withoutChecksum } from '../../../../src/relay/store/checksum.ts';
import { rebuilt, resultOf, verified } from '../../../support/audits.ts';
import { collected } from '../../../support/collected.ts';
import { accountEnrolOf, pushOf, revokeOf, rotateOf } from '../../../support/commands.ts';
import { acked, enrolledInAccount } from '../../../support/events.ts';
import { commitUndecided, withoutCharge } from '../../../support/faulty-history.ts';
import { alice, bob, carol, dave } from '../../../support/hosts.ts';
import { liveALife } from '../../../support/life.ts';
import { withRawLevel } from '../../../support/raw-level.ts';
import { queueRowAt } from '../../../support/queue-rows.ts';
import { writeQueues } from '../../../support/queue-forms.ts';
import { anyEpoch, backUp, restored } from '../../../support/restores.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { type TestRelay, enrolledTestRelay, openTestRelay } from '../../../support/test-relay.ts';
import { collectedMark } from '../../../../src/relay/store/collect.ts';
import { unpackBackup } from '../../../../src/relay/image/backup.ts';
import { alterWire, loseRow, loseWire } from '../../../support/stored-items.ts';

const ALICE = displayFingerprint(alice.key);
const BOB = displayFingerprint(bob.key);
/** Records: initialised, bob, carol, m1 (4), m2 (5), ack of m1 (6), m3 (7). */
const LAST = 7;

/** A closed relay where m2 and m3 wait for bob, and m1 was acked. */
async function closedRelay(): Promise<TestRelay> {
  const relay = await enrolledTestRelay(bob);
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

test('a replay that does not fit into memory finds the same', async () => {
  const relay = await openTestRelay();
  await liveALife(relay.engine, relay.clock);
  await relay.close();
  const inMemory = await verified(relay.folder);
  expect(inMemory.findings).toEqual([]);
  expect(await verified(relay.folder, { memoryBytes: 1 })).toEqual(inMemory);
  await withRawLevel(relay.folder, async (level) => {
    for (const prefix of [PREFIX.queue, PREFIX.dedup, PREFIX.target]) {
      const [[key, value] = []] = await level.iterator(prefixRange(prefix)).all();
      await level.put(key as Buffer, Buffer.from((value as Buffer).map((byte, at) => (at === 9 ? byte ^ 1 : byte))));
    }
  });
  const damaged = await verified(relay.folder);
  expect(damaged.findings.filter(({ code }) => code === 'ROW_DAMAGED')).toHaveLength(3);
  expect(await verified(relay.folder, { memoryBytes: 1 })).toEqual(damaged);
});

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
  expect({ findings, records, payloads }).toEqual({ findings: [], records: 36, payloads: 4 });
  expect(epoch).toBe(relay.engine.epoch);
  const offline = await openOffline(relay.folder);
  const types = new Set((await collected(offline.store.read(1))).map(({ event }) => event.type));
  await offline.close();
  expect(EVENT_TYPES.filter((type) => !types.has(type))).toEqual([
    'RelayRestored',
    'SchemaMigrated',
    'CheckpointTaken',
    'V2HopMade',
    'EnrolmentLapsed',
    'SendersRenewed',
    'SendersDated',
    'DedupExtended',
    'SeqFloorsRaised',
  ]);
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
});

describe('the hash trees', () => {
  test('have the root that the relay signs', async () => {
    const relay = await enrolledTestRelay(bob);
    await relay.push(...Array.from({ length: 600 }, (_none, at) => pushOf(alice, `m${at}`, [[bob, 'x']])));
    const view = relay.store.tree.view() as TreeView;
    const rootBefore = rootHash(view.size, view.read).toString('base64');
    await relay.close();
    const report = await verified(relay.folder);
    expect(report).toMatchObject({ findings: [], treeSize: view.size, rootHash: rootBefore });
    expect(view.size).toBeGreaterThan(2 * TILE_HASHES);
  });

  test.each<[string, FindingCode, (level: Level, key: Buffer) => Promise<unknown>]>([
    ['gone', 'TREE_MISSING', (level, key) => level.del(key)],
    ['altered', 'TREE_DIFFERS', (level, key) => flipBit(level, key, -1)],
    [
      'that no record makes',
      'TREE_UNEXPECTED',
      async (level, key) => {
        const other = Buffer.from(key);
        other.writeUInt8(200, 2);
        await level.put(other, (await level.get(key)) as Buffer);
      },
    ],
  ])('tiles and first leaves %s are told, and a rebuild mends them', async (_what, code, damage) => {
    const relay = await openTestRelay();
    await liveALife(relay.engine, relay.clock);
    const damaged = await relay.atRest(async (level) => {
      const keys = (await Promise.all(TREE_PREFIXES.map((prefix) => level.keys(prefixRange(prefix)).all()))).flat();
      for (const key of keys) await damage(level, key);
      return keys.length;
    });
    // Three epochs, of which two have ended.
    expect(damaged).toBe(2 + 3);
    const { findings, firstBadLsn } = await verified(relay.folder);
    expect(findings.map((finding) => finding.code)).toEqual(Array.from({ length: damaged }, () => code));
    expect(findings[0]?.message).toContain('tile 0 of level 0 of the hash tree that begins with record ');
    expect(findings.at(-1)?.message).toContain('the first leaf of the hash tree that begins with record ');
    expect(firstBadLsn).toBeUndefined();
    await rebuilt(relay.folder);
    expect((await verified(relay.folder)).findings).toEqual([]);
  });

  test('that do not begin, because the first record is none that begins an epoch, are no crash', async () => {
    const { codes, firstBadLsn } = await foundAfter(async (level) => {
      const event = { type: 'HostSeen', hostPubkey: bob.key, atMs: NOON_MS } as const;
      await level.put(logKey(1), encodeRecord({ lsn: 1, event }));
    });
    expect(codes).toContain('REPLAY_FAILED');
    expect(firstBadLsn).toBe(1);
  });
});

describe('a store', () => {
  test('that was made of a backup is verified and rebuilt, and what it is made of is told', async () => {
    const relay = await openTestRelay({ newEpoch: anyEpoch, hosts: [alice, bob, carol] });
    await relay.push(pushOf(alice, 'm1', [[bob, 'one']]), pushOf(alice, 'm2', [[carol, 'two']]));
    const file = join(await temporaryFolder(), 'backup');
    await backUp(relay, file);
    relay.clock.move(60_000);
    await relay.push(pushOf(alice, 'm3', [[bob, 'three']]));
    await relay.engine.admissions.revokeHost(revokeOf(alice, { nowMs: relay.clock.nowMs }));
    await relay.rotate(rotateOf(carol, dave));
    await relay.close();
    await restored(file, relay.folder, relay.clock.nowMs);
    expect((await verified(relay.folder)).findings).toEqual([]);
    await rebuilt(relay.folder);
    expect((await verified(relay.folder)).findings).toEqual([]);
    const offline = await openOffline(relay.folder);
    const words = (await collected(offline.store.read(1))).map(({ event }) =>
      describeEvent(event).sentence(displayFingerprint),
    );
    await offline.close();
    expect(words).toContainEqual(
      expect.stringMatching(/^restored from the backup of 2025-.*, replacing record \d+ of/),
    );
    expect(words).toContainEqual(expect.stringMatching(/^no seq is given twice: /));
    await withRawLevel(relay.folder, (level) => level.clear(prefixRange(PREFIX.restore)));
    const { findings } = await verified(relay.folder);
    expect(findings).toMatchObject([{ code: 'ROW_MISSING', message: expect.stringContaining('the restore of 2025-') }]);
  });

  test('where a rotation was in the middle of its move is verified and rebuilt', async () => {
    const relay = await openTestRelay({ newEpoch: anyEpoch, hosts: [alice, bob] });
    await relay.push(...Array.from({ length: 450 }, (_none, at) => pushOf(alice, `m${at}`, [[bob, `${at}`]])));
    const rotating = relay.rotate(rotateOf(bob, carol));
    const file = join(await temporaryFolder(), 'backup');
    // The rotation itself is durable, and its items follow.
    while (relay.store.get('move', bob.key) === undefined) await new Promise((resolve) => setImmediate(resolve));
    await backUp(relay, file);
    await rotating;
    await relay.close();
    const folder = await temporaryFolder();
    const { level } = await unpackBackup(file, join(folder, LEVEL_FOLDER));
    await level.close();
    const ofBackup = async () => (await verified(folder, { places: undefined })).findings;
    expect(await ofBackup()).toEqual([]);
    const offline = await openOffline(folder);
    expect(offline.store.get('move', bob.key)?.left).toBeGreaterThan(0);
    await offline.close();
    await rebuilt(folder);
    expect(await ofBackup()).toEqual([]);
  });
});

describe('the rows', () => {
  test('one that is gone, one too many, one that differs: each by its name and what is different', async () => {
    const { codes, folder } = await foundAfter(async (level) => {
      await loseRow(level, bob.key, NOON_MS + 1);
      const sender = rowKeyBytes('sender', bob.key);
      await level.put(sender, encodeRow('sender', sender, { dedupRows: 4 }));
      const key = rowKeyBytes('target', carol.key);
      const row = decodeRow('target', key, (await level.get(key)) as Buffer);
      await level.put(key, encodeRow('target', key, { ...row, queueItems: 7 }));
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
    expect(messages[1]).toBe(
      `the dedup row of item m1 of ${ALICE} for ${BOB} does not match its checksum. poste relay log rebuild ` +
        'makes it anew from the log',
    );
  });

  test('of many differences the first are told and the others counted', async () => {
    const { folder } = await foundAfter(async (level) => {
      for (let at = 0; at < 50; at++) {
        await level.put(rowKeyBytes('invite', sha256Hex(String(at))), Buffer.from('rubbish'));
      }
    });
    const { findings, untold, found } = await verified(folder);
    expect(findings).toHaveLength(FINDINGS_LISTED_MAX);
    expect(found).toBe(50);
    expect(untold.reduce((sum, { count }) => sum + count, 0)).toBe(30);
  });
});

describe('the charges', () => {
  test('an account that is not charged for what waits is told, and so is one that is charged for nothing', async () => {
    const relay = await enrolledTestRelay(alice, bob, carol);
    await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]));
    await withoutCharge(relay, bob);
    const released = { chargedItems: 3, chargedBytes: 30 };
    await commitUndecided(relay, enrolledInAccount(carol, 'umbrella', released));
    await relay.close();
    const { findings } = await verified(relay.folder);
    expect(new Set(findings.map(({ code, message }) => `${code}: ${message.split('. ')[0]}`))).toEqual(
      new Set([
        'CHARGE_DIFFERS: the account acme is charged for 0 items of 0 bytes, and 1 item of 3 bytes waits',
        'CHARGE_DIFFERS: the account umbrella is charged for 3 items of 30 bytes, and 0 items of 0 bytes wait',
      ]),
    );
  });

  test.each<[string, RelayEvent, RegExp]>([
    // Their rows are gone all the same: an ack says what it released.
    ['a queue', acked(bob, NOON_MS, [[alice, 0, 0]]), /^the queue of SHA256:\S+ is charged for 1 item of 3 bytes/],
    [
      'a share',
      { ...acked(bob, NOON_MS, [[alice, 0, 0]]), items: 1, bytes: 3 },
      /as a sender to .* charged for 1 item of 3 bytes/,
    ],
    [
      'dedup rows',
      { type: 'DedupPurged', beforeMs: 1, senders: [{ senderPubkey: alice.key, rows: 1 }], atMs: NOON_MS },
      /is charged for 0 dedup rows, and 1 is kept of it/,
    ],
  ])('%s counted wrongly', async (_what, event, message) => {
    const relay = await enrolledTestRelay(alice, bob);
    await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]));
    await commitUndecided(relay, event);
    await relay.close();
    const { findings } = await verified(relay.folder);
    expect(new Set(findings.map(({ code }) => code))).toEqual(new Set(['CHARGE_DIFFERS']));
    expect(findings.map((finding) => finding.message)).toContainEqual(expect.stringMatching(message));
  });
});

test('what the system cannot read is told as that, and not as a damaged file', async () => {
  const { folder } = await closedRelay();
  const offline = await openOffline(folder);
  const said = 'IO error: /store/log/000005.ldb: Input/output error';
  offline.level.iterator = () => {
    throw Object.assign(new Error(said), { code: 'LEVEL_IO_ERROR' });
  };
  const { findings } = await resultOf(verify(offline, { places: undefined }));
  await offline.close();
  expect(findings.length).toBeGreaterThan(0);
  for (const { code, message } of findings) {
    expect(code).toBe('DATABASE_DAMAGED');
    expect(message).toContain(`(${said}): the system could not read a file`);
    expect(message).not.toContain('restore');
  }
});

describe('the wire bytes', () => {
  test.each([
    ['gone', 'PAYLOAD_MISSING', 'are gone', (level: Level) => loseWire(level, bob.key, NOON_MS + 1)],
    [
      'altered',
      'PAYLOAD_DIFFERS',
      'are not the ones that were accepted',
      (level: Level) => alterWire(level, bob.key, NOON_MS + 1, Buffer.from('two!')),
    ],
  ])('that are %s are told with their item', async (_what, code, words, damage) => {
    const { codes, first } = await foundAfter(damage);
    expect(codes).toEqual([code]);
    expect(first).toContain(`the wire bytes of envelope m2 of ${ALICE} for ${BOB} at seq ${NOON_MS + 1} ${words}`);
  });

  test('that no item names are told', async () => {
    const { codes, first } = await foundAfter((level) => level.put(payloadKey(carol.key, 5), Buffer.from('old')));
    expect(codes).toEqual(['PAYLOAD_UNEXPECTED']);
    expect(first).toContain(`${displayFingerprint(carol.key)} at seq 5`);
  });
});

/** Bob's rows and wire bytes as runs, of which m2 is the first member, and `work` at the wire run. */
const foundInRun = (work: (entries: WireEntry[], key: Buffer) => WireEntry[], drops: 'row' | 'no row') =>
  foundAfter(async (level) => {
    await writeQueues(level, 'in runs');
    const [[key, value] = []] = await level.iterator({ gte: queueKey(bob.key, 0), limit: 1 }).all();
    const run = decodeRowRun(key as Buffer, value as Buffer);
    if (!run || run.rows.length !== 2) throw new Error('m2 and m3 are in one run');
    if (drops === 'row') await level.put(run.key, encodeRowRun(run.key, run.rows.slice(1)));
    const entries = decodeWireRun(run.wireKey, (await level.get(run.wireKey)) as Buffer) ?? [];
    await level.put(run.wireKey, encodeWireRun(run.wireKey, work(entries, run.wireKey)));
  });

function shorter(key: Buffer, { seq, wire }: WireEntry): WireEntry {
  return wireEntry(key, seq, wire.subarray(1));
}

describe('wire bytes in runs', () => {
  test('an entry without a row is told: it is mail that should be deleted', async () => {
    const { codes } = await foundInRun((entries) => entries, 'row');
    expect(codes).toEqual(['ROW_MISSING', 'PAYLOAD_UNEXPECTED']);
  });

  test('a waiting row without its entry is told, and one whose entry has another length', async () => {
    const { codes: gone } = await foundInRun((entries) => entries.slice(1), 'no row');
    expect(gone).toEqual(['PAYLOAD_MISSING']);
    const cut = await foundInRun(([first, ...others], key) => [shorter(key, first!), ...others], 'no row');
    expect(cut.codes).toEqual(['PAYLOAD_DIFFERS']);
    expect(cut.first).toContain(`of ${ALICE} for ${BOB} at seq ${NOON_MS + 1} are not the ones`);
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
    const relay = await enrolledTestRelay(bob);
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
      const runs = withoutChecksum(key as Buffer, value as Buffer);
      const other = Buffer.from(runs);
      other[3] = (other[3] as number) ^ 1;
      await level.put(key as Buffer, withChecksum(key as Buffer, other));
      const doubled = Buffer.from(key as Buffer);
      doubled[16] = (doubled[16] as number) + 100;
      await level.put(doubled, withChecksum(doubled, runs));
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
    const key = collectedKey(bob.key);
    const { codes, first } = await foundAfter((level) => level.put(key, withChecksum(key, Buffer.alloc(8, 1))));
    expect(codes).toEqual(['MARK_DIFFERS']);
    expect(first).toContain(BOB);
    expect(first).toContain('further than it was acked');
  });

  test.each(['alone', 'in runs'] as const)('a row, %s, that the mark of the collector stands behind', async (form) => {
    const { codes, first } = await foundAfter(async (level) => {
      // The row of m1, which was acked, as if it had not been collected.
      const wire = Buffer.from('one');
      const key = queueKey(bob.key, NOON_MS);
      await level.put(key, encodeRow('queue', key, queueRowAt(bob.key, NOON_MS, wire)));
      await level.put(payloadKey(bob.key, NOON_MS), wire);
      await writeQueues(level, form);
      await level.put(...collectedMark(bob.key, NOON_MS));
    });
    expect(codes).toEqual(['MARK_DIFFERS']);
    expect(first).toContain(`the queue of ${BOB} is marked as collected further than it is: what it acked stays`);
  });

  test('a mark of the collector that is damaged', async () => {
    const { codes, first } = await foundAfter((level) => level.put(collectedKey(bob.key), Buffer.alloc(8, 1)));
    expect(codes).toEqual(['MARK_DIFFERS']);
    expect(first).toContain(`how far the queue of ${BOB} is collected does not match its checksum`);
  });

  test('a heartbeat that is gone, and a schema version that is another one', async () => {
    expect((await foundAfter((level) => level.del(rowKeyBytes('heartbeat', '')))).codes).toEqual(['MARK_DIFFERS']);
    expect((await foundAfter((level) => level.del(SCHEMA_KEY))).codes).toEqual(['IDENTITY_DIFFERS']);
  });

  test('a position file that is gone, and a relay.key of another relay', async () => {
    const { folder } = await closedRelay();
    await rm(join(folder, POSITION_FILE));
    await writeFile(join(folder, RELAY_KEY_FILE), generateRelayKey(), { mode: 0o600 });
    const { findings } = await verified(folder);
    expect(findings.map(({ code }) => code)).toEqual(['POSITION_DIFFERS', 'IDENTITY_DIFFERS']);
    expect(findings[0]?.message).toContain('missing or unreadable');
    expect(findings[1]?.message).toContain(displayFingerprint(carol.key).slice(0, 7));
  });
});
