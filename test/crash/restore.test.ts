/**
 * A crash at every step of a restore: the store folder is copied before the step, as a crash there would leave it, and
 * each copy must serve as the old store or as the new one, and take another restore.
 */
import { cp, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { enrolOf, pushOf, revokeOf } from '../support/commands.ts';
import { alice, bob, carol } from '../support/hosts.ts';
import { anyEpoch, backUp, restored } from '../support/restores.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { type TestRelay, openTestRelay } from '../support/test-relay.ts';

interface Crash {
  step: string;
  folder: string;
}

interface Crashed {
  crashes: Crash[];
  file: string;
  nowMs: number;
  oldEpoch: string;
  newEpoch: string;
}

/** A store that went on after its backup, and what a crash before each step of a restore leaves of it. */
async function crashedEverywhere(): Promise<Crashed> {
  const relay = await openTestRelay({ newEpoch: anyEpoch, hosts: [alice, bob, carol] });
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]));
  const file = join(await temporaryFolder(), 'backup');
  await backUp(relay, file);
  await relay.pushOne(pushOf(alice, 'm2', [[bob, 'two']]));
  await relay.engine.admissions.revokeHost(revokeOf(carol, { nowMs: relay.clock.nowMs }));
  const oldEpoch = relay.engine.epoch;
  await relay.close();
  const crashes: Crash[] = [];
  const report = await restored(file, relay.folder, relay.clock.nowMs, {
    step: async (step) => {
      const folder = await temporaryFolder();
      await cp(relay.folder, folder, { recursive: true });
      crashes.push({ step, folder });
    },
  });
  return { crashes, file, nowMs: relay.clock.nowMs, oldEpoch, newEpoch: report.epoch };
}

async function servedFrom(folder: string): Promise<TestRelay> {
  const relay = await openTestRelay({ folder, newEpoch: anyEpoch });
  // Neither the position nor the heartbeat of either store may be in doubt.
  expect(relay.notices).toEqual([]);
  return relay;
}

describe('a restore that is cut short', () => {
  test('before any of its steps leaves the old store or the new one, whole', async () => {
    const { crashes, oldEpoch, newEpoch } = await crashedEverywhere();
    const served: string[] = [];
    for (const { step, folder } of crashes) {
      const relay = await servedFrom(folder);
      const { epoch } = relay.engine;
      expect([oldEpoch, newEpoch]).toContain(epoch);
      served.push(`${step}: ${epoch === newEpoch ? 'new' : 'old'}`);
      expect(await relay.wires(bob)).toEqual(epoch === newEpoch ? ['one'] : ['one', 'two']);
      expect(await relay.enrol(enrolOf(carol))).toMatchObject({ code: 'ENROL_REFUSED' });
      expect((await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]))).verdict).toBe('duplicate');
      await relay.close();
    }
    expect(served).toEqual([
      'the backup is unpacked: old',
      'the replaced store is taken over: old',
      'the restored store is synced: old',
      'the restore is decided: old',
      'the replaced store is unlocked: new',
      'the replaced position is copied aside: new',
      'the position is replaced: new',
      'the replaced store goes aside: new',
      'the restored store takes its place: new',
      'the position that is in place is removed: new',
      'the journal is removed: new',
    ]);
  });

  test('before any of its steps takes another restore, which leaves nothing of the first behind', async () => {
    const { crashes, file, nowMs } = await crashedEverywhere();
    expect(crashes).toHaveLength(11);
    for (const { step, folder } of crashes) {
      const report = await restored(file, folder, nowMs + 5000);
      const names = await readdir(folder);
      expect([step, names.filter((name) => /restoring|restore\.json|\.new$/.test(name))]).toEqual([step, []]);
      const relay = await servedFrom(folder);
      expect(relay.engine.epoch).toBe(report.epoch);
      expect(await relay.enrol(enrolOf(carol))).toMatchObject({ code: 'ENROL_REFUSED' });
      await relay.close();
    }
  });

  test('and cut short again while it is gone on with, at every step, ends as the new store', async () => {
    const { crashes, file, nowMs, newEpoch } = await crashedEverywhere();
    const decided = crashes.find(({ step }) => step === 'the replaced store is unlocked');
    const again: Crash[] = [];
    const cutShort = restored(file, decided?.folder ?? '', nowMs + 5000, {
      step: async (step) => {
        if (step === 'the backup is unpacked') throw new Error('far enough');
        const folder = await temporaryFolder();
        await cp(decided?.folder ?? '', folder, { recursive: true });
        again.push({ step, folder });
      },
    });
    await expect(cutShort).rejects.toThrow('far enough');
    expect(again.map(({ step }) => step)).toEqual(crashes.slice(5).map(({ step }) => step));
    for (const { folder } of again) {
      const relay = await servedFrom(folder);
      expect(relay.engine.epoch).toBe(newEpoch);
      await relay.close();
    }
  });
});
