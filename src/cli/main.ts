#!/usr/bin/env node
/** The process of the `poste` command: `run` with its arguments, streams, environment and signals. */
import { fileURLToPath } from 'node:url';
import type { CommandContext } from './lib/context.ts';
import { EXIT } from './lib/exit.ts';
import { exitOnEpipe } from './lib/output.ts';

const { stdin, stdout, stderr, env } = process;

const argv = process.argv.slice(2);
const context: CommandContext = {
  stdin,
  stdout,
  stderr,
  env,
  signals: process,
  program: fileURLToPath(new URL('main.js', import.meta.url)),
  abort: (code) => process.exit(code),
  exitCode: EXIT.ok,
};

/** A hook is called at every prompt of an agent: it loads no more than it needs. */
async function hook(): Promise<number | undefined> {
  if (argv[0] !== 'hooks' || argv[1] !== 'run') return undefined;
  const { hookRunOf, runAsHook } = await import('./mail/run-as-hook.ts');
  const asked = hookRunOf(argv, env);
  if (!asked) return undefined;
  await runAsHook(context, asked);
  return context.exitCode;
}

async function command(): Promise<number> {
  const { run } = await import('./run.ts');
  return run(argv, context);
}

exitOnEpipe(stdout, (code) => process.exit(code));

const exitCode = (await hook()) ?? (await command());
process.exitCode = exitCode;
// A failed command may hold handles that never close, and nobody may read what an interrupted one wrote.
if (exitCode === EXIT.interrupted) process.exit();
else if (exitCode !== EXIT.ok) stdout.write('', () => process.exit());
