/**
 * An operation on a store whose process is killed, or gets an error of the system, at each of its calls in turn: what
 * was accepted is there afterwards, the operation can be done again, and leaves nothing behind but what it leaves
 * anyway.
 */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { OPERATIONS } from '../support/broken-operations.ts';
import { Broken } from './broken-runs.ts';
import { SeededRandom } from '../support/seeded-random.ts';
import { FAULT_KINDS, type Fault, neededStrace } from '../support/strace.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { TIMES, tried } from '../support/thorough.ts';

/** So many of each operation and each kind of fault are tried; the torture run tries every one. */
const TRIED_MAX = TIMES > 1 ? Infinity : 2;
const LANES = 3;
const LIMIT_MS = 120_000 * TIMES;
const SEED = Number(process.env['POSTE_TORTURE_SEED'] ?? 4_711);

test.for(OPERATIONS)(
  '$name, failing or killed at any of its calls, loses nothing and can be done again',
  { timeout: LIMIT_MS },
  async (operation, context) => {
    const broken = await Broken.record(neededStrace(context), operation);
    const chosen = FAULT_KINDS.flatMap((what) => someOf(broken.faults.filter((fault) => fault.what === what)));
    const outcomes = new Map<string, number>();
    const wrong: string[] = [];
    const left = [...chosen.entries()];
    const lane = async (): Promise<void> => {
      const folder = join(await temporaryFolder(), 'run');
      for (let next = left.shift(); next; next = left.shift()) {
        const [number, fault] = next;
        try {
          const outcome = await broken.fails(folder, fault, number % 2 === 0);
          outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
        } catch (error) {
          wrong.push(`${fault.what} at ${fault.call} ${fault.at}: ${(error as Error).message}`);
        }
      }
    };
    await Promise.all(Array.from({ length: LANES }, lane));
    expect(wrong).toEqual([]);
    const counts = [...outcomes].map(([outcome, count]) => `${outcome} ${count}`).join(', ');
    tried(`${operation.name}: ${chosen.length} of ${broken.faults.length} places of a fault: ${counts}`);
  },
);

function someOf(faults: readonly Fault[]): Fault[] {
  if (faults.length <= TRIED_MAX) return [...faults];
  const random = new SeededRandom(SEED);
  return Array.from({ length: TRIED_MAX }, () => random.pick(faults));
}
