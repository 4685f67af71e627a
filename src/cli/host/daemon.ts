/** `poste daemon`: keeps and delivers the mail of this host until a signal stops it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { kill } from 'node:process';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout as elapsed } from 'node:timers/promises';
import type { Command } from 'commander';
import { attempt } from '../../lib/caught.ts';
import { storeRemedy } from '../../lib/file-fault.ts';
import { loadConfig, LOG_LEVELS, type LogLevel } from '../../host/base/config.ts';
import { type Daemon, DaemonRefused, startDaemon } from '../../host/daemon.ts';
import { ownPaths } from '../../host/base/paths.ts';
import { StoreFailed } from '../../host/store/host-store.ts';
import { displayFingerprint } from '../../protocol/public-key.ts';
import { CommandDraft } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { installCommand, uninstallCommand } from './daemon-service.ts';
import { CommandFailed, stopSignal, EXIT, stopping } from '../lib/exit.ts';
import { hostFailure } from '../lib/host-paths.ts';
import { commandLog, endLog, LOG_FORMAT_FLAG, LOG_FORMATS, type LogFormat, logText } from '../lib/log.ts';
import { announce } from '../lib/output.ts';
import { screenOf } from '../lib/screen.ts';
import { formatFields, JSON_FLAG, jsonLine } from '../lib/format.ts';
import { softwareVersion } from '../../lib/package-root.ts';
import { ask, runningDaemon } from '../lib/daemon-call.ts';
import { startServiceOrDaemon } from '../lib/daemon-start.ts';
import { findProgram } from '../lib/find-program.ts';
import { wholeNumber } from '../lib/values.ts';
import { UNIT_NAME } from '../../host/service-files.ts';
import { installedService, mayFail, tellManager } from '../lib/service-manager.ts';

/** The time in which a daemon whose store failed answers its callers. */
const FAILED_STOP_MS = 3000;

const NOTES = `
The other commands and the agents talk to this process over a socket that only you can open. At SIGTERM or ctrl-c it
finishes what it has begun, and stops within 25 seconds. Settings come from flags, then the environment, then
config.toml, whose comments explain them.

Environment:
  POSTE_HOME       one folder for everything; else the XDG folders
  POSTE_LOG_LEVEL  as --log-level

Examples:
  $ poste daemon
  $ poste daemon --json --log-level warn
  $ poste daemon restart
  $ poste daemon install --dry-run`;

export function daemonCommand(context: CommandContext): Command {
  const daemon = new CommandDraft(context, 'daemon')
    .option('--log-level <level>', 'what to log on stderr (default: info)', { choices: LOG_LEVELS })
    .option(...LOG_FORMAT_FLAG, { choices: LOG_FORMATS })
    .option(...JSON_FLAG)
    .notes(NOTES)
    .action((flags) => serve(context, flags));
  // Flags after `install` belong to install.
  daemon.enablePositionalOptions();
  new CommandDraft(context, 'stop')
    .childOf(daemon, 'Stop the daemon, and wait until it has ended.')
    .option(...JSON_FLAG)
    .notes(`
It finishes what it has begun. Mail waits until a daemon runs again; a service starts it with your next session.

Example:
  $ poste daemon stop`)
    .answers(async () => {
      const pid = await stopDaemon(context);
      return { stopped: pid !== null, pid };
    })
    .prints(({ pid }) => (pid === null ? 'No daemon was running.\n' : `The daemon has stopped (process ${pid}).\n`));
  new CommandDraft(context, 'restart')
    .childOf(daemon, 'Stop the daemon if it runs, and start it again.')
    .option(...JSON_FLAG)
    .notes(`
For a new version of Poste, and for changes of config.toml. Where this host has a service, the daemon is that then;
elsewhere it runs in the background.

Example:
  $ poste daemon restart`)
    .answers(async () => {
      const paths = ownPaths(context);
      const stopped = await stopDaemon(context);
      await startServiceOrDaemon(context, paths);
      const { pid, version } = await ask(context, 'status', {}, {});
      return { stopped: stopped !== null, pid, version };
    })
    .prints(({ pid, version }) => `The daemon runs (process ${pid}, version ${version}).\n`);
  new CommandDraft(context, 'logs')
    .childOf(daemon, 'Print what the daemon logged last.')
    .option('-n, --lines <n>', 'how many lines', { parse: wholeNumber(0), byDefault: LINES })
    .option('-f, --follow', 'go on printing what it logs, until ctrl-c')
    .option(...LOG_FORMAT_FLAG, { choices: LOG_FORMATS })
    .notes(`
Reads the journal of the service, or the file of a daemon that a command started. A daemon in the foreground logs to its
terminal.

Examples:
  $ poste daemon logs
  $ poste daemon logs -f -n 20`)
    .action(async ({ lines, follow, logFormat }) => {
      const signal = stopping(context);
      const [program, args] = logReader(context, String(lines), follow);
      const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'], signal, cwd: '/' });
      // Aborted: that is how following ends.
      child.once('error', () => undefined);
      await printLog(context, child.stdout, logFormat);
      if (child.exitCode === null && child.signalCode === null) await once(child, 'close').catch(() => undefined);
      if (signal.aborted) context.exitCode = EXIT.interrupted;
    });
  return daemon.addCommand(installCommand(context)).addCommand(uninstallCommand(context));
}

async function serve(
  context: CommandContext,
  { logLevel, logFormat, json }: { logLevel?: LogLevel; logFormat?: LogFormat; json?: boolean },
): Promise<void> {
  // Installed before the daemon reports that it is ready: a caller may stop it at once.
  const signalled = stopSignal(context);
  const paths = ownPaths(context);
  let daemon: Daemon;
  let log: ReturnType<typeof commandLog>;
  try {
    const flags = logLevel === undefined ? {} : { logLevel };
    const config = loadConfig({ file: paths.configFile, environment: context.env, flags });
    log = commandLog(context, config.logLevel, logFormat);
    daemon = await startDaemon({
      paths,
      config,
      version: softwareVersion(),
      log: (level, message, facts = {}) => log[level](facts, message),
      linesLost: log.linesLost,
    });
  } catch (error) {
    throw startFailure(error);
  }
  const { hostName, signer } = daemon.identity();
  const start = {
    host: hostName,
    host_pubkey: signer.publicKey,
    fingerprint: displayFingerprint(signer.publicKey),
    socket: paths.socket,
    store: paths.store,
    config: paths.configFile,
    pid: process.pid,
  };
  announce(context, json ? jsonLine(start) : textOf(start));
  const ended = await Promise.race([daemon.failed, signalled]);
  if (ended instanceof Error) {
    log.error({ err: ended.cause }, 'the store failed: nothing more is acknowledged');
    // The process that waits has its answer; what still holds this process does not keep it waiting.
    await Promise.race([daemon.stop().catch(() => undefined), elapsed(FAILED_STOP_MS, undefined, { ref: false })]);
    throw storeFailed(ended);
  }
  log.info({ signal: ended }, 'stopping');
  await daemon.stop();
  log.info({}, 'stopped');
  endLog(context);
}

function startFailure(error: unknown): unknown {
  if (error instanceof StoreFailed) return storeFailed(error);
  if (!(error instanceof DaemonRefused)) return hostFailure(error);
  const code = error.fault === 'listening' ? 'DAEMON_LISTENING' : 'SOCKET_PATH_TOO_LONG';
  return new CommandFailed(error.fault === 'listening' ? 'conflict' : 'failure', code, error.message);
}

function storeFailed({ message, cause }: StoreFailed): CommandFailed {
  return new CommandFailed('failure', 'STORE_FAILED', `${message}: ${storeRemedy(cause)}, and start the daemon again`);
}

function textOf(start: Readonly<Record<string, string | number>> & { host: string }): string {
  const fields = ['fingerprint', 'socket', 'store', 'config'].map((name) => [name, String(start[name])]);
  return `Poste ${softwareVersion()} keeps the mail of ${start.host}.\n${formatFields(fields, 12)}`;
}

/** A time longer than a daemon takes to stop. */
const STOP_MS = 45_000;
const LOOK_EVERY_MS = 50;

/** Returns the id of the process that ended; null when none ran. Throws `CommandFailed`. */
async function stopDaemon(context: CommandContext): Promise<number | null> {
  const pid = (await runningDaemon(context))?.pid ?? null;
  const service = installedService(context);
  // Also one that does not answer.
  if (service) await tellManager(context, service, mayFail(service.stop), '');
  if (pid === null) return null;
  // A daemon that was started beside the service is not ended by it, nor any by a manager that cannot be reached.
  if (!service || (await runningDaemon(context))?.pid === pid) end(pid);
  // Another one may serve by then, which a command started.
  for (let waitedMs = 0; isRunning(pid) || (await runningDaemon(context))?.pid === pid; waitedMs += LOOK_EVERY_MS) {
    if (waitedMs >= STOP_MS) {
      const late = `has not ended within ${STOP_MS / 1000} seconds`;
      const message = `the daemon, process ${pid}, ${late}: see poste daemon logs`;
      throw new CommandFailed('temporary', 'DAEMON_STILL_RUNS', message);
    }
    await elapsed(LOOK_EVERY_MS);
  }
  return pid;
}

function end(pid: number): void {
  try {
    kill(pid, 'SIGTERM');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

function isRunning(pid: number): boolean {
  return attempt(() => kill(pid, 0)) ?? false;
}

const LINES = 100;

/** Prints what the program reads, on a terminal as the daemon's own log is there. */
async function printLog(context: CommandContext, read: Readable, format?: LogFormat): Promise<void> {
  const { stdout } = context;
  if ((format ?? (stdout.isTTY ? 'text' : 'json')) === 'json') {
    for await (const chunk of read) stdout.write(chunk as Buffer);
    return;
  }
  for await (const line of createInterface({ input: read })) stdout.write(logText(screenOf(context), line));
}

/** The program that shows the log, and its arguments. Throws `CommandFailed` where there is none. */
function logReader(context: CommandContext, count: string, follow = false): [string, string[]] {
  const { logFile } = ownPaths(context);
  const journal = findProgram('journalctl', context.env['PATH']);
  if (installedService(context)?.name === 'systemd' && journal !== undefined) {
    const which = ['--user', '--unit', UNIT_NAME, '--output', 'cat', '--lines', count];
    return [journal, [...which, ...(follow ? ['--follow'] : ['--no-pager'])]];
  }
  const tail = findProgram('tail', context.env['PATH']);
  if (!existsSync(logFile)) {
    const message = `there is no log at ${logFile}: a daemon that runs in the foreground logs to its terminal`;
    throw new CommandFailed('notFound', 'LOG_ABSENT', message);
  }
  if (tail === undefined) {
    throw new CommandFailed('failure', 'PROGRAM_ABSENT', `tail is not on PATH: the log is ${logFile}`);
  }
  // By its name: a start may begin a new file.
  return [tail, ['-n', count, ...(follow ? ['-F'] : []), '--', logFile]];
}
