/**
 * Relays of one log as processes, on a primary with two standbys, while hosts push, pull and ack: whatever happens to
 * the relays, to PostgreSQL and to what lies between, what the hosts saw contradicts nothing that a relay promises.
 *
 * A thorough run does the short form: a few histories, each with a part of what may happen, always the same ones.
 * `npm run torture -- --only shared-log` does the long form: all of it in each run, in an order that follows from a
 * seed. `POSTE_TORTURE_SEED` repeats one, and `POSTE_TORTURE_NEMESIS` says a part of the names of what may happen.
 */
import { readFile } from 'node:fs/promises';
import { type TestContext, expect, test } from 'vitest';
import { NEMESES } from '../support/history/nemeses.ts';
import { runNemeses, shuffled } from '../support/history/run.ts';
import { POSTGRES, neededProgram } from '../support/programs.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const { POSTE_TORTURE_RUNS: RUNS, POSTE_TORTURE_SEED: SEED, POSTE_TORTURE_NEMESIS: ONLY = '' } = process.env;
const IS_TORTURE = RUNS !== undefined || SEED !== undefined;
const SHORT_WITHIN_MS = 10 * 60_000;
const LONG_WITHIN_MS = 20 * 60_000;
/** The number of histories of the short form: each has five nemeses. */
const HISTORIES = 6;
const ALL = Object.keys(NEMESES);

function say(line: string): void {
  process.stderr.write(`${line}\n`);
}

/** Returns what contradicts a promise, while these happen one after another. */
async function faultsWith(context: TestContext, seed: number, names: readonly string[]): Promise<string[]> {
  const program = neededProgram(context, POSTGRES);
  const { faults, accepted, left } = await runNemeses({ program, seed, names, say });
  say(`seed ${seed}: ${accepted} items were accepted`);
  for (const name of left) say(`not tried, because it takes root and a system that mounts: ${name}`);
  return faults;
}

test('the documentation says where each of them is run', async () => {
  const page = await readFile(new URL('../../docs/testing.md', import.meta.url), 'utf8');
  const rows = page.split('\n').filter((line) => line.startsWith('| '));
  expect(ALL.filter((name) => !rows.some((row) => row.startsWith(`| ${name} |`)))).toEqual([]);
});

const dealt = shuffled(ALL, 1);

for (let number = 1; number <= HISTORIES; number++) {
  const names = dealt.filter((_, at) => at % HISTORIES === number - 1);
  const again = `POSTE_TEST_THOROUGH=1 npx vitest run test/postgres/nemeses.test.ts -t 'short history ${number}'`;
  test.runIf(IS_THOROUGH && !IS_TORTURE)(
    `short history ${number}: what was accepted comes once, whatever happens`,
    async (context) => expect(await faultsWith(context, number, names), `repeat it with: ${again}`).toEqual([]),
    SHORT_WITHIN_MS,
  );
}

const seeds = Array.from({ length: Number(RUNS ?? 1) }, (_, at) => Number(SEED ?? 1) + at);
const wanted = ALL.filter((name) => name.includes(ONLY));

for (const seed of seeds) {
  const part = ONLY === '' ? '' : `POSTE_TORTURE_NEMESIS='${ONLY}' `;
  const again = `POSTE_TORTURE_SEED=${seed} ${part}npm run torture -- --only shared-log`;
  test.runIf(IS_TORTURE)(
    `seed ${seed}: what was accepted comes once, whatever happens`,
    async (context) => {
      expect(wanted, `nothing that may happen is called "${ONLY}"`).not.toEqual([]);
      const faults = await faultsWith(context, seed, shuffled(wanted, seed));
      expect(faults, `repeat it with: ${again}`).toEqual([]);
    },
    LONG_WITHIN_MS,
  );
}
