/**
 * Pushes from a process of its own. One that has made and pushed some 40 MB spends twice the processor time for a page
 * that it pulls afterwards, so it is no client to measure pages with.
 */
import { fork } from 'node:child_process';
import { type PushLoad, push } from './push.ts';

/** Resolves when everything is pushed. */
export async function pushElsewhere(given: PushLoad): Promise<void> {
  const child = fork(new URL(import.meta.url), [JSON.stringify(given)], { execArgv: process.execArgv });
  const code = await new Promise((resolve) => {
    child.once('exit', resolve);
  });
  if (code !== 0) throw new Error(`the process that pushes ended with exit code ${String(code)}`);
}

if (process.send) {
  await push(JSON.parse(process.argv[2] ?? '') as PushLoad);
  process.exit();
}
