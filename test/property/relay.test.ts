/**
 * The relay against a model without cleverness, over a real LevelDB: any commands, any order, stops in the middle.
 */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { Comparison, SMALL_SETTINGS, type Step, anySteps } from '../support/comparison.ts';
import { storedAndReplayed } from '../support/replay.ts';
import { disposableFolder } from '../support/temporary-folder.ts';
import { TestRelay } from '../support/test-relay.ts';

/** Two hosts of one account, and one of none. */
const FIRST_STEPS = [0, 1, 2, 3].map(
  (host): Step => ({ type: 'enrol', host, name: 2, account: host < 2 ? 0 : null, isAdmitted: true }),
);

test('the relay does what the model does, whatever is asked and whenever it stops', async () => {
  await fc.assert(
    fc.asyncProperty(anySteps, async (steps) => {
      const { folder, remove } = await disposableFolder();
      const relay = new TestRelay(folder, SMALL_SETTINGS);
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
      } finally {
        await relay.close();
        await remove();
      }
    }),
    { numRuns: 70 },
  );
}, 60_000);
