/** Starts a daemon that goes on when the command has ended, and waits until it answers. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync, renameSync } from 'node:fs';
import { setTimeout as elapsed } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { DaemonClient } from '../host/local/client.ts';
import { type HostPaths, makePrivateFolder } from '../host/paths.ts';
import { isListening } from '../system/unix-socket.ts';
import { CommandFailed, EXIT } from './exit.ts';

const START_MS = 20_000;
const LOOK_EVERY_MS = 25;

/** Throws `CommandFailed`. */
export async function startInBackground(paths: HostPaths): Promise<void> {
  makePrivateFolder(paths.dataFolder);
  if (existsSync(paths.logFile)) renameSync(paths.logFile, `${paths.logFile}.old`);
  const log = openSync(paths.logFile, 'a', 0o600);
  const main = fileURLToPath(new URL('main.js', import.meta.url));
  const child = spawn(process.execPath, [main, 'daemon'], { detached: true, stdio: ['ignore', log, log], cwd: '/' });
  closeSync(log);
  child.unref();
  const over = new AbortController();
  const ended = once(child, 'exit', { signal: over.signal }).then(
    ([code]) => code as number | null,
    () => undefined,
  );
  let exitCode: number | null | undefined;
  void ended.then((code) => {
    exitCode = code;
  });
  try {
    const deadline = performance.now() + START_MS;
    // Another command may have started one at the same time: then that one answers.
    while (!(await isListening(paths.socket))) {
      if (exitCode !== undefined && exitCode !== EXIT.conflict) throw notStarted(paths, lastLine(paths.logFile));
      if (performance.now() > deadline) throw notStarted(paths, 'it does not answer');
      await elapsed(LOOK_EVERY_MS);
    }
    // One that came too late would serve the next time that the store is free: it ends before this command does.
    const { pid } = await new DaemonClient(paths.socket, paths.store).call('status', {});
    if (pid !== child.pid && exitCode === undefined) {
      child.ref();
      child.kill();
      await ended;
    }
  } finally {
    over.abort();
  }
}

function notStarted({ logFile }: HostPaths, why: string): CommandFailed {
  return new CommandFailed('failure', 'DAEMON_NOT_STARTED', `the daemon did not start (${why}): ${logFile} says more`);
}

function lastLine(file: string): string {
  const line = readFileSync(file, 'utf8').trimEnd().split('\n').at(-1) ?? '';
  return line.replace(/^poste: /, '').replace(/\.$/, '');
}
