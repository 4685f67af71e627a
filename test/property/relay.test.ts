/**
 * The relay against a model without cleverness, over a real LevelDB: any commands, any order, stops in the middle.
 */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { verified } from '../support/audits.ts';
import { Comparison, SMALL_SETTINGS, type Step, anySteps } from '../support/comparison.ts';
import { storedAndReplayed } from '../support/replay.ts';
import { disposableFolder } from '../support/temporary-folder.ts';
import { TestRelay } from '../support/test-relay.ts';

/** Two hosts of one account, and two of none, each with an invite that is at hand. */
const FIRST_STEPS = [0, 1, 2, 3].flatMap((host): Step[] => {
  const account = host < 2 ? 0 : null;
  return [
    { type: 'invite', invite: 0, forMs: 1 },
    { type: 'enrol', host, name: 2, account, isAdmitted: true, validForMs: null, invite: 0 },
  ];
});
const admission = fc.constantFrom('open' as const, 'invite' as const);

test('the relay does what the model does, whatever is asked and whenever it stops', async () => {
  await fc.assert(
    fc.asyncProperty(anySteps, admission, async (steps, admitted) => {
      const { folder, remove } = await disposableFolder();
      const relay = new TestRelay(folder, { ...SMALL_SETTINGS, admission: admitted });
      await relay.open();
      try {
        const comparison = new Comparison(relay);
        for (const one of [...FIRST_STEPS, ...steps]) {
          const { seen, expected } = await comparison.take(one);
          expect(seen).toEqual(expected);
          const state = await comparison.state();
          expect(state.seen).toEqual(state.expected);
        }
        const [stored, replayed] = await storedAndReplayed(relay.store);
        expect(stored).toEqual(replayed);
        expect(relay.failures).toEqual([]);
        await relay.close();
        expect((await verified(folder)).findings).toEqual([]);
      } finally {
        await relay.close();
        await remove();
      }
    }),
    { numRuns: 70 },
  );
}, 60_000);
