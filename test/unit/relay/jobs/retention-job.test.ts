/**
 * A log that is kept for so many days: checkpoints, pruning, archives, and what everything that reads the log makes of
 * it.
 */
import { readFile, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { DAY_MS } from '../../../../src/protocol/limits.ts';
import { type LogEntry, eventTimeMs } from '../../../../src/relay/core/event.ts';
import { targetRow } from '../../../../src/relay/core/decision.ts';
import { PrunedAway, lsnAt, stateAt } from '../../../../src/relay/replay/at.ts';
import { chosenEvents } from '../../../../src/relay/replay/records.ts';
import { verify } from '../../../../src/relay/replay/verify.ts';
import { verifyArchive } from '../../../../src/relay/replay/verify-tree.ts';
import { openScratch } from '../../../../src/relay/store/scratch.ts';
import { PREFIX, checkpointKey, checkpointPartKey, prefixRange, tileKey } from '../../../../src/relay/store/keys.ts';
import type { Level } from '../../../../src/relay/store/level.ts';
import { openArchive, openBackup, openOffline } from '../../../../src/relay/replay/offline.ts';
import { StoreRefused } from '../../../../src/relay/store/refused.ts';
import type { RelayStore } from '../../../../src/relay/store/relay-store.ts';
import { rebuilt, resultOf, verified } from '../../../support/audits.ts';
import { pushOf, rotateEpochOf } from '../../../support/commands.ts';
import { collected } from '../../../support/collected.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { alice, bob } from '../../../support/hosts.ts';
import { liveALife } from '../../../support/life.ts';
import {
  type KeptLogOptions,
  type ToldOfLog,
  archived,
  archivesOf,
  keepLog,
  logPlanOf,
} from '../../../support/log-keeping.ts';
import { ManualTimers } from '../../../support/manual-time.ts';
import { withRawLevel } from '../../../support/raw-level.ts';
import { anyEpoch, backUp, restored } from '../../../support/restores.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { type TestRelay, enrolledTestRelay, openTestRelay } from '../../../support/test-relay.ts';
import { IS_THOROUGH } from '../../../support/thorough.ts';
import { TurnWork } from '../../../support/turn-work.ts';

/** A relay that lived for months. */
async function lived(): Promise<TestRelay> {
  const relay = await openTestRelay();
  await liveALife(relay.engine, relay.clock);
  return relay;
}

/** Another day, of which all but the last item is of an epoch that ended. */
async function anotherDay(relay: TestRelay, epoch: number): Promise<void> {
  relay.clock.move(DAY_MS);
  await relay.pushOne(pushOf(alice, `day ${epoch}`, [[bob, 'x']]));
  await relay.engine.rotateEpoch(rotateEpochOf(epochNumbered(epoch), { nowMs: relay.clock.nowMs }));
  await relay.pushOne(pushOf(alice, `night ${epoch}`, [[bob, 'y']]));
  await relay.engine.heartbeat(relay.clock.nowMs);
}

/** One that lived and was pruned, with two checkpoints, closed. */
async function pruned(options: KeptLogOptions = {}): Promise<{ relay: TestRelay; told: ToldOfLog }> {
  const relay = await lived();
  await keepLog(relay, options);
  await anotherDay(relay, 70);
  const told = await keepLog(relay, options);
  await anotherDay(relay, 71);
  await relay.close();
  return { relay, told };
}

async function verifiedAfter(relay: TestRelay): Promise<Awaited<ReturnType<typeof verified>>> {
  await relay.close();
  const report = await verified(relay.folder);
  await relay.open();
  return report;
}

describe('a log that is kept for a day', () => {
  test('is pruned as far as it is older, once a checkpoint stands for it', async () => {
    const relay = await lived();
    const { lastLsn } = relay.store;
    const told = await keepLog(relay);
    expect(told).toMatchObject({ checkpoints: ['CheckpointTaken'], failures: [] });
    expect(relay.store.firstLsn).toBeGreaterThan(10);
    expect(told.pruned).toEqual([relay.store.firstLsn - 1]);
    expect(relay.store.lastLsn).toBe(lastLsn + 1);
    const report = await verifiedAfter(relay);
    expect(report.findings).toEqual([]);
    expect(report).toMatchObject({ prunedThrough: told.pruned[0], replayedFrom: lastLsn + 1, checkpoints: 1 });
    expect(relay.notices).toEqual([]);
    relay.clock.move(DAY_MS);
    await relay.engine.rotateEpoch(rotateEpochOf(epochNumbered(70), { nowMs: relay.clock.nowMs }));
    await relay.pushOne(pushOf(alice, 'after', [[bob, 'x']]));
    const second = await keepLog(relay);
    expect(second).toMatchObject({ checkpoints: ['CheckpointTaken'], pruned: [lastLsn], failures: [] });
    expect((await relay.engine.logRetention.checkpoints()).whole).toHaveLength(2);
    expect((await verifiedAfter(relay)).findings).toEqual([]);
    await relay.close();
    await rebuilt(relay.folder);
    expect((await verified(relay.folder)).findings).toEqual([]);
  });

  test('tells what was removed last, by its times', async () => {
    const folder = await temporaryFolder();
    const relay = await lived();
    const { plan, told } = logPlanOf(relay, { archiveFolder: folder });
    const from = relay.store.firstLsn;
    const entries = await collected(relay.store.read(from));
    expect(plan.lastRemoval).toBeUndefined();
    await plan.run();
    await plan.stop();
    const [through = 0] = told.pruned;
    const timeOf = (lsn: number): number => eventTimeMs((entries[lsn - from] as LogEntry).event);
    expect(plan.lastRemoval).toEqual({
      atMs: relay.clock.nowMs,
      records: through - from + 1,
      fromMs: timeOf(from),
      throughMs: timeOf(through),
      archive: told.archives[0],
    });
    expect(timeOf(from)).toBeLessThan(timeOf(through));
    await relay.close();
  });

  test('is left alone while it is younger, or while the clock is in doubt', async () => {
    const relay = await enrolledTestRelay(alice, bob);
    await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
    await relay.engine.rotateEpoch(rotateEpochOf(epochNumbered(70), { nowMs: relay.clock.nowMs }));
    const { lastLsn } = relay.store;
    expect(await keepLog(relay, { isClockTrusted: () => false })).toEqual(NOTHING);
    expect(relay.store.lastLsn).toBe(lastLsn);
    relay.clock.move(DAY_MS - 1);
    expect(await keepLog(relay)).toEqual({ ...NOTHING, checkpoints: ['CheckpointTaken'] });
    expect(await keepLog(relay)).toEqual(NOTHING);
    relay.clock.move(1);
    // The checkpoint is young still: it stands for what goes, and the next one is not due.
    expect(await keepLog(relay)).toEqual({ ...NOTHING, pruned: [lastLsn - 1] });
  });

  test('keeps what came after a young record, and nothing for a record of a clock that was ahead', async () => {
    const relay = await enrolledTestRelay(alice, bob);
    relay.clock.move(100 * DAY_MS);
    await relay.pushOne(pushOf(alice, 'ahead', [[bob, 'x']]));
    relay.clock.move(-100 * DAY_MS);
    await relay.pushOne(pushOf(alice, 'old', [[bob, 'x']]));
    const oldLsn = relay.store.lastLsn;
    relay.clock.move(DAY_MS);
    await relay.pushOne(pushOf(alice, 'young', [[bob, 'x']]));
    relay.clock.move(-DAY_MS / 2);
    await relay.pushOne(pushOf(alice, 'older after it', [[bob, 'x']]));
    relay.clock.move(DAY_MS / 2);
    await relay.engine.rotateEpoch(rotateEpochOf(epochNumbered(70), { nowMs: relay.clock.nowMs }));
    expect(await keepLog(relay)).toMatchObject({ pruned: [oldLsn], failures: [] });
  });

  test('leaves no checkpoint where there is no room for one, and tells of it', async () => {
    const relay = await lived();
    expect(await keepLog(relay, { hasRoom: () => false })).toEqual({ ...NOTHING, checkpoints: ['no room'] });
    const offline = await offlineOf(relay);
    expect(await offline.level.keys(prefixRange(PREFIX.checkpointPart)).all()).toEqual([]);
    await offline.close();
  });

  test('begins soon after the start, asks every hour, and ends with the relay', async () => {
    const relay = await lived();
    const timers = new ManualTimers();
    const { plan, told } = logPlanOf(relay, { timers });
    timers.pass(9_999);
    expect(told).toEqual(NOTHING);
    timers.pass(1);
    await plan.run();
    expect(told.pruned).toHaveLength(1);
    relay.clock.move(DAY_MS);
    timers.pass(3_600_000);
    await plan.run();
    expect(told.checkpoints).toHaveLength(2);
    await plan.stop();
    expect(timers.underWay(3_600_000)).toBe(0);
  });

  test('holds nobody up while it is pruned', async () => {
    // A stretch is 250 pieces of work.
    const work = new TurnWork(0.02);
    onTestFinished(() => work.stop());
    const relay = await openTestRelay({ monotonicMs: work.monotonicMs, hosts: [alice, bob] });
    countLogKeeping(relay.store, work);
    const batches = IS_THOROUGH ? 20 : 12;
    for (let day = 0; day < 4; day++) {
      for (let at = 0; at < batches; at++) {
        await relay.push(
          ...Array.from({ length: 100 }, (_no, id) => pushOf(alice, `${day} ${at} ${id}`, [[bob, 'x']])),
        );
        await relay.ack(bob, relay.engine.head(bob.key).headSeq);
      }
      relay.clock.move(DAY_MS);
      await keepLog(relay);
    }
    const mostInOneTurn: Record<LogWork, number> = { read: 600, kept: 600, 'read back': 3500, pruned: 2000 };
    for (const [kind, most] of Object.entries(mostInOneTurn)) {
      expect(work.all(kind)).toBeGreaterThan(batches * 300);
      expect(work.mostInOneTurn(kind)).toBeLessThanOrEqual(most);
    }
  });

  test('has few records, however long it goes on', async () => {
    const relay = await enrolledTestRelay(alice, bob);
    const kept: number[] = [];
    for (let day = 0; day < 10; day++) {
      for (let at = 0; at < 100; at++) await relay.push(pushOf(alice, `${day} ${at}`, [[bob, 'x']]));
      await relay.ack(bob, relay.engine.head(bob.key).headSeq);
      relay.clock.move(DAY_MS);
      await keepLog(relay);
      kept.push(relay.store.lastLsn - relay.store.firstLsn + 1);
    }
    // Two days, what the hash tree keeps of its last tile, and a checkpoint a day.
    for (const records of kept) expect(records).toBeLessThan(2 * 103 + 256);
    expect(relay.store.lastLsn).toBeGreaterThan(10 * 100);
    const offline = await offlineOf(relay);
    expect(await offline.level.keys(prefixRange(PREFIX.log)).all()).toHaveLength(kept.at(-1) ?? 0);
    expect(await offline.level.keys(prefixRange(PREFIX.checkpoint)).all()).toHaveLength(2);
    await offline.close();
  });
});

/** Records looked at and pruned, rows written into a checkpoint and read back out of it. */
type LogWork = 'read' | 'pruned' | 'kept' | 'read back';

/** From now on the retention of the log tells `work` what it does. */
function countLogKeeping(store: RelayStore, work: TurnWork): void {
  const add = (kind: LogWork, count: number): void => work.add(kind, count);
  const counted = <T>(kind: LogWork, source: AsyncIterable<T>, countOf: (taken: T) => number): AsyncGenerator<T> =>
    work.counted(kind, source, countOf);
  const read = store.read.bind(store);
  store.read = (fromLsn) => counted('read', read(fromLsn), () => 1);
  const pairs = store.checkpoints.pairs.bind(store.checkpoints);
  store.checkpoints.pairs = (checkpoint) => counted('read back', pairs(checkpoint), ({ length }) => length);
  const snapshot = store.snapshot.bind(store);
  store.snapshot = () => {
    const taken = snapshot();
    const rows = taken.rows.bind(taken);
    taken.rows = () => counted('kept', rows(), ({ length }) => length);
    return taken;
  };
  const append = store.append.bind(store);
  store.append = (batch) => {
    if (batch.pruned) add('pruned', batch.pruned.throughLsn - store.firstLsn + 1);
    return append(batch);
  };
}

const NOTHING: ToldOfLog = { checkpoints: [], pruned: [], archives: [], failures: [] };

/** The closed relay's store. */
async function offlineOf(relay: TestRelay): Promise<Awaited<ReturnType<typeof openOffline>>> {
  await relay.close();
  return openOffline(relay.folder);
}

/** Returns what verify finds after `work`. */
async function codesAfter(work: (level: Level, relay: TestRelay) => Promise<unknown>): Promise<string[]> {
  const { relay } = await pruned();
  await withRawLevel(relay.folder, (level) => work(level, relay));
  return (await verified(relay.folder)).findings.map(({ code }) => code);
}

async function checkpointLsns(level: Level): Promise<number[]> {
  const keys = await level.keys(prefixRange(PREFIX.checkpoint)).all();
  return keys.map((key) => Number(key.readBigUInt64BE(1)));
}

describe('an audit of a pruned log', () => {
  test('finds a damaged checkpoint, and begins with the next one', async () => {
    const found = await codesAfter(async (level) => {
      const [first = 0] = await checkpointLsns(level);
      await flip(level, checkpointPartKey(first, 0));
    });
    expect(found).toEqual(['CHECKPOINT_DAMAGED']);
  });

  test('finds that nothing is left to begin with', async () => {
    const found = await codesAfter(async (level) => {
      for (const lsn of await checkpointLsns(level)) await level.del(checkpointKey(lsn));
    });
    expect(found).toEqual(['CHECKPOINT_MISSING']);
  });

  test('finds damage to the mark, to a pruned hash and to a checkpoint of other rows', async () => {
    expect(await codesAfter((level) => flip(level, Buffer.of(PREFIX.pruned)))).toEqual(['MARK_DIFFERS']);
    expect(await codesAfter((level) => flip(level, tileKey(1, 0, 0)))).toEqual(['TREE_MISSING']);
    const moved = await codesAfter(async (level) => {
      const [, second = 0] = await checkpointLsns(level);
      const value = await level.get(checkpointKey(second));
      await level.put(checkpointKey(second - 1), value as Buffer);
    });
    expect(moved).toEqual(['CHECKPOINT_DAMAGED']);
  });

  test('a rebuild leaves damaged checkpoints out, and refuses when nothing is left to begin with', async () => {
    const { relay } = await pruned();
    const lsns = await withRawLevel(relay.folder, checkpointLsns);
    await withRawLevel(relay.folder, (level) => flip(level, checkpointPartKey(lsns[0] ?? 0, 0)));
    await rebuilt(relay.folder);
    expect((await verified(relay.folder)).findings).toEqual([]);
    expect(await withRawLevel(relay.folder, checkpointLsns)).toEqual(lsns.slice(1));
    await withRawLevel(relay.folder, (level) => level.del(checkpointKey(lsns[1] ?? 0)));
    await expect(rebuilt(relay.folder)).rejects.toThrow(StoreRefused);
  });

  test('a state is shown from the oldest checkpoint on, and no earlier one', async () => {
    const { relay } = await pruned();
    const offline = await openOffline(relay.folder);
    const [first = 0, second = 0] = (await offline.store.checkpoints.list()).whole.map(({ throughLsn }) => throughLsn);
    const heads: number[] = [];
    for (const lsn of [first, second - 1, second, offline.store.lastLsn]) {
      const scratch = await openScratch();
      const state = await resultOf(stateAt(offline, lsn, scratch));
      heads.push(targetRow(state.rows, bob.key).headSeq);
      await scratch.close();
    }
    expect(heads).toEqual(heads.toSorted((a, b) => a - b));
    expect(heads.at(-1)).toBe(offline.store.get('target', bob.key)?.headSeq);
    const scratch = await openScratch();
    await expect(resultOf(stateAt(offline, first - 1, scratch))).rejects.toThrow(PrunedAway);
    await scratch.close();
    expect(await resultOf(lsnAt(offline, offline.store.pruned.atMs - 1))).toBe(0);
    const { throughLsn, atMs } = offline.store.pruned;
    expect(await resultOf(lsnAt(offline, atMs))).toBeGreaterThanOrEqual(throughLsn);
    await offline.close();
  });

  test('the store opens; a position from before is no proof of its history', async () => {
    const relay = await lived();
    await relay.close();
    const position = await readFile(join(relay.folder, 'position'));
    await relay.open();
    await keepLog(relay);
    await relay.reopen();
    expect(relay.notices).toEqual([]);
    await anotherDay(relay, 70);
    await keepLog(relay);
    await relay.close();
    await writeFile(join(relay.folder, 'position'), position);
    expect((await verified(relay.folder)).findings.map(({ code }) => code)).toEqual(['POSITION_DIFFERS']);
    await relay.open();
    expect(relay.notices).toEqual([expect.stringContaining('the log was pruned through')]);
  });
});

describe('a backup of a pruned store', () => {
  test('verifies, and is restored into the store that went on from it and pruned its end', async () => {
    const relay = await lived();
    await keepLog(relay);
    const file = join(await temporaryFolder(), 'backup');
    const { header } = await backUp(relay, file);
    for (const epoch of [70, 71, 72]) {
      await anotherDay(relay, epoch);
      await keepLog(relay);
    }
    expect(relay.store.firstLsn).toBeGreaterThan(header.lsn);
    await relay.close();
    const offline = await openBackup(file);
    expect((await resultOf(verify(offline))).findings).toEqual([]);
    await offline.close();
    const report = await restored(file, relay.folder, relay.clock.nowMs, { newEpoch: anyEpoch });
    expect(report.replaced).toMatchObject({ continuesBackup: true });
    expect((await verified(relay.folder)).findings).toEqual([]);
  });
});

describe('archives', () => {
  test('hold what was pruned, each once, and can be looked into', async () => {
    const archiveFolder = await temporaryFolder();
    const { relay, told } = await pruned({ archiveFolder });
    const offline = await openOffline(relay.folder);
    const { throughLsn } = offline.store.pruned;
    await offline.close();
    const entries = await archived(archiveFolder);
    expect(entries.map(({ lsn }) => lsn)).toEqual(Array.from({ length: throughLsn }, (_no, at) => at + 1));
    expect(await readdir(archiveFolder)).toEqual(expect.arrayContaining(told.archives));
    const path = join(archiveFolder, told.archives[0] ?? '');
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    const archive = await openArchive(path);
    const report = await resultOf(verifyArchive(archive));
    expect(report).toMatchObject({ findings: [], lastLsn: throughLsn, hashed: throughLsn - report.firstLsn + 1 });
    const shown = await collected(chosenEvents(archive, { types: new Set(['EpochRotated']) }));
    expect(shown.length).toBeGreaterThan(0);
    await archive.close();
  });

  test('that are there already are not written again, and others of the name stay as they are', async () => {
    const archiveFolder = await temporaryFolder();
    const relay = await lived();
    const { plan, told } = logPlanOf(relay, { archiveFolder });
    const { logRetention } = relay.engine;
    const prune = logRetention.prune.bind(logRetention);
    logRetention.prune = () => Promise.reject(new Error('it ended here'));
    await plan.run();
    expect(told.failures).toHaveLength(1);
    logRetention.prune = prune;
    const [name = ''] = await readdir(archiveFolder);
    const before = await readFile(join(archiveFolder, name));
    await plan.run();
    expect(told.archives).toEqual([name]);
    expect(await readFile(join(archiveFolder, name))).toEqual(before);
    await plan.stop();
    const other = await lived();
    await writeFile(join(archiveFolder, name), before.subarray(0, -1));
    expect((await keepLog(other, { archiveFolder })).archives).toEqual([name.replace('.archive', '-2.archive')]);
    expect(await readFile(join(archiveFolder, name))).toEqual(before.subarray(0, -1));
  });

  test('that cannot be written leave every record where it is', async () => {
    const relay = await lived();
    const folder = await temporaryFolder();
    const told = await keepLog(relay, { archiveFolder: join(folder, 'nowhere') });
    expect(told.failures).toHaveLength(1);
    expect(relay.store.firstLsn).toBe(1);
  });

  test('hold nothing back while they are written: the store may give space back', async () => {
    const relay = await lived();
    const folder = await temporaryFolder();
    const written = archivesOf(relay, folder).archive(1, relay.store.lastLsn, new AbortController().signal);
    expect(relay.store.hasSnapshots).toBe(false);
    const name = await written;
    expect(await readdir(folder)).toEqual([name]);
  });

  test('that are altered or cut short are refused', async () => {
    const archiveFolder = await temporaryFolder();
    const { told } = await pruned({ archiveFolder });
    const path = join(archiveFolder, told.archives[0] ?? '');
    const bytes = await readFile(path);
    for (const altered of [bytes.subarray(0, -1), flipped(bytes, bytes.length >> 1), Buffer.from('poste-backup 1\n')]) {
      await writeFile(path, altered);
      await expect(openArchive(path)).rejects.toThrow(StoreRefused);
    }
  });
});

function flipped(bytes: Buffer, at: number): Buffer {
  const copy = Buffer.from(bytes);
  copy.writeUInt8((copy.at(at) as number) ^ 4, at);
  return copy;
}

async function flip(level: Level, key: Buffer): Promise<void> {
  const value = (await level.get(key)) as Buffer;
  await level.put(key, flipped(value, value.length - 1));
}
