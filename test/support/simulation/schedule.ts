/**
 * Says what happens in a run, and when: every step follows from the seed of the run and its own number alone, so any of
 * them can be left out and the others stay what they are. A run that fails is made shorter in this way.
 */
import { DAY_MS } from '../../../src/protocol/limits.ts';
import { SeededRandom } from '../seeded-random.ts';

const MINUTE_MS = 60_000;

export type StepType = keyof typeof WEIGHTS;

export interface Step {
  no: number;
  /** After the step before. */
  pauseMs: number;
  type: StepType;
  /** The dice of this step. */
  seed: number;
}

export interface Schedule {
  hosts: number;
  retentionMs: number;
  keepLogMs: number;
  passingMs: number;
  /** Says whether queues are full soon. */
  isSmall: boolean;
  steps: readonly Step[];
}

/** Each happens so often, of all steps together. */
const WEIGHTS = {
  send: 40,
  kill: 10,
  stop: 3,
  killHost: 4,
  flaky: 5,
  calm: 3,
  slowDisk: 2,
  fastDisk: 1,
  diskFails: 2,
  rotate: 4,
  meet: 4,
  epoch: 2,
  copy: 2,
  copyBack: 2,
  backup: 2,
  restore: 2,
  clock: 2,
  skip: 1,
  checkpoint: 6,
  prune: 2,
  rot: 1,
};

export function scheduleOf(seed: number): Schedule {
  const random = new SeededRandom(seed);
  const count = 20 + random.below(40);
  const pauseMaxMs = random.pick([1000, 20_000, MINUTE_MS]);
  return {
    hosts: 2 + random.below(3),
    retentionMs: random.chance(0.3) ? 12 * MINUTE_MS : 2 * DAY_MS,
    keepLogMs: random.chance(0.5) ? 3 * MINUTE_MS : DAY_MS,
    passingMs: random.pick([0, 2, 10]),
    isSmall: random.chance(0.3),
    steps: Array.from({ length: count }, (_, no) => {
      return { no, pauseMs: random.unit() * pauseMaxMs, type: anyType(random), seed: random.below(2 ** 32) };
    }),
  };
}

function anyType(random: SeededRandom): StepType {
  const types = Object.entries(WEIGHTS) as [StepType, number][];
  let left = random.below(types.reduce((sum, [, weight]) => sum + weight, 0));
  return types.find(([, weight]) => (left -= weight) < 0)![0];
}

/**
 * A part of the steps with which a run still fails, as few as leaving out stretches and then single ones finds. `fails`
 * runs them.
 */
export async function shrunk(
  steps: readonly number[],
  fails: (steps: readonly number[]) => Promise<boolean>,
): Promise<readonly number[]> {
  let left = steps;
  for (let size = Math.ceil(left.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = 0; at < left.length; ) {
      const without = [...left.slice(0, at), ...left.slice(at + size)];
      if (await fails(without)) left = without;
      else at += size;
    }
  }
  return left;
}
