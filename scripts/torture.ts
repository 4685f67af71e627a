/**
 * `npm run torture`: random faults between hosts and a relay, 200 runs or `POSTE_TORTURE_RUNS`, each of a seed that is
 * printed. `POSTE_TORTURE_SEED` repeats one, and is the first of them where both are said. `npm test` does ten.
 */
import { spawn } from 'node:child_process';

const { POSTE_TORTURE_RUNS: runs, POSTE_TORTURE_SEED: seed } = process.env;
const env = { ...process.env, POSTE_TORTURE_RUNS: runs ?? (seed === undefined ? '200' : '1') };
const args = ['vitest', 'run', '--reporter=verbose', 'test/property/relay-torture.test.ts'];
spawn('npx', args, { env, stdio: ['ignore', 'inherit', 'inherit'] }).on('exit', (code) => {
  process.exitCode = code ?? 1;
});
