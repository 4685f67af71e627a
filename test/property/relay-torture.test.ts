/**
 * Random faults between hosts and a relay: each accepted message arrives exactly once, or its sender is alerted.
 *
 * A run follows from its seed. `npm run torture` does many of them; `POSTE_TORTURE_SEED` repeats one, and with
 * `POSTE_TORTURE_RUNS` it is the first of so many.
 */
import { expect, test } from 'vitest';
import { faultsAfter } from './torture-oracle.ts';
import { share } from '../support/thorough.ts';
import { TortureWorld } from '../support/torture-world.ts';

const { POSTE_TORTURE_RUNS: RUNS, POSTE_TORTURE_SEED: SEED } = process.env;
const FIRST_SEED = Number(SEED ?? 1);
const COUNT = Number(RUNS ?? (SEED === undefined ? share(10) : 1));
const ROUNDS = 12;

const seeds = Array.from({ length: COUNT }, (_, at) => FIRST_SEED + at);

test.each(seeds)('seed %i: what is accepted arrives exactly once, or its sender is alerted', async (seed) => {
  const world = await TortureWorld.open(seed);
  for (let round = 0; round < ROUNDS; round++) await world.round();
  const faults = await faultsAfter(world);
  expect(faults, `seed ${seed}: ${world.schedule.join('; ')}`).toEqual([]);
});
