/** A log that is kept for so many days: checkpoints, pruning, and what everything that reads the log makes of it. */
import { describe, expect, test } from 'vitest';
import { DAY_MS } from '../../src/protocol/limits.ts';
import { rotateEpochOf, pushOf } from '../support/commands.ts';
import { rebuilt, verified } from '../support/audits.ts';
import { epochNumbered } from '../support/epochs.ts';
import { alice, bob } from '../support/hosts.ts';
import { liveALife } from '../support/life.ts';
import { keepLog } from '../support/log-keeping.ts';
import { type TestRelay, openTestRelay } from '../support/test-relay.ts';

/** A relay that lived for months. */
async function lived(): Promise<TestRelay> {
  const relay = await openTestRelay();
  await liveALife(relay.engine, relay.clock);
  return relay;
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
    expect(await relay.engine.logKeeping.checkpoints()).toHaveLength(2);
    expect((await verifiedAfter(relay)).findings).toEqual([]);
    await relay.close();
    await rebuilt(relay.folder);
    expect((await verified(relay.folder)).findings).toEqual([]);
  });
});
