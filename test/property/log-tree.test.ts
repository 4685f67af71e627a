/**
 * The trees over the log against the recursion of the RFC: any commands, new epochs and stops in the middle, over a
 * real LevelDB. A checkpoint that was signed once is continued by every later one of its epoch.
 */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Checkpoint, openCheckpoint } from '../../src/protocol/checkpoint.ts';
import { verifyConsistency } from '../../src/protocol/merkle.ts';
import { rotateEpochOf } from '../support/commands.ts';
import { Comparison, SMALL_SETTINGS, type Step, anySteps } from '../support/comparison.ts';
import { epochNumbered } from '../support/epochs.ts';
import { relay as relayHost } from '../support/hosts.ts';
import { inTime } from '../support/in-time.ts';
import { naiveTrees, storedAndNaive, unprovenLeaves } from '../support/log-trees.ts';
import { anyPassingMs, lookedAtClock } from '../support/machine-speed.ts';
import { disposableFolder } from '../support/temporary-folder.ts';
import { TestRelay } from '../support/test-relay.ts';
import { share } from '../support/thorough.ts';
import { found } from '../support/found.ts';

const FIRST_STEPS = [0, 1, 2].map(
  (host): Step => ({ type: 'enrol', host, name: 2, account: null, isAdmitted: true, validForMs: null, invite: 0 }),
);

function signedNow({ engine }: TestRelay, epoch?: string): Checkpoint {
  return found(openCheckpoint(engine.log.checkpoint(epoch) ?? '', relayHost.key), 'the checkpoint does not verify');
}

/** Says whether the tree of the epoch, as it is now, continues what was signed of it. */
function isContinued(relay: TestRelay, { epoch, size: from, rootHash: fromRoot }: Checkpoint): boolean {
  const { size: to, rootHash: toRoot } = signedNow(relay, epoch);
  const growth = relay.engine.log.growth(from, to, epoch);
  if (!growth || growth === 'bad sizes') return false;
  return verifyConsistency({ from, to, proof: growth.proof, fromRoot, toRoot });
}

test('the trees are those of the records, and no checkpoint is ever taken back', async () => {
  const newEpochsAt = fc.array(fc.nat(40), { maxLength: 3 });
  await fc.assert(
    fc.asyncProperty(anySteps, newEpochsAt, anyPassingMs, async (steps, rotations, passingMs) => {
      const { folder, remove } = await disposableFolder();
      const relay = new TestRelay(folder, { ...SMALL_SETTINGS, monotonicMs: lookedAtClock(passingMs) });
      await relay.open();
      try {
        const comparison = new Comparison(relay);
        const signed: Checkpoint[] = [];
        for (const [at, one] of [...FIRST_STEPS, ...steps].entries()) {
          await comparison.take(one);
          if (rotations.includes(at)) await relay.engine.rotateEpoch(rotateEpochOf(epochNumbered(200 + at)));
          signed.push(signedNow(relay));
        }
        await relay.reopen();
        // An opening answers before its revocations are durable.
        await relay.engine.durable();
        expect(signed.filter((checkpoint) => !isContinued(relay, checkpoint))).toEqual([]);
        const [stored, naive] = await storedAndNaive(relay.store);
        expect(stored).toEqual(naive);
        for (const tree of await naiveTrees(relay.store)) expect(unprovenLeaves(relay.store, tree)).toEqual([]);
      } finally {
        await relay.close();
        await remove();
      }
    }),
    { numRuns: share(40), ...inTime(60_000) },
  );
});
