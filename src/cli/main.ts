#!/usr/bin/env node
/** The process of the `poste` command: `run` with its arguments, streams, environment and signals. */
import { fileURLToPath } from 'node:url';
import { EXIT } from './lib/exit.ts';
import { run } from './run.ts';
import { exitOnEpipe } from './lib/output.ts';

const { stdin, stdout, stderr, env } = process;

exitOnEpipe(stdout, (exitCode) => process.exit(exitCode));

const exitCode = await run(process.argv.slice(2), {
  stdin,
  stdout,
  stderr,
  env,
  signals: process,
  program: fileURLToPath(new URL('main.js', import.meta.url)),
  abort: (code) => process.exit(code),
  exitCode: EXIT.ok,
});
process.exitCode = exitCode;
// A failed command may hold handles that never close, and nobody may read what an interrupted one wrote.
if (exitCode === EXIT.interrupted) process.exit();
else if (exitCode !== EXIT.ok) stdout.write('', () => process.exit());
