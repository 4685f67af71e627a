/** Checkpoints that were cut short, that the disk altered since, and that are given up: what goes on their strength. */
import { describe, expect, test } from 'vitest';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import { DAY_MS } from '../../../../src/protocol/limits.ts';
import { PREFIX, checkpointKey, checkpointPartKey, prefixRange } from '../../../../src/relay/store/keys.ts';
import { DamagedRecord } from '../../../../src/relay/store/record.ts';
import { pushOf, rotateEpochOf } from '../../../support/commands.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { alice, bob } from '../../../support/hosts.ts';
import { keepLog } from '../../../support/log-keeping.ts';
import { type TestRelay, enrolledTestRelay } from '../../../support/test-relay.ts';

const always = (): boolean => true;
const never = new AbortController().signal;

/** A day of mail, and the epoch ends, so that the hash tree holds the day. */
async function day(relay: TestRelay, epoch: number, items = 1): Promise<void> {
  await relay.push(...Array.from({ length: items }, (_none, at) => pushOf(alice, `${epoch}-${at}`, [[bob, 'x']])));
  await relay.engine.rotateEpoch(rotateEpochOf(epochNumbered(epoch), { nowMs: relay.clock.nowMs }));
  relay.clock.move(DAY_MS);
  await relay.engine.heartbeat(relay.clock.nowMs);
}

async function lived(): Promise<TestRelay> {
  const relay = await enrolledTestRelay(alice, bob);
  await day(relay, 70);
  return relay;
}

async function marksOf(relay: TestRelay): Promise<number[]> {
  const lsns: number[] = [];
  for await (const lsn of relay.store.checkpoints.lsns()) lsns.push(lsn);
  return lsns;
}

async function partKeys(relay: TestRelay): Promise<number> {
  const keys = await relay.atRest((level) => level.keys(prefixRange(PREFIX.checkpointPart)).all());
  await relay.open();
  return keys.length;
}

/** Alters what is stored under `key`, as a disk does. */
async function alter(relay: TestRelay, key: Buffer): Promise<void> {
  await relay.altered(async (level) => {
    const value = Buffer.from((await level.get(key)) ?? '');
    value.writeUInt8(value.readUInt8(value.length - 1) ^ 1, value.length - 1);
    await level.put(key, value);
  });
}

test('a record that was read before it was pruned is not read any more', async () => {
  const relay = await enrolledTestRelay(alice, bob);
  await day(relay, 70, 5);
  const before: (Buffer | undefined)[] = [];
  for (let lsn = 1; lsn <= relay.store.lastLsn; lsn++) before.push(await relay.store.record(lsn));
  expect(before).not.toContain(undefined);
  await keepLog(relay);
  const { firstLsn } = relay.store;
  expect(firstLsn).toBeGreaterThan(5);
  for (let lsn = 1; lsn < firstLsn; lsn++) expect(await relay.store.record(lsn)).toBeUndefined();
  expect(await relay.store.record(firstLsn)).toEqual(before[firstLsn - 1]);
});

test('a start drops the parts of a checkpoint that was cut short, and no others', async () => {
  const relay = await lived();
  await relay.engine.logRetention.takeCheckpoint(() => relay.clock.nowMs, never, always);
  const whole = await partKeys(relay);
  await relay.altered((level) => level.put(checkpointPartKey(3, 0), Buffer.from('cut short')));
  expect(await partKeys(relay)).toBe(whole);
  expect(await marksOf(relay)).toHaveLength(1);
});

test('a checkpoint that is kept elsewhere is in the log, and has no mark here, where no parts of it are', async () => {
  const relay = await lived();
  const { lastLsn } = relay.store;
  const taken = { throughLsn: lastLsn, rows: 3, rowsHash: sha256Hex('rows'), dueHash: sha256Hex('due') };
  await relay.engine.logRetention.vouch(taken, relay.clock.nowMs);
  expect((await relay.store.entry(lastLsn + 1))?.event).toMatchObject({ type: 'CheckpointTaken', ...taken });
  expect(await marksOf(relay)).toEqual([]);
});

test('a checkpoint whose reading back is stopped is none', async () => {
  const relay = await lived();
  const { checkpoints, lastLsn } = relay.store;
  const pairs = checkpoints.pairs.bind(checkpoints);
  const stopping = new AbortController();
  checkpoints.pairs = (checkpoint) => {
    stopping.abort();
    return pairs(checkpoint);
  };
  const taken = await relay.engine.logRetention.takeCheckpoint(() => relay.clock.nowMs, stopping.signal, always);
  expect(taken).toEqual({ type: 'stopped' });
  expect(relay.store.lastLsn).toBe(lastLsn);
  expect(await partKeys(relay)).toBe(0);
});

describe('a checkpoint that the disk altered after it was taken', () => {
  test('lets no record go', async () => {
    const relay = await enrolledTestRelay(alice, bob);
    await relay.pushOne(pushOf(alice, 'm', [[bob, 'x']]));
    expect(await keepLog(relay)).toMatchObject({ checkpoints: ['CheckpointTaken'], pruned: [], failures: [] });
    const [lsn = 0] = await marksOf(relay);
    await alter(relay, checkpointPartKey(lsn, 0));
    await day(relay, 70);
    const told = await keepLog(relay);
    // Another is taken in its time, which may stand for more when it is old.
    expect(told).toMatchObject({ checkpoints: ['CheckpointTaken'], pruned: [], failures: [expect.any(DamagedRecord)] });
    expect(relay.store.firstLsn).toBe(1);
    expect(await marksOf(relay)).toHaveLength(2);
    await day(relay, 71);
    const later = await keepLog(relay);
    expect(later).toMatchObject({ failures: [] });
    expect(later.pruned.at(-1)).toBeGreaterThan(1);
    expect(await marksOf(relay)).not.toContain(lsn);
  });

  test('makes no other needless', async () => {
    const relay = await lived();
    await keepLog(relay);
    await day(relay, 71);
    await keepLog(relay);
    const [first = 0, second = 0] = await marksOf(relay);
    const { firstLsn } = relay.store;
    await alter(relay, checkpointPartKey(second, 0));
    await day(relay, 72);
    expect(await keepLog(relay)).toMatchObject({ pruned: [], failures: [expect.any(DamagedRecord)] });
    expect(await marksOf(relay)).toEqual([first, second, expect.any(Number)]);
    expect(relay.store.firstLsn).toBe(firstLsn);
    await day(relay, 73);
    expect(await keepLog(relay)).toMatchObject({ failures: [] });
    expect((await marksOf(relay))[0]).toBeGreaterThan(second);
  });

  test('in its mark, is told of, and another is taken', async () => {
    const relay = await lived();
    await keepLog(relay);
    const [first = 0] = await marksOf(relay);
    await alter(relay, checkpointKey(first));
    expect(await keepLog(relay)).toMatchObject({
      checkpoints: ['CheckpointTaken'],
      failures: [expect.any(DamagedRecord)],
    });
    await day(relay, 71);
    await keepLog(relay);
    expect(await marksOf(relay)).not.toContain(first);
    expect(await keepLog(relay)).toMatchObject({ failures: [] });
  });
});
