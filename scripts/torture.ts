/**
 * `npm run torture`: random faults, by kinds. Each run follows from a seed that is printed, and each kind says at the end
 * how long it took.
 *
 *   npm run torture                              every kind
 *   npm run torture -- --only shared-log         one of them
 *   npm run torture -- --list                    their names
 *
 * `POSTE_TORTURE_RUNS` says how many runs of each, and `POSTE_TORTURE_SEED` repeats one; where both are said it is the
 * first of them.
 */
import { spawn } from 'node:child_process';
import { parseArgs } from 'node:util';

interface Kind {
  what: string;
  files: readonly string[];
  /** When nobody says how many. */
  runs: number;
}

const KINDS: Readonly<Record<string, Kind>> = {
  hosts: {
    what: 'faults between hosts and a relay, in one process',
    files: ['test/property/relay-torture.test.ts'],
    runs: 200,
  },
  'shared-log': {
    what: 'relays of a log in PostgreSQL, as processes, under everything that may happen to them',
    files: ['test/postgres/nemeses.test.ts'],
    runs: 5,
  },
  controls: {
    what: 'the same relays without one of their checks: the history must show it',
    files: ['test/postgres/negative-controls.test.ts'],
    runs: 1,
  },
};

const { values } = parseArgs({ options: { only: { type: 'string' }, list: { type: 'boolean' } } });
const { POSTE_TORTURE_RUNS: runs, POSTE_TORTURE_SEED: seed } = process.env;
const wanted = Object.entries(KINDS).filter(([name]) => values.only === undefined || values.only === name);

if (wanted.length === 0) {
  console.error(`There is no kind ${values.only}: ${Object.keys(KINDS).join(', ')}.`);
  process.exitCode = 2;
} else if (values.list) for (const [name, { what }] of wanted) console.log(`${name.padEnd(12)} ${what}`);
else await runAll();

async function runAll(): Promise<void> {
  const took: string[] = [];
  for (const [name, kind] of wanted) {
    const startedMs = performance.now();
    const isRight = await run(kind);
    const seconds = ((performance.now() - startedMs) / 1000).toFixed(0);
    took.push(`${name}: ${isRight ? 'nothing wrong' : 'FAILED'}, ${seconds} s`);
    if (!isRight) process.exitCode = 1;
  }
  console.log(took.join('\n'));
}

function run({ files, runs: usual }: Kind): Promise<boolean> {
  const count = runs ?? (seed === undefined ? String(usual) : '1');
  const env = { ...process.env, POSTE_TORTURE_RUNS: count, POSTE_TEST_THOROUGH: '1' };
  const child = spawn('npx', ['vitest', 'run', '--reporter=verbose', ...files], {
    env,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => resolve(code === 0));
  });
}
