/**
 * Relays of one log as processes, on a primary with two standbys, while hosts push, pull and ack: whatever happens to the
 * relays, to PostgreSQL and to what lies between, what the hosts saw contradicts nothing that a relay promises.
 *
 * `npm run torture -- --only shared-log` does many runs; `POSTE_TORTURE_SEED` repeats one, and `POSTE_TORTURE_NEMESIS` says
 * a part of the names of what may happen.
 */
import { expect, test } from 'vitest';
import { runNemeses } from '../support/history/run.ts';
import { POSTGRES, neededProgram } from '../support/programs.ts';

const { POSTE_TORTURE_RUNS: RUNS, POSTE_TORTURE_SEED: SEED, POSTE_TORTURE_NEMESIS: ONLY } = process.env;
const IS_TORTURE = RUNS !== undefined || SEED !== undefined;
const WITHIN_MS = 20 * 60_000;

function say(line: string): void {
  process.stderr.write(`${line}\n`);
}

const seeds = Array.from({ length: Number(RUNS ?? 1) }, (_, at) => Number(SEED ?? 1) + at);

// It takes minutes: `npm test` holds the same rules in test/http/shared-log.test.ts, in one process.
for (const seed of seeds) {
  test.runIf(IS_TORTURE)(
    `seed ${seed}: what was accepted comes once, whatever happens`,
    async (context) => {
      const program = neededProgram(context, POSTGRES);
      const { faults, accepted, left } = await runNemeses({
        program,
        seed,
        say,
        ...(ONLY !== undefined && { only: ONLY }),
      });
      say(`seed ${seed}: ${accepted} items were accepted`);
      for (const name of left) say(`not tried, because it takes root and a system that mounts: ${name}`);
      const again = `POSTE_TORTURE_SEED=${seed} npm run torture -- --only shared-log`;
      expect(faults, `repeat it with: ${again}`).toEqual([]);
    },
    WITHIN_MS,
  );
}
