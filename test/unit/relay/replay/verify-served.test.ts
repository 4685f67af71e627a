/**
 * The rows of a store that is served against its log: while it goes on, from the newest checkpoint, and with rows
 * altered.
 */
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import type { TableName } from '../../../../src/relay/core/rows.ts';
import { countDedupRows } from '../../../../src/relay/store/dedup-counts.ts';
import { openServed } from '../../../../src/relay/replay/offline.ts';
import { AuditThread } from '../../../../src/relay/replay/audit-thread.ts';
import type { ServedReport } from '../../../../src/relay/replay/verification.ts';
import { verifyServed } from '../../../../src/relay/replay/verify.ts';
import { withChecksum, withoutChecksum } from '../../../../src/relay/store/checksum.ts';
import { PREFIX, REPLAYED_TABLES, prefixRange } from '../../../../src/relay/store/keys.ts';
import { decodeRowRun, encodeRowRun, keyAt } from '../../../../src/relay/store/item-run.ts';
import { LEVEL_FOLDER, type Level, levelAt } from '../../../../src/relay/store/level.ts';
import { resultOf } from '../../../support/audits.ts';
import { accountEnrolOf, denyOf, enrolOf, inviteOf, pushOf } from '../../../support/commands.ts';
import { alice, bob, hostNamed } from '../../../support/hosts.ts';
import { takeCheckpoint } from '../../../support/flips.ts';
import { liveALife } from '../../../support/life.ts';
import { type TestRelay, openTestRelay } from '../../../support/test-relay.ts';

/** The file of the bundle: a thread does not run TypeScript. */
const BUNDLED = new URL('../../../../dist/program/audit-worker.js', import.meta.url);

async function lived(): Promise<TestRelay> {
  const relay = await openTestRelay();
  await liveALife(relay.engine, relay.clock);
  // What the life used up.
  const { admissions } = relay.engine;
  const later = { nowMs: relay.clock.nowMs };
  await admissions.issueInvite(inviteOf(sha256Hex('a token'), { expiresAtMs: later.nowMs + 1000, ...later }));
  await relay.enrol(accountEnrolOf(hostNamed('frank'), 'others', later));
  await relay.deny(denyOf({ account: 'nobody', ...later }));
  await relay.pushOne(pushOf(alice, 'for frank', [[hostNamed('frank'), 'mail']]));
  return relay;
}

async function checked({ store }: TestRelay): Promise<ServedReport> {
  const offline = await openServed(store.location);
  try {
    return await resultOf(verifyServed(offline));
  } finally {
    await offline.close();
  }
}

/** Lets `work` at the database of a relay that goes on, behind its back. */
async function behindItsBack<T>({ folder }: TestRelay, work: (level: Level) => Promise<T>): Promise<T> {
  const level = levelAt(join(folder, LEVEL_FOLDER), { isShared: true });
  await level.open();
  try {
    return await work(level);
  } finally {
    await level.close();
  }
}

describe('the rows of a running relay', () => {
  test('are what its log gives, after a life in which everything happened', async () => {
    const relay = await lived();
    const { lsn, found, findings, records, rows, replayedFrom } = await checked(relay);
    expect({ found, findings, replayedFrom }).toEqual({ found: 0, findings: [], replayedFrom: 1 });
    expect([lsn, records]).toEqual([relay.store.lastLsn, relay.store.lastLsn]);
    expect(rows).toBeGreaterThan(10);
  });

  test('are those of one moment, whatever is written meanwhile', async () => {
    const relay = await lived();
    const { lastLsn } = relay.store;
    const offline = await openServed(relay.store.location);
    onTestFinished(() => offline.close());
    const steps = verifyServed(offline);
    let step = await steps.next();
    for (let at = 0; !step.done; at++) {
      const host = hostNamed(`host ${at}`);
      await relay.enrol(enrolOf(host));
      await relay.pushOne(pushOf(alice, `meanwhile-${at}`, [[host, 'mail']]));
      await relay.pushOne(pushOf(alice, `also-${at}`, [[bob, 'mail']]));
      step = await steps.next();
    }
    expect(step.value).toMatchObject({ found: 0, lsn: lastLsn });
    expect(relay.store.lastLsn).toBeGreaterThan(lastLsn);
    expect(await checked(relay)).toMatchObject({ found: 0, lsn: relay.store.lastLsn });
  });

  test('are replayed from the newest checkpoint that is whole', async () => {
    const relay = await lived();
    await takeCheckpoint(relay);
    const first = relay.store.lastLsn;
    await relay.pushOne(pushOf(alice, 'between', [[bob, 'mail']]));
    await takeCheckpoint(relay);
    await relay.pushOne(pushOf(alice, 'afterwards', [[bob, 'mail']]));
    const whole = await checked(relay);
    expect(whole).toMatchObject({ found: 0 });
    expect(whole.replayedFrom).toBeGreaterThan(first);
    expect(whole.records).toBe(relay.store.lastLsn - whole.replayedFrom + 1);
    // The newest is damaged: the one before stands in for it, and that is said.
    await behindItsBack(relay, async (level) => {
      const keys = await level.keys(prefixRange(PREFIX.checkpointPart)).all();
      const value = await level.get(keys.at(-1)!);
      value![value!.length - 1]! ^= 1;
      await level.put(keys.at(-1)!, value!);
    });
    const older = await checked(relay);
    expect(older.findings.map(({ code }) => code)).toEqual(['CHECKPOINT_DAMAGED']);
    expect(older.replayedFrom).toBeLessThan(whole.replayedFrom);
  });

  const present: readonly TableName[] = REPLAYED_TABLES.filter((table) => table !== 'restore' && table !== 'move');

  test.each(present)('a %s row with other contents under a right checksum is found and named', async (table) => {
    const relay = await lived();
    const changed = await behindItsBack(relay, async (level) => {
      const [[key, value] = []] = await level.iterator({ ...prefixRange(PREFIX[table]), limit: 1 }).all();
      const run = table === 'queue' ? decodeRowRun(key!, value!) : undefined;
      const bytes = Buffer.from(run?.rows[0]?.bytes ?? withoutChecksum(key!, value!));
      // The last value of most rows is a number or a hash; whatever it is, it is another one afterwards.
      bytes[bytes.length - 1]! ^= 1;
      const [first, ...rest] = run?.rows ?? [];
      await level.put(key!, first ? encodeRowRun(key!, [{ ...first, bytes }, ...rest]) : withChecksum(key!, bytes));
      return (first ? keyAt(key!, first.seq) : key!).toString('hex');
    });
    const { found, findings } = await checked(relay);
    expect(found).toBeGreaterThan(0);
    expect(findings.some(({ code, details }) => code.startsWith('ROW_') && details['key'] === changed)).toBe(true);
  });

  test.each(present)('a %s row that is gone, and one with a flipped bit, are found', async (table) => {
    const relay = await lived();
    await behindItsBack(relay, async (level) => {
      const [[key] = []] = await level.iterator({ ...prefixRange(PREFIX[table]), limit: 1 }).all();
      await level.del(key!);
    });
    expect((await checked(relay)).findings.map(({ code }) => code)).toContain('ROW_MISSING');
    const other = await lived();
    await behindItsBack(other, async (level) => {
      const [[key, value] = []] = await level.iterator({ ...prefixRange(PREFIX[table]), limit: 1 }).all();
      const bytes = Buffer.from(value!);
      bytes[bytes.length >>> 1]! ^= 0x10;
      await level.put(key!, bytes);
    });
    expect((await checked(other)).findings.map(({ code }) => code)).toContain('ROW_DAMAGED');
  });

  test.each([
    ['expiry', 'DUE_MISSING'],
    ['dedupUntil', 'DUE_MISSING'],
    ['log', 'RECORD_MISSING'],
  ] as const)('a missing entry of %s is found', async (kind, code) => {
    const relay = await lived();
    await behindItsBack(relay, async (level) => {
      const keys = await level.keys(prefixRange(PREFIX[kind])).all();
      for (const key of kind === 'log' ? keys.slice(3, 4) : keys) await level.del(key);
    });
    expect((await checked(relay)).findings.map((finding) => finding.code)).toContain(code);
  });
});

describe('the thread that checks them', () => {
  test('says what it found and how long it worked, and leaves the database', async () => {
    const relay = await lived();
    const check = new AuditThread({ type: 'rows', location: relay.store.location, share: 1 }, BUNDLED);
    const { busyMs, ...report } = (await check.done)!;
    expect(report).toEqual(await checked(relay));
    expect(busyMs).toBeGreaterThan(0);
    await relay.reopen();
    expect(await checked(relay)).toMatchObject({ found: 0 });
  });

  test('counts the dedup rows at one moment, as the relay itself would', async () => {
    const relay = await lived();
    const { location, level, lastLsn } = relay.store;
    const check = new AuditThread({ type: 'dedup rows', location, share: 1 }, BUNDLED);
    const { busyMs: _busyMs, ...count } = (await check.done)!;
    expect(count).toEqual(await resultOf(countDedupRows(level, lastLsn)));
    expect(count).toMatchObject({ lsn: lastLsn, rows: count.expected, damagedKeys: [] });
    expect(count.rows).toBeGreaterThan(0);
  });

  test('ends when it is stopped, while it rests', async () => {
    const relay = await lived();
    // It would rest for hours after its first step.
    const check = new AuditThread({ type: 'rows', location: relay.store.location, share: 1e-9 }, BUNDLED);
    await check.stop();
    expect(await check.done).toBeUndefined();
  });

  test('that cannot do its work says so', async () => {
    const relay = await lived();
    const check = new AuditThread({ type: 'rows', location: join(relay.folder, 'nothing here'), share: 1 }, BUNDLED);
    await expect(check.done).rejects.toMatchObject({ code: 'LEVEL_DATABASE_NOT_OPEN' });
    await check.stop();
  });
});
