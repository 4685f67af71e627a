/** A store whose log lies in runs, as all that reads, copies, cuts and verifies it meets it. */
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Pair } from '../../../../src/lib/pair-block.ts';
import { DAY_MS } from '../../../../src/protocol/limits.ts';
import type { RelayEvent } from '../../../../src/relay/core/event.ts';
import { LOG_FORMAT } from '../../../../src/relay/core/log-format.ts';
import { reduce } from '../../../../src/relay/core/reduce.ts';
import type { QueueRow } from '../../../../src/relay/core/rows.ts';
import { OverlaidRows } from '../../../../src/relay/engine/open-batch.ts';
import { writeArchive } from '../../../../src/relay/image/archive.ts';
import { openOffline } from '../../../../src/relay/replay/offline.ts';
import { imageNow, readSnapshot, writeSnapshot } from '../../../../src/relay/shared-log/snapshot.ts';
import {
  BatchEffects,
  type DurableLog,
  type ViewBatch,
  type ViewWrites,
} from '../../../../src/relay/store/durable-log.ts';
import { decodeRowRun } from '../../../../src/relay/store/item-run.ts';
import { PREFIX, SCHEMA_KEY, logKey, lsnOf, prefixRange, rowKeyBytes } from '../../../../src/relay/store/keys.ts';
import { type Level, levelAt } from '../../../../src/relay/store/level.ts';
import { LogTree } from '../../../../src/relay/store/log-tree.ts';
import { NOT_PRUNED, SCHEMA_VERSION, readPruned, schemaMark } from '../../../../src/relay/store/marks.ts';
import { isRun, recordsIn } from '../../../../src/relay/store/record-run.ts';
import { encodeRow } from '../../../../src/relay/store/row-codec.ts';
import { RelayStore } from '../../../../src/relay/store/relay-store.ts';
import { rebuilt, verified } from '../../../support/audits.ts';
import { collected } from '../../../support/collected.ts';
import { pushOf, rotateEpochOf } from '../../../support/commands.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { accepted, enrolled, initialised } from '../../../support/events.ts';
import { fixtureStore } from '../../../support/fixture-stores.ts';
import { alice, bob, carol } from '../../../support/hosts.ts';
import { archived, keepLog } from '../../../support/log-keeping.ts';
import { naiveTrees, shownTree } from '../../../support/log-trees.ts';
import { unpackRecords, withRawLevel } from '../../../support/raw-level.ts';
import { anyEpoch, backUp, restored } from '../../../support/restores.ts';
import { SharedTestRelay } from '../../../support/shared-test-relay.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { TestClock } from '../../../support/test-clock.ts';
import { type TestRelay, enrolledTestRelay, openTestRelay } from '../../../support/test-relay.ts';

const never = new AbortController().signal;

/** Pushes so many items that come together. */
async function pushedAtOnce(relay: TestRelay, name: string, items: number): Promise<void> {
  const { nowMs } = relay.clock;
  const some = Array.from({ length: items }, (_none, at) => pushOf(alice, `${name}-${at}`, [[bob, 'x']], { nowMs }));
  await relay.push(...some);
}

async function runsIn(level: Level): Promise<Pair[]> {
  return (await level.iterator(prefixRange(PREFIX.log)).all()).filter(([, value]) => isRun(value));
}

/** A relay with batches of many items and of one, and two epochs; its log has more than one full tile. */
async function livedInBatches(): Promise<TestRelay> {
  const relay = await enrolledTestRelay(alice, bob);
  await pushedAtOnce(relay, 'first', 300);
  await relay.pushOne(pushOf(alice, 'alone', [[bob, 'x']]));
  await pushedAtOnce(relay, 'second', 40);
  await relay.engine.rotateEpoch(rotateEpochOf(epochNumbered(50), { nowMs: relay.clock.nowMs }));
  await pushedAtOnce(relay, 'third', 20);
  return relay;
}

test('the records of a batch lie in runs of at most 256, and a lone one as it is', async () => {
  const relay = await livedInBatches();
  const lengths = await relay.atRest(async (level) =>
    (await level.iterator(prefixRange(PREFIX.log)).all()).map((pair) => recordsIn(pair).length),
  );
  expect(lengths.reduce((sum, length) => sum + length)).toBe(relay.store.lastLsn);
  expect(lengths.filter((length) => length > 2).toSorted((a, b) => a - b)).toEqual([20, 40, 44, 256]);
  expect(lengths.filter((length) => length === 1).length).toBeGreaterThan(2);
});

test('it reads as one of lone records: opened, verified, archived to the same bytes, with the same trees', async () => {
  const relay = await livedInBatches();
  await relay.close();
  const alone = join(await temporaryFolder(), 'alone');
  await cp(relay.folder, alone, { recursive: true });
  await withRawLevel(alone, unpackRecords);
  const [packed, plain] = [relay.folder, alone].map(async (folder) => {
    const { findings, ...report } = await verified(folder);
    expect(findings).toEqual([]);
    const offline = await openOffline(folder);
    const stamp = { relay_pubkey: alice.key, created_at: 1, version: '0' };
    const range = { firstLsn: 100, lastLsn: 300 };
    const archive = Buffer.concat(await collected(writeArchive(offline.level, range, stamp)));
    await offline.close();
    const { payloads, rows, records, rootHash } = report;
    return { payloads, rows, records, rootHash, archive };
  });
  expect(await packed).toEqual(await plain);
  const reopened = await openTestRelay({ folder: relay.folder });
  expect(reopened.notices).toEqual([]);
  const tree = (await naiveTrees(reopened.store)).at(-1);
  expect(shownTree(reopened.store)).toMatchObject({ size: tree?.leaves.length, firstLsn: tree?.firstLsn });
});

test("the tree's catch-up begins inside of a run", async () => {
  const relay = await enrolledTestRelay(alice, bob);
  await pushedAtOnce(relay, 'one', 250);
  await pushedAtOnce(relay, 'two', 250);
  const before = shownTree(relay.store);
  const proof = await relay.engine.log.item({ itemId: 'two-100' as never, senders: [alice.key], targets: [bob.key] });
  const runs = await relay.atRest(runsIn);
  // Leaf 256, with which the second tile begins, is of record 256.
  expect(
    runs.some((pair) =>
      recordsIn(pair)
        .slice(1)
        .some(([lsn]) => lsn === 256),
    ),
  ).toBe(true);
  await relay.open();
  expect(shownTree(relay.store)).toEqual(before);
  expect(await relay.engine.log.item({ itemId: 'two-100' as never, senders: [alice.key], targets: [bob.key] })).toEqual(
    proof,
  );
});

test('a record at any LSN, and the log backwards, are those that were written', async () => {
  const relay = await livedInBatches();
  const { store } = relay;
  const entries = await collected(store.read(1));
  expect(entries).toHaveLength(store.lastLsn);
  for (const entry of entries) expect(await store.entry(entry.lsn)).toEqual(entry);
  expect((await collected(store.readBack(Infinity))).flat()).toEqual(entries.toReversed());
  for (const run of await collected(store.readBack(Infinity))) expect(run.length).toBeLessThanOrEqual(100 + 256);
});

describe('pruning', () => {
  test('at any cut begins the log with a run, and keeps at most 255 records longer', async () => {
    const relay = await livedInBatches();
    await keepLog(relay, { days: 1 });
    await relay.engine.rotateEpoch(rotateEpochOf(epochNumbered(51), { nowMs: relay.clock.nowMs }));
    const { store, engine } = relay;
    const { level } = store as unknown as { level: Level };
    const ends = (await level.keys(prefixRange(PREFIX.log)).all()).map(lsnOf);
    for (let cut = 1; cut < store.tree.prunableThrough; cut += 23) {
      const end = ends.findLast((lsn) => lsn <= cut) ?? 0;
      expect(await engine.logRetention.prune(cut, never)).toBe(true);
      expect([cut, store.firstLsn]).toEqual([cut, end + 1]);
      expect(cut - end).toBeLessThan(256);
      expect((await readPruned(level)).throughLsn).toBe(end);
      const [first] = await level.iterator({ ...prefixRange(PREFIX.log), limit: 1 }).all();
      expect(first && recordsIn(first)[0]?.[0]).toBe(end + 1);
      expect((await collected(store.read(1)))[0]?.lsn).toBe(end + 1);
      expect((await collected(store.readBack(Infinity))).flat().at(-1)?.lsn).toBe(end + 1);
    }
    await relay.close();
    expect((await verified(relay.folder)).findings).toEqual([]);
  });

  test('of a day that ends within a run archives and removes what ends before it', async () => {
    const folder = await temporaryFolder();
    const relay = await livedInBatches();
    const entries = await collected(relay.store.read(1));
    for (const day of [1, 2]) {
      relay.clock.move(2 * DAY_MS);
      await relay.engine.rotateEpoch(rotateEpochOf(epochNumbered(60 + day), { nowMs: relay.clock.nowMs }));
      const told = await keepLog(relay, { archiveFolder: folder });
      expect(told.failures).toEqual([]);
    }
    const kept = await archived(folder);
    expect(kept.length).toBe(relay.store.firstLsn - 1);
    expect(kept.slice(0, 200)).toEqual(entries.slice(0, 200));
    await relay.close();
    expect((await verified(relay.folder)).findings).toEqual([]);
  });

  test('into a run is refused by the store', async () => {
    const relay = await livedInBatches();
    const inRun = (await collected(relay.store.read(1))).findIndex(({ event }) => event.type === 'ItemAccepted') + 10;
    const pruned = { throughLsn: inRun, atMs: relay.clock.nowMs };
    const append = relay.store.append({ entries: [], changes: [], payloads: [], pruned });
    await expect(append).rejects.toThrow('records are pruned to the end of a run');
  });
});

/** What a verification finds after one bit of the longest run fell over, at that byte of it. */
async function foundAfter(at: (run: Pair) => number): Promise<{ codes: string[]; first: string; firstLsn: number }> {
  const relay = await livedInBatches();
  const firstLsn = await relay.atRest(async (level) => {
    const [run] = (await runsIn(level)).toSorted(([, a], [, b]) => b.length - a.length);
    const [key, value] = run!;
    const damaged = Buffer.from(value);
    damaged[at(run!)]! ^= 4;
    await level.put(key, damaged);
    return recordsIn([key, value])[0]?.[0] ?? 0;
  });
  const { findings } = await verified(relay.folder);
  return { codes: findings.map(({ code }) => code), first: findings[0]?.message ?? '', firstLsn };
}

describe('damage', () => {
  test('of the head is one finding, which names all records of the run', async () => {
    for (const place of [2, 6, 9]) {
      const { codes, first, firstLsn } = await foundAfter(() => place);
      expect(codes).toEqual(['RECORD_DAMAGED']);
      expect(first).toContain(
        `log records ${firstLsn} to ${firstLsn + 255} cannot be read (the run of log records that ends with`,
      );
    }
  });

  test('of a record is that record, and the last one of its run as well', async () => {
    const { codes, first, firstLsn } = await foundAfter(([, value]) => value.length - 1);
    expect(codes).toEqual(['RECORD_DAMAGED']);
    expect(first).toContain(`log record ${firstLsn + 255} does not match its checksum`);
  });

  test('of the newest records refuses the store at its start', async () => {
    const relay = await livedInBatches();
    await relay.atRest(async (level) => {
      const [key, value] = (await runsIn(level)).at(-1)!;
      const damaged = Buffer.from(value);
      damaged[8]! ^= 1;
      await level.put(key, damaged);
    });
    await expect(openTestRelay({ folder: relay.folder })).rejects.toThrow('the run of log records that ends with');
  });
});

describe('copies', () => {
  test('a rebuild copies the runs byte for byte', async () => {
    const relay = await livedInBatches();
    await relay.close();
    const stored = (): Promise<Pair[]> =>
      withRawLevel(relay.folder, (level) => level.iterator(prefixRange(PREFIX.log)).all());
    const before = await stored();
    await rebuilt(relay.folder);
    expect(await stored()).toEqual(before);
    expect((await verified(relay.folder)).findings).toEqual([]);
  });

  test('a backup holds what is stored, with its schema, and a restore goes on from it', async () => {
    const relay = await livedInBatches();
    const { lastLsn } = relay.store;
    const file = join(await temporaryFolder(), 'backup');
    await backUp(relay, file);
    await pushedAtOnce(relay, 'later', 5);
    await relay.close();
    const report = await restored(file, relay.folder, relay.clock.nowMs);
    expect(report).toMatchObject({ backup: { lsn: lastLsn, schema_version: SCHEMA_VERSION } });
    expect(report.replaced).toMatchObject({ continuesBackup: true });
    const again = await openTestRelay({ folder: relay.folder, newEpoch: anyEpoch });
    expect(again.notices).toEqual([]);
    await again.close();
    expect((await withRawLevel(relay.folder, runsIn)).length).toBeGreaterThan(3);
    expect((await verified(relay.folder)).findings).toEqual([]);
  });
});

test('a store of schema 2 is opened, grown, archived, pruned and rebuilt, with old records beside runs', async () => {
  const folder = await temporaryFolder();
  const old = await fixtureStore(2);
  const relay = await openTestRelay({ folder: old.folder, clock: new TestClock(old.header.created_at) });
  const entries = await collected(relay.store.read(1));
  await relay.enrolAll(alice, bob);
  await pushedAtOnce(relay, 'new', 30);
  expect((await collected(relay.store.read(1))).slice(0, entries.length)).toEqual(entries);
  const anotherDay = async (day: number): Promise<void> => {
    relay.clock.move(DAY_MS);
    await relay.engine.rotateEpoch(rotateEpochOf(epochNumbered(70 + day), { nowMs: relay.clock.nowMs }));
    await pushedAtOnce(relay, `day-${day}`, 4);
  };
  await anotherDay(1);
  await relay.close();
  const { pairs, runs } = await withRawLevel(old.folder, async (level) => ({
    pairs: (await level.keys(prefixRange(PREFIX.log)).all()).length,
    runs: (await runsIn(level)).length,
  }));
  expect([pairs > entries.length, runs]).toEqual([true, 2]);
  expect((await verified(old.folder)).findings).toEqual([]);
  await rebuilt(old.folder);
  await relay.open();
  expect((await keepLog(relay, { archiveFolder: folder })).failures).toEqual([]);
  await anotherDay(2);
  expect((await keepLog(relay, { archiveFolder: folder })).failures).toEqual([]);
  expect(relay.store.firstLsn).toBeGreaterThan(entries.length);
  expect((await archived(folder)).slice(0, entries.length)).toEqual(entries);
  await relay.close();
  expect((await verified(old.folder)).findings).toEqual([]);
});

/** Writes every batch at once, and keeps its effects. */
class NotedLog implements DurableLog {
  readonly isShared = true;
  readonly format = LOG_FORMAT;
  readonly effects: Buffer[] = [];

  async append({ effects }: ViewBatch, view: ViewWrites, written: () => void): Promise<void> {
    this.effects.push(effects?.taken(Buffer.alloc(0)).effects ?? Buffer.alloc(0));
    await view.write({ sync: false });
    written();
  }

  async close(): Promise<void> {}
}

interface OlderLog {
  store: RelayStore;
  level: Level;
  log: NotedLog;
  add: (...events: RelayEvent[]) => Promise<void>;
}

/** The view of a log that an older software began. */
async function olderLog(): Promise<OlderLog> {
  const level = levelAt(join(await temporaryFolder(), 'level'));
  await level.open();
  const log = new NotedLog();
  const store = new RelayStore(level, log, { lastLsn: 0, pruned: NOT_PRUNED }, await LogTree.open(level, 0));
  onTestFinished(() => store.close());
  const add = async (...events: RelayEvent[]): Promise<void> => {
    const rows = new OverlaidRows(store);
    const entries = events.map((event, at) => ({ lsn: store.lastLsn + 1 + at, event }));
    for (const entry of entries) for (const change of reduce(entry, rows)) rows.changes.set(change);
    await store.append({ entries, changes: rows.changes.changes(), payloads: [] });
  };
  await add({ ...initialised, schemaVersion: 2 });
  return { store, level, log, add };
}

async function declared(level: Level): Promise<number | undefined> {
  return (await level.get(SCHEMA_KEY))?.readUInt32BE();
}

describe('a view of a shared log', () => {
  const epochBegins = { type: 'EpochRotated', epoch: epochNumbered(9), reason: 'reset', atMs: 1 } as const;

  test('attack 12: declares schema 3 with its first run and in that batch, and from then on', async () => {
    const { level, add } = await olderLog();
    await add(enrolled(alice));
    expect([await declared(level), (await runsIn(level)).length]).toEqual([2, 0]);
    const puts: string[] = [];
    const batch = level.batch.bind(level);
    level.batch = (() => {
      const made = batch();
      const put = made.put.bind(made);
      made.put = (key: Buffer, value: Buffer) => {
        if (key.equals(SCHEMA_KEY)) puts.push(`schema ${value.readUInt32BE()}`);
        else if (key[0] === PREFIX.log) puts.push(isRun(value) ? 'run' : 'record');
        return put(key, value);
      };
      return made;
    }) as never;
    await add(enrolled(bob), enrolled(carol));
    expect(puts).toEqual(['schema 3', 'run']);
    expect([await declared(level), (await runsIn(level)).length]).toEqual([3, 1]);
    await add(epochBegins);
    await add(enrolled(alice), enrolled(bob));
    expect(await declared(level)).toBe(3);
  });

  test('attack 12: declares it with its first item too, a run of one, and does what the log says', async () => {
    const { store, level, add } = await olderLog();
    await add(enrolled(alice));
    await add(enrolled(bob));
    expect(await declared(level)).toBe(2);
    const event = accepted(alice, 'm1', [[bob, 1, 'x']]);
    const changes = reduce({ lsn: store.lastLsn + 1, event }, store);
    const told = vi.spyOn(BatchEffects.prototype, 'put');
    const made = vi.spyOn(level, 'batch');
    onTestFinished(() => void vi.restoreAllMocks());
    const payloads = [{ targetPubkey: bob.key, seq: 1, wire: Buffer.from('x') }];
    await store.append({ entries: [{ lsn: store.lastLsn + 1, event }], changes, payloads });
    expect([await declared(level), made.mock.calls.length]).toEqual([3, 1]);
    const [[key, value] = []] = await level.iterator(prefixRange(PREFIX.queue)).all();
    expect(decodeRowRun(key!, value!)?.rows).toHaveLength(1);
    // Older software writes the row alone, and declares nothing.
    const row = changes.find(({ table }) => table === 'queue')?.row as QueueRow;
    const puts = told.mock.calls.filter(([put]) => put[0] === PREFIX.queue || put.equals(SCHEMA_KEY));
    expect(puts).toEqual([[key, encodeRow('queue', key!, row)]]);
  });

  test('does what the log says, whatever it declares: copies of both schemas have the same effects', async () => {
    const { level, log, add } = await olderLog();
    await add(enrolled(bob), enrolled(carol));
    await add(epochBegins);
    const effects = new BatchEffects();
    const key = rowKeyBytes('relay', '');
    effects.put(key, (await level.get(key)) ?? Buffer.of());
    effects.put(...schemaMark(2));
    expect(log.effects.at(-1)).toEqual(effects.taken(Buffer.alloc(0)).effects);
  });

  test('says in its image the schema of the log, which older software fills its view from', async () => {
    const { store, level, add } = await olderLog();
    await add(enrolled(bob), enrolled(carol));
    const image = imageNow(store);
    const parts = new Map<number, Buffer>();
    const taken = await writeSnapshot({
      parts: { put: async (part, body) => void parts.set(part, body), get: async (part) => parts.get(part) },
      image,
      mark: { no: 2, lastLsn: store.lastLsn, effects: Buffer.of() },
      atMs: 1,
      monotonicMs: () => 0,
      signal: never,
    });
    await image.snapshot.close();
    expect([taken?.schema, await declared(level)]).toEqual([2, 3]);
    const { pairs } = await readSnapshot({ get: async (part) => parts.get(part) });
    const stored = (await collected(pairs)).flat();
    expect(stored.find(([key]) => key.equals(SCHEMA_KEY))?.[1]).toEqual(Buffer.of(0, 0, 0, 2));
    expect(stored.filter(([key]) => key[0] === PREFIX.log).map(([key, value]) => [lsnOf(key), isRun(value)])).toEqual([
      [1, false],
      [2, false],
      [3, false],
    ]);
  });

  test('gives an image in which every record is alone, and a view that is filled from it has runs', async () => {
    const relay = new SharedTestRelay(await temporaryFolder(), 2, {});
    await relay.open();
    onTestFinished(() => relay.close());
    await relay.enrolAll(alice, bob);
    await pushedAtOnce(relay, 'before', 300);
    await relay.takeSnapshot();
    await pushedAtOnce(relay, 'after', 20);
    const entries = await collected(relay.store.read(1));
    await relay.wipe([1]);
    expect(await collected(relay.store.read(1))).toEqual(entries);
    await relay.close();
    const [one, other] = await Promise.all(
      relay.folders.map((folder) =>
        withRawLevel(folder, async (level) => {
          const stored = await level.iterator(prefixRange(PREFIX.log)).all();
          const records = stored.flatMap((pair) =>
            recordsIn(pair).map(([lsn, record]) => `${lsn} ${record.toString('hex')}`),
          );
          return { records, packed: stored.map(([, value]) => isRun(value)), schema: await declared(level) };
        }),
      ),
    );
    expect(other?.records).toEqual(one?.records);
    expect([one?.schema, other?.schema]).toEqual([3, 3]);
    // A full tile stands for the records before; those behind came one by one.
    const kept = (await withRawLevel(relay.folders[1] ?? '', (level) => level.get(logKey(257)))) ?? Buffer.of();
    expect(isRun(kept)).toBe(false);
    expect(other?.packed.filter(Boolean).length).toBeGreaterThanOrEqual(2);
    for (const folder of relay.folders) expect((await verified(folder)).findings).toEqual([]);
  });
});
