/**
 * A log that is pruned at any moment, over a real LevelDB: the relay does what the model does all the same, what was
 * archived and what is kept is the whole log, and the rows are those of its replay, also after a rebuild.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { DAY_MS } from '../../src/protocol/limits.ts';
import { rebuilt, verified } from '../support/audits.ts';
import { Comparison, SMALL_SETTINGS, type Step, anySteps } from '../support/comparison.ts';
import { archived, keepLog } from '../support/log-keeping.ts';
import { storedAndReplayed } from '../support/replay.ts';
import { disposableFolder } from '../support/temporary-folder.ts';
import { TestRelay } from '../support/test-relay.ts';
import { IS_THOROUGH, share } from '../support/thorough.ts';

const FIRST_STEPS = [0, 1, 2].map(
  (host): Step => ({ type: 'enrol', host, name: 2, account: null, isAdmitted: true, validForMs: null, invite: 0 }),
);

const A_DAY_OFF: readonly Step[] = [{ type: 'clock', byMs: DAY_MS }, { type: 'reopen' }];

/** Before which step the log is kept, whether an epoch ends before (which lets more go), and whether days pass. */
const keepings = fc.array(fc.record({ at: fc.nat(40), endsEpoch: fc.boolean(), days: fc.nat(2) }), {
  minLength: 1,
  maxLength: 5,
});

/** Prunes, whatever the others draw. */
const SURELY: [Step[], { at: number; endsEpoch: boolean; days: number }[]] = [
  [{ type: 'clock', byMs: DAY_MS }],
  [1, 2, 3].map((at) => ({ at, endsEpoch: true, days: 2 })),
];

test('a log that is pruned at any moment is the same log', async () => {
  let pruned = 0;
  await fc.assert(
    fc.asyncProperty(anySteps, keepings, async (steps, kept) => {
      const { folder, remove } = await disposableFolder();
      const archiveFolder = join(folder, 'archives');
      const relay = new TestRelay(join(folder, 'store'), SMALL_SETTINGS);
      await mkdir(archiveFolder);
      await relay.open();
      try {
        const comparison = new Comparison(relay);
        for (const [at, one] of [...FIRST_STEPS, ...steps].entries()) {
          for (const { days, endsEpoch } of kept.filter((keeping) => keeping.at === at)) {
            for (let day = 0; day < days; day++) await comparison.take({ type: 'clock', byMs: DAY_MS });
            // After a day it begins another epoch.
            if (endsEpoch) for (const step of A_DAY_OFF) await comparison.take(step);
            const { failures } = await keepLog(relay, { archiveFolder });
            expect(failures).toEqual([]);
          }
          const { seen, expected } = await comparison.take(one);
          expect(seen).toEqual(expected);
          const state = await comparison.state();
          expect(state.seen).toEqual(state.expected);
        }
        await relay.reopen();
        const before = await archived(archiveFolder);
        expect(before.map(({ lsn }) => lsn)).toEqual(
          Array.from({ length: relay.store.firstLsn - 1 }, (_no, at) => at + 1),
        );
        pruned += before.length;
        const [stored, replayed] = await storedAndReplayed(relay.store, before);
        expect(stored).toEqual(replayed);
        await relay.close();
        expect((await verified(relay.folder)).findings).toEqual([]);
        await rebuilt(relay.folder);
        expect((await verified(relay.folder)).findings).toEqual([]);
        await relay.open();
        expect((await storedAndReplayed(relay.store, before))[0]).toEqual(replayed);
      } finally {
        await relay.close();
        await remove();
      }
    }),
    { numRuns: share(40), examples: [SURELY] },
  );
  expect(pruned).toBeGreaterThan(IS_THOROUGH ? 40 : 0);
}, 240_000);
