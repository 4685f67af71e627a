/**
 * `npm run torture`: random faults, by kinds. Each run follows from a seed that is printed, and each kind says at the
 * end how long it took.
 *
 *   npm run torture                              every kind
 *   npm run torture -- --only shared-log         one of them
 *   npm run torture -- --list                    their names
 *   npm run torture -- --record                  what they find goes into test/torture.json and docs/testing.md
 *
 * `POSTE_TORTURE_RUNS` says how many runs of each, and `POSTE_TORTURE_SEED` repeats one; where both are said it is the
 * first of them. Kinds that are made of the tests are run so many times over as `POSTE_TORTURE_TIMES` says.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parsedArguments, unusable } from './parsed-arguments.ts';
import { type KindRun, keepRuns } from './torture-record.ts';

/** That of vitest.config.ts. */
const TEST_MS = 240_000;

/** The part of vitest's report that counts. */
interface Counted {
  numPassedTests?: number;
}

interface Kind {
  what: string;
  files: readonly string[];
  /** When nobody says how many. */
  runs?: number;
  /** It tries so many times as much as the thorough run. */
  times?: number;
  environment?: Readonly<Record<string, string>>;
}

const KINDS: Readonly<Record<string, Kind>> = {
  model: {
    what: "any commands against a naive model of the relay's core",
    files: ['test/property/core-model.test.ts'],
    times: 80,
  },
  simulation: {
    what: 'a relay and its hosts on a simulated clock, disk and network: every fault follows from a seed',
    files: ['test/property/simulation.test.ts'],
    runs: 3000,
  },
  properties: {
    what: 'every property of stores, hosts and their mail',
    files: ['test/property/'],
    times: 10,
  },
  kill: {
    what: 'kill -9 of a relay under load, again and again on one store',
    files: ['test/crash/kill.test.ts'],
    times: 50,
  },
  bytes: {
    what: 'bytes of stores altered, one at a time',
    files: ['test/unit/relay/replay/flips.test.ts'],
    times: 16,
  },
  storage: {
    what: 'files of stores cut short, zeroed, flipped or overwritten',
    files: ['test/unit/relay/replay/mutations.test.ts'],
    times: 32,
  },
  operations: {
    what: 'backup, restore, rotation, rebuild, pruning and migration, killed or failing at every call',
    files: ['test/crash/operations.test.ts'],
    times: 40,
  },
  faults: {
    what: 'a relay that serves while its disk fails at every call, or runs full',
    files: ['test/crash/disk-faults.test.ts'],
    times: 20,
  },
  input: {
    what: 'random requests, most of them nearly right',
    files: ['test/http/fuzz.test.ts', 'test/http/fuzz-operator.test.ts', 'test/unit/host/lan/lan-fuzz.test.ts'],
    times: 210,
  },
  load: {
    what: 'a crowd of strangers that hold, stall and flood: honest hosts are served',
    files: ['test/e2e/load.test.ts'],
    times: 15,
  },
  hosts: {
    what: 'faults between hosts and a relay, in one process',
    files: ['test/property/relay-torture.test.ts'],
    runs: 200,
  },
  mail: {
    what: 'faults between and under three hosts with real daemons, their relay and their LAN',
    files: ['test/e2e/mail-torture.test.ts'],
    runs: 1000,
  },
  'two-relays': {
    what: 'the same with two relays, each with faults of its own',
    files: ['test/e2e/mail-torture.test.ts'],
    runs: 200,
    environment: { POSTE_TORTURE_RELAYS: '2' },
  },
  soak: {
    what: 'days of a relay under a simulated clock: files, memory, handles and disk return to where they were',
    files: ['test/http/soak.test.ts'],
    runs: 15,
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

const { values } = parsedArguments({
  options: { only: { type: 'string' }, list: { type: 'boolean' }, record: { type: 'boolean' } },
});
const { POSTE_TORTURE_RUNS: runs, POSTE_TORTURE_SEED: seed } = process.env;
const wanted = Object.entries(KINDS).filter(([name]) => values.only === undefined || values.only === name);

if (wanted.length === 0) unusable(`There is no kind ${values.only}: ${Object.keys(KINDS).join(', ')}.`);
if (values.list) for (const [name, { what }] of wanted) console.log(`${name.padEnd(12)} ${what}`);
else await runAll();

async function runAll(): Promise<void> {
  const commit = spawnSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).stdout.trim() || 'unknown';
  const runs: Record<string, KindRun> = {};
  for (const [name, kind] of wanted) {
    const startedMs = performance.now();
    const outcome = await run(kind);
    const seconds = Math.round((performance.now() - startedMs) / 1000);
    runs[name] = { date: new Date().toISOString().slice(0, 10), commit, seconds, ...outcome };
    if (!outcome.isRight) process.exitCode = 1;
  }
  const took: string[] = [];
  for (const [name, { seconds, isRight, tests, tried }] of Object.entries(runs)) {
    const outcome = isRight ? 'nothing wrong' : `FAILED, npm run torture -- --only ${name}`;
    took.push(`${name}: ${outcome}, ${tests} tests, ${seconds} s`, ...tried.map((figures) => `  ${figures}`));
  }
  console.log([`Tortured on ${new Date().toISOString().slice(0, 10)}, commit ${commit}`, ...took].join('\n'));
  if (values.record) keepRuns(runs, Object.keys(KINDS));
}

async function run({
  files,
  runs: usual,
  times: usually = 1,
  environment = {},
}: Kind): Promise<Omit<KindRun, 'date' | 'commit' | 'seconds'>> {
  const count = runs ?? (seed === undefined ? String(usual ?? 1) : '1');
  const times = Number(process.env['POSTE_TORTURE_TIMES'] ?? usually);
  const folder = await mkdtemp(join(tmpdir(), 'poste-torture-'));
  const [told, counted] = [join(folder, 'tried'), join(folder, 'counted.json')];
  const env = {
    ...process.env,
    ...environment,
    POSTE_TORTURE_TRIED: told,
    POSTE_TEST_THOROUGH: '1',
    POSTE_TORTURE_TIMES: String(times),
  };
  const inEnv = usual === undefined ? env : { ...env, POSTE_TORTURE_RUNS: count };
  const options = [
    `--testTimeout=${TEST_MS * times}`,
    '--reporter=verbose',
    '--reporter=json',
    `--outputFile=${counted}`,
  ];
  const child = spawn('npx', ['vitest', 'run', ...options, ...files], {
    env: inEnv,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const [code] = (await once(child, 'close')) as [number | null];
  const text = await readFile(told, 'utf8').catch(() => '');
  const { numPassedTests: tests = 0 } = JSON.parse(await readFile(counted, 'utf8').catch(() => '{}')) as Counted;
  await rm(folder, { recursive: true });
  return { isRight: code === 0, tests, tried: text.split('\n').filter((line) => line !== '') };
}
