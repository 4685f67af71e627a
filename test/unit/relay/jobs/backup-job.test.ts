/** The regular backups of a relay, on time that the test moves. */
import { existsSync } from 'node:fs';
import { mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { hostFingerprint } from '../../../../src/protocol/public-key.ts';
import { BackupJob } from '../../../../src/relay/jobs/backup-job.ts';
import { LostItems } from '../../../../src/relay/engine/lost-items.ts';
import { openBackup } from '../../../../src/relay/replay/offline.ts';
import { pushOf } from '../../../support/commands.ts';
import { epochSource } from '../../../support/epochs.ts';
import { alice, bob, relay as relayHost } from '../../../support/hosts.ts';
import { ManualTimers } from '../../../support/manual-time.ts';
import { withRawLevel } from '../../../support/raw-level.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { type TestRelay, enrolledTestRelay, openTestRelay } from '../../../support/test-relay.ts';
import { breakRow, loseWire } from '../../../support/stored-items.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const MARK = hostFingerprint(relayHost.key).slice(0, 12);

interface Planned {
  relay: TestRelay;
  folder: string;
  plan: BackupJob;
  failures: unknown[];
  /** The number of items that were lost, and below zero that of rows that could not be read. */
  lost: number[];
  /** Both clocks go on, and the plan is asked. */
  pass: (ms: number) => Promise<void>;
  /** The monotonic clock alone goes on. */
  passBehindTheWall: (ms: number) => Promise<void>;
  files: () => Promise<string[]>;
}

async function planned(keep = 3, folder?: string, relay?: TestRelay): Promise<Planned> {
  const used = relay ?? (await openTestRelay());
  const into = folder ?? (await temporaryFolder());
  let monotonicMs = 0;
  const timers = new ManualTimers();
  const failures: unknown[] = [];
  const lost: number[] = [];
  const clock = { nowMs: () => used.clock.nowMs, monotonicMs: () => monotonicMs };
  const plan = BackupJob.start({
    folder: into,
    keep,
    everyMs: DAY_MS,
    engine: used.engine,
    lostItems: new LostItems({
      engine: used.engine,
      clock,
      newEpoch: epochSource(50),
      onLost: (items) => lost.push(items),
      onUnreadable: (rows) => lost.push(-rows),
    }),
    relayPubkey: relayHost.key,
    clock,
    timers,
    version: '0.0.0-test',
    onWritten: () => undefined,
    onFailed: (error) => failures.push(error),
  });
  onTestFinished(() => plan.stop());
  const asked = async (ms: number): Promise<void> => {
    monotonicMs += ms;
    await plan.run();
    timers.pass(45_000);
    await plan.run();
  };
  await plan.run();
  return {
    relay: used,
    folder: into,
    plan,
    failures,
    lost,
    pass: (ms) => {
      used.clock.move(ms);
      return asked(ms);
    },
    passBehindTheWall: asked,
    files: async () => (await readdir(into)).toSorted(),
  };
}

describe('a plan', () => {
  test('takes a first backup at the start, which is whole, and tells of it', async () => {
    const relay = await enrolledTestRelay(alice, bob);
    await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
    const { files, folder, plan } = await planned(3, undefined, relay);
    expect(await files()).toEqual([`poste-${MARK}-20251120T214823000Z.backup`]);
    expect(plan.last).toEqual({ isGood: true, atMs: relay.clock.nowMs });
    const backup = await openBackup(join(folder, (await files())[0] ?? ''));
    expect(backup.store.get('target', bob.key)?.queueItems).toBe(1);
    await backup.close();
  });

  test('reports what is damaged as lost, and keeps the backup that says so', async () => {
    const relay = await enrolledTestRelay(alice, bob);
    await relay.push(pushOf(alice, 'm1', [[bob, 'x']]), pushOf(alice, 'm2', [[bob, 'y']]));
    await relay.altered((level) => loseWire(level, bob.key, relay.clock.nowMs));
    const { epoch } = relay.engine;
    const { files, plan, lost } = await planned(3, undefined, relay);
    expect(await files()).toHaveLength(1);
    expect(plan.last?.isGood).toBe(true);
    expect(lost).toEqual([1]);
    expect(await relay.wires(bob)).toEqual(['y']);
    expect(relay.engine.epoch).not.toBe(epoch);
  });

  test('keeps older backups when one cannot be restored because of rows that cannot be read', async () => {
    const first = await planned(1);
    await first.relay.enrolAll(alice, bob);
    await first.relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
    await first.plan.stop();
    await first.relay.close();
    const { clock, folder } = first.relay;
    await withRawLevel(folder, (level) => breakRow(level, bob.key, clock.nowMs));
    await first.relay.open();
    clock.move(DAY_MS);
    const second = await planned(1, first.folder, first.relay);
    expect(await second.files()).toEqual(await first.files());
    expect(await second.files()).toEqual([`poste-${MARK}-20251120T214823000Z.backup`]);
    expect(second.failures).toMatchObject([{ reason: 'unreadable' }]);
    expect(second.lost).toEqual([-1]);
    expect(second.plan.last?.isGood).toBe(false);
  });

  test('takes the next when the interval is over and not before, and keeps the newest', async () => {
    const { pass, files } = await planned(3);
    await pass(DAY_MS - 1);
    expect(await files()).toHaveLength(1);
    for (let day = 0; day < 5; day++) await pass(DAY_MS);
    expect(await files()).toEqual(
      ['24T214822999Z', '25T214822999Z', '26T214822999Z'].map((time) => `poste-${MARK}-202511${time}.backup`),
    );
  });

  test('goes on where an earlier process left off', async () => {
    const first = await planned(3);
    await first.pass(HOUR_MS);
    await first.plan.stop();
    const second = await planned(3, first.folder, first.relay);
    expect(await second.files()).toHaveLength(1);
    expect(second.plan.last).toEqual({ isGood: true, atMs: first.relay.clock.nowMs - HOUR_MS });
    const [name = ''] = await first.files();
    expect(second.plan.state).toEqual({
      folder: first.folder,
      keep: 3,
      everyMs: DAY_MS,
      last: { isGood: true, atMs: first.relay.clock.nowMs - HOUR_MS },
      newest: { name, atMs: first.relay.clock.nowMs - HOUR_MS, bytes: (await stat(join(first.folder, name))).size },
      nextMs: first.relay.clock.nowMs + DAY_MS - HOUR_MS,
    });
    await second.pass(DAY_MS - HOUR_MS);
    expect(await second.files()).toHaveLength(2);
  });

  test('never removes what it did not name, and what a process left half done it does', async () => {
    const folder = await temporaryFolder();
    const others = [
      `poste-${MARK}-20251120T214823000Z.backup.old`,
      `poste-${MARK}-2025.backup`,
      `poste-${MARK}-20259999T999999999Z.backup`,
      'poste-0123456789ab-20200101T000000000Z.backup',
      'relay.backup',
    ];
    for (const name of others) await writeFile(join(folder, name), '');
    await mkdir(join(folder, `poste-${MARK}-20200101T000000000Z.backup`));
    const left = `poste-${MARK}-20251101T000000000Z.backup.part-00ff00ff`;
    await writeFile(join(folder, left), '');
    const { pass, files } = await planned(1, folder);
    await pass(DAY_MS);
    await pass(DAY_MS);
    const names = await files();
    expect(others.filter((name) => !names.includes(name))).toEqual([]);
    expect(names).toContain(`poste-${MARK}-20200101T000000000Z.backup`);
    expect(names).not.toContain(left);
    expect(names).toHaveLength(others.length + 2);
  });
});

describe('a clock that is set', () => {
  test('back: the plan goes by the time it has run, and backups of the wrong time go first', async () => {
    const { pass, passBehindTheWall, relay, files } = await planned(3);
    await pass(DAY_MS);
    relay.clock.move(-400 * DAY_MS);
    await passBehindTheWall(HOUR_MS);
    expect(await files()).toHaveLength(2);
    await passBehindTheWall(DAY_MS);
    expect(await files()).toHaveLength(3);
    await pass(DAY_MS);
    await pass(DAY_MS);
    const names = await files();
    expect(names.map((name) => name.slice(19, 25))).toEqual(['202410', '202410', '202410']);
  });

  test('forward: one backup, and the next an interval later', async () => {
    const { pass, passBehindTheWall, relay, files } = await planned(9);
    relay.clock.move(400 * DAY_MS);
    await passBehindTheWall(MINUTE_MS);
    expect(await files()).toHaveLength(2);
    await passBehindTheWall(MINUTE_MS);
    await pass(HOUR_MS);
    expect(await files()).toHaveLength(2);
    await pass(DAY_MS);
    expect(await files()).toHaveLength(3);
  });
});

describe('a backup that fails', () => {
  test('is told, and tried again after ten minutes, and mail goes on', async () => {
    const { pass, folder, relay, plan, failures, files } = await planned(3);
    await rm(folder, { recursive: true });
    await pass(DAY_MS);
    expect(failures).toHaveLength(1);
    expect(plan.last).toEqual({ isGood: false, atMs: relay.clock.nowMs });
    expect(plan.state).toMatchObject({ last: { isGood: false }, newest: { name: expect.any(String) as string } });
    expect(plan.state.nextMs).toBe(relay.clock.nowMs + 10 * MINUTE_MS);
    await pass(5 * MINUTE_MS);
    expect(failures).toHaveLength(1);
    expect(plan.state.nextMs).toBe(relay.clock.nowMs + 5 * MINUTE_MS);
    await pass(6 * MINUTE_MS);
    expect(failures).toHaveLength(2);
    await mkdir(folder);
    await pass(11 * MINUTE_MS);
    expect(await files()).toHaveLength(1);
    expect(plan.last).toEqual({ isGood: true, atMs: relay.clock.nowMs });
    expect(failures).toHaveLength(2);
    await relay.enrolAll(alice, bob);
    expect((await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]))).verdict).toBe('accepted');
  });

  test('by the end of the relay leaves nothing half done and tells nothing', async () => {
    const relay = await openTestRelay();
    const { plan, folder, failures } = await planned(3, undefined, relay);
    await plan.stop();
    const again = planned(3, join(folder), relay);
    await (await again).plan.stop();
    expect(failures).toEqual([]);
    expect((await readdir(folder)).filter((name) => name.includes('.part-'))).toEqual([]);
    expect(existsSync(folder)).toBe(true);
  });
});

describe('a backup that is asked for', () => {
  test('is taken before its time, named as the others are, and counts as the newest', async () => {
    const { plan, folder, files, relay, pass } = await planned();
    const [first] = await files();
    relay.clock.move(HOUR_MS);
    const taken = await plan.takeNow();
    expect(await files()).toEqual([first, taken.name]);
    expect(taken.bytes).toBeGreaterThan(0);
    const backup = await openBackup(join(folder, taken.name));
    await backup.close();
    expect(plan.last).toEqual({ isGood: true, atMs: relay.clock.nowMs });
    await pass(DAY_MS - MINUTE_MS);
    expect(await files()).toHaveLength(2);
  });

  test('comes after one that is under way', async () => {
    const { plan, files, relay } = await planned();
    relay.clock.move(1);
    const first = plan.takeNow();
    relay.clock.move(1);
    const second = plan.takeNow();
    const names = [(await first).name, (await second).name];
    expect((await files()).slice(1)).toEqual(names);
  });

  test('tells the caller that asked when it fails', async () => {
    const { plan, folder, relay } = await planned();
    await rm(folder, { recursive: true });
    relay.clock.move(1);
    await expect(plan.takeNow()).rejects.toThrow('does not exist: make it');
    await mkdir(folder);
  });
});
