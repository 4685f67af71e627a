/** Starts the daemon for a command, and waits for one that a service starts. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync, renameSync } from 'node:fs';
import { setTimeout as elapsed } from 'node:timers/promises';
import { DaemonClient } from '../../host/api/client.ts';
import { type HostPaths, makePrivateFolder } from '../../host/base/paths.ts';
import { isListening } from '../../lib/unix-socket.ts';
import type { CommandContext } from './context.ts';
import { CommandFailed, EXIT } from './exit.ts';

/** The time that a daemon may take to answer after its start. */
export const START_MS = 20_000;
const LOOK_EVERY_MS = 25;

/** Throws `CommandFailed`. */
export async function startInBackground({ env, program }: CommandContext, paths: HostPaths): Promise<void> {
  makePrivateFolder(paths.dataFolder);
  if (existsSync(paths.logFile)) renameSync(paths.logFile, `${paths.logFile}.old`);
  const log = openSync(paths.logFile, 'a', 0o600);
  const child = spawn(process.execPath, [program, 'daemon'], {
    detached: true,
    stdio: ['ignore', log, log],
    cwd: '/',
    env,
  });
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
    // Another command may start a daemon at the same time: then that one answers.
    const answers = await untilAnswered(paths, () => {
      if (exitCode !== undefined && exitCode !== EXIT.conflict)
        throw notStarted(lastLine(paths.logFile), paths.logFile);
    });
    if (!answers) throw notStarted('it does not answer', paths.logFile);
    // Ours came too late, and would serve as soon as the other frees the store: stop it before this command ends.
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

/** Waits for a daemon that a service starts; `log` is where that writes. Throws `CommandFailed`. */
export async function waitForDaemon(paths: HostPaths, log: string): Promise<void> {
  if (!(await untilAnswered(paths, () => undefined))) throw notStarted('it does not answer', log);
}

/** True when a daemon answered in time; `check` is called at each look. */
async function untilAnswered({ socket }: HostPaths, check: () => void): Promise<boolean> {
  const deadline = performance.now() + START_MS;
  while (!(await isListening(socket))) {
    check();
    if (performance.now() > deadline) return false;
    await elapsed(LOOK_EVERY_MS);
  }
  return true;
}

function notStarted(why: string, log: string): CommandFailed {
  return new CommandFailed('failure', 'DAEMON_NOT_STARTED', `the daemon did not start (${why}): see ${log}`);
}

function lastLine(file: string): string {
  const line = readFileSync(file, 'utf8').trimEnd().split('\n').at(-1) ?? '';
  return line.replace(/^poste: /, '').replace(/\.$/, '');
}
