/**
 * Queues whose rows and wire bytes lie in runs, against plain maps (support/packed-story.ts). After each step the
 * logical rows, the wire bytes and the sums are those of the maps, every stored row has its wire bytes and these have a
 * row, and no row is left behind the mark of the collector.
 *
 * Relays with a fault show that these stories would find it. Faults in run-edits.ts that they found when it was altered
 * by hand: what is left of a run from which rows were moved does not name its wire bytes; a wire run goes with a run of
 * moved rows, though others name it; rows that leave a run with one batch undo each other.
 */
import * as fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { Collector, type CollectedSlice } from '../../src/relay/store/collect.ts';
import { FoundRuns } from '../../src/relay/store/found-runs.ts';
import { QueueRuns } from '../../src/relay/store/queue-runs.ts';
import { RunEdits } from '../../src/relay/store/run-edits.ts';
import { inTime } from '../support/in-time.ts';
import { anyPassingMs, lookedAtClock } from '../support/machine-speed.ts';
import { STEPS, type Step, Story, anyStory } from '../support/packed-story.ts';
import { disposableFolder } from '../support/temporary-folder.ts';
import { TestRelay } from '../support/test-relay.ts';
import { IS_THOROUGH, TIMES, share, tried } from '../support/thorough.ts';

/** Takes the steps, fails where relay and maps differ, and answers how many it took. */
async function takenAlike(steps: readonly Step[], passingMs: number): Promise<number> {
  const { folder, remove } = await disposableFolder();
  let [passedMs, taken] = [0, 0];
  const lookedAt = lookedAtClock(passingMs);
  const relay = new TestRelay(folder, { monotonicMs: () => lookedAt() + passedMs });
  await relay.open();
  try {
    const story = new Story(relay, (ms) => void (passedMs += ms));
    await story.begin();
    for (const step of steps) {
      const place = `step ${taken++}, ${JSON.stringify(step)}`;
      const { seen, expected } = await story.take(step);
      expect({ place, seen }).toEqual({ place, seen: expected });
      const state = await story.state();
      expect({ place, seen: state.seen }).toEqual({ place, seen: state.expected });
    }
    return taken;
  } finally {
    await relay.close();
    await remove();
  }
}

const STORIES = share(64);
const TEST_MS = IS_THOROUGH ? 600_000 : 60_000;

test('queues in runs hold what plain maps hold, whatever happens to them', { timeout: TIMES * TEST_MS }, async () => {
  await fc.assert(
    fc.asyncProperty(anyStory, anyPassingMs, async (steps, passingMs) => {
      expect(await takenAlike(steps, passingMs)).toBe(STEPS);
    }),
    { numRuns: STORIES, ...inTime(TEST_MS) },
  );
  tried(`${STORIES * STEPS} steps of queues in runs`);
});

/** Until the end of the test a method does this in place of what it did, which `go` does. */
function alter(
  { prototype }: { prototype: object },
  name: string,
  altered: (go: (...given: readonly unknown[]) => unknown, ...given: readonly unknown[]) => unknown,
): void {
  const original = Reflect.get(prototype, name) as (...given: readonly unknown[]) => unknown;
  Reflect.set(prototype, name, function (this: unknown, ...given: readonly unknown[]) {
    return altered((...changed) => original.apply(this, [...changed]), ...given);
  });
  onTestFinished(() => void Reflect.set(prototype, name, original));
}

const FAULTS: Record<string, () => void> = {
  'rows that are moved take their wire bytes with them': () =>
    alter(RunEdits, 'remove', (go, target, seq, why) => go(target, seq, why === 'moved' ? 'dropped' : why)),
  'a run that was written stays as it was decoded': () => alter(QueueRuns, 'written', () => undefined),
  'a run is thought to begin one row too soon': () =>
    alter(FoundRuns, 'note', (go, target, first, bound) => go(target, (first as number) - 1, bound)),
  'the mark of the collector passes a run that waits': () =>
    alter(Collector, 'nextSlice', async (go) => {
      const slice = (await go()) as CollectedSlice | undefined;
      return slice && { ...slice, through: slice.through + 1 };
    }),
};

test.each(Object.keys(FAULTS))('and would not if %s', { timeout: 60_000 }, async (fault) => {
  FAULTS[fault]!();
  const property = fc.asyncProperty(anyStory, async (steps) => void (await takenAlike(steps, 0)));
  // Its first story shows each of them.
  const { failed } = await fc.check(property, { seed: 2, numRuns: 20, endOnFailure: true });
  expect(failed).toBe(true);
});
