#!/usr/bin/env node
/** The process of the `poste` command: `run` with its arguments, streams, environment and signals. */
import { fileURLToPath } from 'node:url';
import type { CommandContext } from './lib/context.ts';

const { stdin, stdout, stderr, env } = process;

const argv = process.argv.slice(2);
const context: CommandContext = {
  stdin,
  stdout,
  stderr,
  env,
  platform: process.platform,
  signals: process,
  program: fileURLToPath(new URL('main.js', import.meta.url)),
  abort: (code) => process.exit(code),
  nowMs: () => Date.now(),
  exitCode: 0,
};

/** A hook is called at every prompt of an agent: it loads no more than it needs. */
async function hook(): Promise<boolean> {
  if (argv[0] !== 'hooks' || argv[1] !== 'run') return false;
  const { hookRunOf, runAsHook } = await import('./mail/run-as-hook.ts');
  const asked = hookRunOf(argv, env);
  if (!asked) return false;
  // A program that reads no more of its hook is not told of it.
  stdout.on('error', () => process.exit());
  await runAsHook(context, asked);
  process.exitCode = context.exitCode;
  return true;
}

async function command(): Promise<void> {
  const [{ run }, { EXIT }, { exitOnEpipe }] = await Promise.all([
    import('./run.ts'),
    import('./lib/exit.ts'),
    import('./lib/output.ts'),
  ]);
  exitOnEpipe(stdout, (code) => process.exit(code));
  const exitCode = await run(argv, context);
  process.exitCode = exitCode;
  // A failed command may hold handles that never close, and nobody may read what an interrupted one wrote.
  if (exitCode === EXIT.interrupted) process.exit();
  else if (exitCode !== EXIT.ok) stdout.write('', () => process.exit());
}

if (!(await hook())) await command();
