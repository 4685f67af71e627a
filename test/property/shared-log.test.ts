/**
 * A relay of several nodes that share a log, against the model: any commands, any order, and with each stop another
 * node takes the lead, from wherever it had come. Meanwhile snapshots are taken, the log is pruned, and disks are lost.
 * Each view ends with the same keys, and is what a replay of the log gives.
 */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { verified } from '../support/audits.ts';
import { Comparison, SMALL_SETTINGS, type Step, anySteps } from '../support/comparison.ts';
import { inTime } from '../support/in-time.ts';
import { storedAndReplayed } from '../support/replay.ts';
import { SharedTestRelay } from '../support/shared-test-relay.ts';
import { disposableFolder } from '../support/temporary-folder.ts';
import { share } from '../support/thorough.ts';

const INVITED: Step[] = [0, 1, 2, 3].flatMap((host): Step[] => [
  { type: 'invite', invite: 0, forMs: 1 },
  { type: 'enrol', host, name: 2, account: host < 2 ? 0 : null, isAdmitted: true, validForMs: null, invite: 0 },
]);

/** A whim happens to the log or to the disks, before a step. */
type Whim = { type: 'snapshot' } | { type: 'prune'; tenths: number } | { type: 'wipe'; nodes: readonly number[] };

const anyWhim: fc.Arbitrary<Whim> = fc.oneof(
  fc.constant({ type: 'snapshot' as const }),
  fc.record({ type: fc.constant('prune' as const), tenths: fc.integer({ min: 1, max: 10 }) }),
  fc.record({ type: fc.constant('wipe' as const), nodes: fc.subarray([0, 1, 2], { minLength: 1 }) }),
);
/** By the step that each comes before. */
const anyWhims = fc.dictionary(fc.nat(40).map(String), anyWhim, { minKeys: 4, maxKeys: 12, size: 'max' });

async function done(relay: SharedTestRelay, whim: Whim): Promise<void> {
  if (whim.type === 'snapshot') await relay.takeSnapshot();
  else if (whim.type === 'prune') await relay.prune(whim.tenths / 10);
  else await relay.wipe(whim.nodes);
}

/** Takes every step with both, and then lets each node lead once more. */
async function takenAlike(
  steps: readonly Step[],
  whims: Readonly<Record<string, Whim>>,
  nodes: number,
  lostLate: number,
): Promise<number> {
  const { folder, remove } = await disposableFolder();
  const relay = new SharedTestRelay(folder, nodes, SMALL_SETTINGS);
  await relay.open();
  try {
    const comparison = new Comparison(relay);
    for (const [at, one] of [...INVITED, ...steps].entries()) {
      const whim = whims[at];
      if (whim) await done(relay, whim);
      const { seen, expected } = await comparison.take(one);
      expect(seen, `answer to step ${at - INVITED.length}, ${JSON.stringify(one)}`).toEqual(expected);
    }
    await relay.takeSnapshot();
    await relay.prune(lostLate / 10);
    await relay.wipe([lostLate % nodes]);
    const roots = new Set<string>();
    const rows: Map<string, string>[] = [];
    for (let node = 0; node < nodes; node++) {
      await relay.reopen();
      const state = await comparison.state();
      expect(state.seen).toEqual(state.expected);
      const [stored, replayed] = await storedAndReplayed(relay.store, relay.prunedEntries);
      expect(stored).toEqual(replayed);
      rows.push(stored);
      roots.add(relay.engine.log.checkpoint() ?? 'none');
    }
    for (const other of rows.slice(1)) expect(other).toEqual(rows[0]);
    expect(roots.size).toBe(1);
    expect(relay.failures).toEqual([]);
    await relay.close();
    const views = [];
    for (const one of relay.folders) views.push(await relay.followed(one));
    for (const other of views.slice(1)) expect(other).toEqual(views[0]);
    for (const one of relay.folders) expect((await verified(one)).findings).toEqual([]);
    return rows.length;
  } finally {
    await relay.close();
    await remove();
  }
}

/** A run takes a second, and several where the machine is busy. */
const WITHIN_MS = 600_000;

test(
  'every node does what the model does, from wherever it takes the lead',
  async () => {
    await fc.assert(
      fc.asyncProperty(
        anySteps,
        anyWhims,
        fc.integer({ min: 2, max: 3 }),
        fc.nat(10),
        async (steps, whims, nodes, lost) => {
          expect(await takenAlike(steps, whims, nodes, lost)).toBe(nodes);
        },
      ),
      { numRuns: share(40), ...inTime(WITHIN_MS) },
    );
  },
  WITHIN_MS,
);
