/** Random histories as a test plays them: how many, for how long, and what was wrong with them. */
import { IS_THOROUGH, TIMES, tried } from '../thorough.ts';
import { faultsOf, isMissed } from './judged-worlds.ts';
import { LIES, type WorldKind, playWorld } from './model-worlds.ts';

/** Of all kinds together. */
export const HISTORIES = IS_THOROUGH ? 10_000 * TIMES : 300;
export const HISTORIES_MS = IS_THOROUGH ? 3_600_000 * TIMES : 120_000;
const FIRST_SEED = 1;

/**
 * The faults of so many histories, each with its seed, how often hosts looked, and how many items had no note, as the
 * other host had heard it.
 */
export function playWorlds(kind: WorldKind, count: number): { faults: string[]; looks: number; leftOut: number } {
  const faults: string[] = [];
  let [looks, leftOut] = [0, 0];
  const lie = LIES.find((one) => one === kind);
  for (let seed = FIRST_SEED; seed < FIRST_SEED + count; seed++) {
    const world = playWorld(kind, seed, (now) => !lie || !isMissed(lie, now));
    faults.push(...faultsOf(world).map((fault) => `seed ${seed}: ${fault}`));
    for (const host of world.hosts) {
      looks += host.looks;
      leftOut += host.leftOut;
    }
  }
  tried(`relay trust, ${kind}: ${count} histories`);
  return { faults, looks, leftOut };
}
