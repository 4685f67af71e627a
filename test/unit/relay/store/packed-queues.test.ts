/** A store whose queues lie in runs, as all that writes, moves, copies, collects and verifies them meets it. */
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Pair } from '../../../../src/lib/pair-block.ts';
import { isMoved } from '../../../../src/relay/core/rows.ts';
import { RUN_ROWS_MAX, decodeRowRun, decodeWireRun, queueRowsOf } from '../../../../src/relay/store/item-run.ts';
import {
  PREFIX,
  REPLAYED_TABLES,
  firstKeyOf,
  payloadKey,
  prefixRange,
  queueKey,
  seqOf,
} from '../../../../src/relay/store/keys.ts';
import type { Level } from '../../../../src/relay/store/level.ts';
import { SCHEMA_VERSION } from '../../../../src/relay/store/marks.ts';
import { RowsDigest, canonicalRows } from '../../../../src/relay/store/row-checkpoints.ts';
import { AppendGate } from '../../../support/append-gate.ts';
import { rebuilt, verified } from '../../../support/audits.ts';
import { collected } from '../../../support/collected.ts';
import { pushOf, reportLostOf, rotateOf } from '../../../support/commands.ts';
import { type TestHost, alice, bob, carol, dave } from '../../../support/hosts.ts';
import { withRawLevel } from '../../../support/raw-level.ts';
import { anyEpoch, backUp, restored } from '../../../support/restores.ts';
import { SharedTestRelay } from '../../../support/shared-test-relay.ts';
import { logicalPairs, loseWire } from '../../../support/stored-items.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { type TestRelay, enrolledTestRelay, openTestRelay } from '../../../support/test-relay.ts';
import { collectAll } from '../../../support/packed-queues.ts';

/** Pushes items of these sizes for a target, so that they come together. */
async function pushedAtOnce(relay: TestRelay, target: TestHost, name: string, sizes: readonly number[]): Promise<void> {
  const { nowMs } = relay.clock;
  await relay.push(
    ...sizes.map((bytes, at) => pushOf(alice, `${name}-${at}`, [[target, Buffer.alloc(bytes, `${at} `)]], { nowMs })),
  );
}

const many = (count: number, bytes: number): number[] => Array.from({ length: count }, () => bytes);

function pairsUnder(level: Level, prefix: number): Promise<Pair[]> {
  return level.iterator(prefixRange(prefix)).all();
}

interface Stored {
  /** The keys of the stored pairs, and how many items each holds. */
  runs: [bound: number, rows: number][];
  seqs: number[];
  wires: number[];
}

/** What the closed store holds of a queue. */
function storedOf(folder: string, { key }: TestHost): Promise<Stored> {
  return withRawLevel(folder, async (level) => {
    const own = async (prefix: number): Promise<Pair[]> =>
      (await pairsUnder(level, prefix)).filter((pair) => firstKeyOf(pair[0]) === key);
    const [rows, wires] = [await own(PREFIX.queue), await own(PREFIX.payload)];
    return {
      runs: rows.map((pair) => [seqOf(pair[0]), queueRowsOf(pair).length]),
      seqs: rows.flatMap(queueRowsOf).map(({ seq }) => seq),
      wires: wires.flatMap((pair) => decodeWireRun(...pair) ?? []).map(({ seq }) => seq),
    };
  });
}

const from = (first: number, count: number): number[] => Array.from({ length: count }, (_none, at) => first + at);

/** Ten items wait for bob in one run. */
async function relayWithRun(): Promise<TestRelay> {
  const relay = await enrolledTestRelay(alice, bob, carol);
  await pushedAtOnce(relay, bob, 'm', many(10, 100));
  return relay;
}

async function expectSound(folder: string): Promise<void> {
  expect((await verified(folder)).findings).toEqual([]);
}

describe('the items of one batch for one target', () => {
  test.each([
    ['of at most 256', many(300, 10), [256, 44]],
    ['of at most 64 KiB of wire bytes', many(20, 6 << 10), [10, 10]],
    ['in which one of more than 16 KiB is alone', [10, 10, (16 << 10) + 1, 10, 16 << 10], [2, 1, 2]],
    ['as which one that comes alone counts too', [100], [1]],
  ])('are runs %s, each with its wire bytes under the same bound', async (_what, sizes, lengths) => {
    const relay = await enrolledTestRelay(alice, bob);
    await pushedAtOnce(relay, bob, 'm', sizes);
    const rows = await relay.queue(bob);
    expect(rows.map(({ bytes }) => bytes)).toEqual(sizes);
    expect((await relay.engine.payloads(rows)).map((wire) => wire?.length)).toEqual(sizes);
    await relay.atRest(async (level) => {
      const [rowRuns, wireRuns] = [await pairsUnder(level, PREFIX.queue), await pairsUnder(level, PREFIX.payload)];
      expect(rowRuns.map((pair) => decodeRowRun(...pair)?.rows.length)).toEqual(lengths);
      expect(wireRuns.map((pair) => decodeWireRun(...pair)?.length)).toEqual(lengths);
      expect(wireRuns.map(([key]) => key.subarray(1))).toEqual(rowRuns.map(([key]) => key.subarray(1)));
      for (const pair of rowRuns)
        for (const { payloadBound } of queueRowsOf(pair)) expect(payloadBound).toBe(seqOf(pair[0]));
    });
    await expectSound(relay.folder);
  });

  test('are read by the place of each, also of a store that is opened anew', async () => {
    const relay = await relayWithRun();
    await relay.reopen();
    for (const at of [3, 9, 0]) {
      const row = await relay.store.queueRow(bob.key, NOON_MS + at);
      expect(row).toMatchObject({ itemId: `m-${at}`, payloadBound: NOON_MS + 9 });
      expect(relay.store.hasPayload(row!)).toBe(true);
    }
    expect(await relay.store.queueRow(bob.key, NOON_MS + 10)).toBeUndefined();
    const again = await relay.pushOne(pushOf(alice, 'm-4', [[bob, Buffer.alloc(100, '4 ')]]));
    expect(again).toEqual({ verdict: 'duplicate', seqs: [NOON_MS + 4] });
  });
});

test('a run that cannot be read, be it for its form, is not gone: a push of its items changes nothing', async () => {
  const relay = await relayWithRun();
  await relay.reopen();
  const key = queueKey(bob.key, NOON_MS + 9);
  const value = Buffer.from((await relay.store.level.get(key))!);
  for (const at of [0, 1, 5, 20, value.length - 1]) {
    const flipped = Buffer.from(value);
    flipped.writeUInt8(value.readUInt8(at) ^ 1, at);
    await relay.store.level.put(key, flipped);
    relay.store.forgetDecoded();
    const { lastLsn } = relay.store;
    for (const item of [0, 4, 9]) {
      const again = await relay.pushOne(pushOf(alice, `m-${item}`, [[bob, Buffer.alloc(100, `${item} `)]]));
      expect(again.verdict).toBe('rejected:target unavailable');
    }
    expect(relay.store.lastLsn).toBe(lastLsn);
  }
});

describe('what leaves a run', () => {
  test('attack 2: acked rows and one that an event takes leave it by the same batch, and the rest stays', async () => {
    const relay = await relayWithRun();
    await relay.ack(bob, NOON_MS - 1);
    const gate = AppendGate.closed(relay.store);
    const acked = relay.ack(bob, NOON_MS + 5);
    await gate.arrived(1);
    const reported = relay.engine.lost.report(reportLostOf(bob, NOON_MS + 8));
    gate.letOnePass();
    await acked;
    await gate.arrived(2);
    const [, both] = gate.batches;
    expect(both?.entries.map(({ event }) => event.type)).toEqual(['ItemLost', 'EpochRotated']);
    expect(both?.collected?.items).toHaveLength(6);
    gate.open();
    await reported;
    await collectAll(relay);
    await relay.close();
    const left = [NOON_MS + 6, NOON_MS + 7, NOON_MS + 9];
    expect(await storedOf(relay.folder, bob)).toEqual({ runs: [[NOON_MS + 9, 3]], seqs: left, wires: left });
    await expectSound(relay.folder);
  });

  test('its bound stays when the last item has left, and later items lie behind it', async () => {
    const relay = await relayWithRun();
    await relay.engine.lost.report(reportLostOf(bob, NOON_MS + 9));
    await pushedAtOnce(relay, bob, 'n', many(2, 10));
    await relay.close();
    const { runs, seqs } = await storedOf(relay.folder, bob);
    expect(runs).toEqual([
      [NOON_MS + 9, 9],
      [NOON_MS + 11, 2],
    ]);
    expect(seqs).toEqual([...from(NOON_MS, 9), NOON_MS + 10, NOON_MS + 11]);
    await expectSound(relay.folder);
  });

  test('a row that lies where no row may lie keeps none of a run that is acked', async () => {
    const relay = await relayWithRun();
    await relay.close();
    // A key that flipped: what lies there is of no form, and in the middle of the run.
    await withRawLevel(relay.folder, async (level) => {
      const [[key] = []] = await pairsUnder(level, PREFIX.queue);
      const other = Buffer.from(key!);
      other.writeUInt8(other.readUInt8(other.length - 1) - 4, other.length - 1);
      await level.put(other, Buffer.from('no row'));
    });
    await relay.open();
    // The queue is read by nobody before it is acked.
    const target = relay.store.get('target', bob.key)!;
    relay.store.collector.note(bob.key, target.headSeq);
    const slice = await relay.store.collector.nextSlice();
    await relay.store.append({ entries: [], changes: [], payloads: [], collected: slice! });
    await relay.close();
    expect(await storedOf(relay.folder, bob)).toEqual({ runs: [], seqs: [], wires: [] });
  });
});

/** Ten items of bob's run, which carol has now behind one of her own. */
async function moved(): Promise<TestRelay> {
  const relay = await relayWithRun();
  await relay.enrolAll(dave);
  await pushedAtOnce(relay, dave, 'own', [50]);
  await relay.rotate(rotateOf(bob, dave));
  return relay;
}

describe('rows that a rotation moved', () => {
  test('are a run again that names where its wire bytes lie, and take these with the last of them', async () => {
    const relay = await moved();
    const rows = (await relay.queue(dave)).filter(isMoved);
    expect(new Set(rows.map(({ payloadBound }) => payloadBound))).toEqual(new Set([NOON_MS + 9]));
    await relay.close();
    expect((await storedOf(relay.folder, dave)).runs.map(([, count]) => count)).toEqual([1, 10]);
    expect((await storedOf(relay.folder, bob)).wires).toEqual(from(NOON_MS, 10));
    await relay.open();
    await relay.ack(dave, rows.at(5)!.seq);
    await collectAll(relay);
    await relay.close();
    expect((await storedOf(relay.folder, bob)).wires).toEqual(from(NOON_MS + 6, 4));
    await expectSound(relay.folder);
    await relay.open();
    await relay.ack(dave, rows.at(-1)!.seq);
    await collectAll(relay);
    await relay.close();
    expect(await storedOf(relay.folder, bob)).toEqual({ runs: [], seqs: [], wires: [] });
    await expectSound(relay.folder);
  });

  test('attack 16: wire bytes whose head is damaged stay when their rows have gone; a rebuild drops them', async () => {
    const relay = await moved();
    const { headSeq } = relay.engine.head(dave.key);
    await relay.close();
    const wireKey = payloadKey(bob.key, NOON_MS + 9);
    await withRawLevel(relay.folder, async (level) => {
      const value = Buffer.from((await level.get(wireKey))!);
      value.writeUInt8(value.readUInt8(9) ^ 1, 9);
      await level.put(wireKey, value);
    });
    await relay.open();
    await relay.ack(dave, headSeq);
    await collectAll(relay);
    expect(relay.failures).toEqual([]);
    await relay.close();
    expect((await storedOf(relay.folder, dave)).seqs).toEqual([]);
    expect((await verified(relay.folder)).findings.map(({ code }) => code)).toEqual(['PAYLOAD_UNEXPECTED']);
    await rebuilt(relay.folder);
    await expectSound(relay.folder);
    expect(await withRawLevel(relay.folder, (level) => level.get(wireKey))).toBeUndefined();
  });

  test('are runs of one after a rebuild, between which what was not moved is packed anew', async () => {
    const relay = await moved();
    await pushedAtOnce(relay, dave, 'later', many(3, 30));
    await pushedAtOnce(relay, dave, 'last', many(2, 30));
    const [rows, wires] = [await relay.queue(dave), await relay.wires(dave)];
    await relay.close();
    const logical = (): Promise<Pair[]> =>
      withRawLevel(relay.folder, async (level) =>
        [...(await pairsUnder(level, PREFIX.queue)), ...(await pairsUnder(level, PREFIX.payload))].flatMap(
          logicalPairs,
        ),
      );
    const before = await logical();
    expect((await storedOf(relay.folder, dave)).runs.map(([, count]) => count)).toEqual([1, 10, 3, 2]);
    await rebuilt(relay.folder);
    expect((await storedOf(relay.folder, dave)).runs.map(([, count]) => count)).toEqual([1, ...many(10, 1), 5]);
    expect(await logical()).toEqual(before);
    await expectSound(relay.folder);
    await relay.open();
    expect((await relay.queue(dave)).map(({ itemId }) => itemId)).toEqual(rows.map(({ itemId }) => itemId));
    expect(await relay.wires(dave)).toEqual(wires);
  });
});

test('attack 13: a backup in which an ack cuts a run is restored, and its acked rows are passed over', async () => {
  const relay = await openTestRelay({ newEpoch: anyEpoch, hosts: [alice, bob] });
  await pushedAtOnce(relay, bob, 'm', many(10, 100));
  await relay.ack(bob, NOON_MS + 2);
  await collectAll(relay);
  const wires = await relay.wires(bob);
  await relay.altered((level) => loseWire(level, bob.key, NOON_MS + 1));
  const file = join(await temporaryFolder(), 'backup');
  expect(await backUp(relay, file)).toMatchObject({ items: 7, damagedItems: 0 });
  await relay.close();
  expect((await storedOf(relay.folder, bob)).runs).toEqual([[NOON_MS + 9, 10]]);
  const report = await restored(file, relay.folder, relay.clock.nowMs);
  expect(report).toMatchObject({ items: 7, backup: { schema_version: SCHEMA_VERSION } });
  await relay.open();
  expect(await relay.wires(bob)).toEqual(wires);
  await relay.close();
  await expectSound(relay.folder);
});

test('attack 11: views of one log that pack their queues differently have the same rows, hash by hash', async () => {
  const relay = new SharedTestRelay(await temporaryFolder(), 2, {});
  await relay.open();
  onTestFinished(() => relay.close());
  await relay.enrolAll(alice, bob, carol);
  await pushedAtOnce(relay, bob, 'before', many(20, 100));
  await relay.takeSnapshot();
  // The other node begins with an empty disk: what the snapshot holds lies alone there.
  await relay.wipe([1]);
  await pushedAtOnce(relay, bob, 'after', many(20, 100));
  await relay.ack(bob, NOON_MS + 14);
  await collectAll(relay);
  await relay.engine.lost.report(reportLostOf(bob, NOON_MS + 30));
  const wires = await relay.wires(bob);
  await relay.close();
  for (const folder of relay.folders) await relay.followed(folder);
  const views = await Promise.all(
    relay.folders.map((folder) =>
      withRawLevel(folder, async (level) => {
        const digest = new RowsDigest();
        for (const run of await collected(canonicalRows(level, REPLAYED_TABLES, {}))) digest.add(run);
        return { pairs: (await pairsUnder(level, PREFIX.queue)).length, rows: digest.taken() };
      }),
    ),
  );
  expect(views[0]?.rows).toEqual(views[1]?.rows);
  expect(views.map(({ pairs }) => pairs).toSorted((a, b) => a - b)).toEqual([2, 6]);
  for (const folder of relay.folders) await expectSound(folder);
  await relay.open();
  expect(await relay.wires(bob)).toEqual(wires);
});

test(`no run holds more than ${RUN_ROWS_MAX} rows whatever comes together for many targets`, async () => {
  const relay = await enrolledTestRelay(alice, bob, carol);
  const { nowMs } = relay.clock;
  const items = from(0, 400).map((at) =>
    pushOf(
      alice,
      `m${at}`,
      at % 3 === 0
        ? [[carol, `${at}`]]
        : [
            [bob, `${at}`],
            [carol, `${at}`],
          ],
      { nowMs },
    ),
  );
  await Promise.all([relay.push(...items.slice(0, 200)), relay.push(...items.slice(200))]);
  const wires = [await relay.wires(bob), await relay.wires(carol)];
  expect(wires.map(({ length }) => length)).toEqual([266, 400]);
  await relay.reopen();
  expect([await relay.wires(bob), await relay.wires(carol)]).toEqual(wires);
  await relay.close();
  const lengths = [await storedOf(relay.folder, bob), await storedOf(relay.folder, carol)].flatMap(({ runs }) =>
    runs.map(([, count]) => count),
  );
  expect(Math.max(...lengths)).toBeLessThanOrEqual(RUN_ROWS_MAX);
  expect(lengths.reduce((sum, count) => sum + count)).toBe(666);
  await expectSound(relay.folder);
});

test('a view that follows gives wire bytes a checksum only if they are what was accepted', async () => {
  const relay = new SharedTestRelay(await temporaryFolder(), 2, {});
  await relay.open();
  onTestFinished(() => relay.close());
  await relay.enrolAll(alice, bob);
  await pushedAtOnce(relay, bob, 'm', many(3, 100));
  // A node follows what is acknowledged, which the next batch says.
  await relay.enrolAll(carol);
  const place = payloadKey(bob.key, NOON_MS + 1)
    .subarray(1)
    .toString('hex');
  const wire = relay.server.wire.get(place)!;
  relay.server.wire.set(place, Buffer.from(wire).fill('x', 50, 51));
  const [leading = '', following = ''] = relay.folders;
  await relay.followed(following);
  expect(await storedOf(following, bob)).toEqual({
    runs: [[NOON_MS + 2, 3]],
    seqs: from(NOON_MS, 3),
    wires: [NOON_MS, NOON_MS + 2],
  });
  expect((await verified(following)).findings.map(({ code }) => code)).toEqual(['PAYLOAD_MISSING']);
  relay.server.wire.set(place, wire);
  await relay.close();
  await expectSound(leading);
});
