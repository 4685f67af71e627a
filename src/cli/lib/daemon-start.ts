/** Starts the daemon for a command, and waits for one that a service starts. */
import { spawn } from 'node:child_process';
import { closeSync, existsSync, fstatSync, openSync, readFileSync, renameSync, statSync } from 'node:fs';
import { setTimeout as elapsed } from 'node:timers/promises';
import { DaemonClient } from '../../host/api/client.ts';
import { type HostPaths, makePrivateFolder } from '../../host/base/paths.ts';
import { nothing, onlyOf } from '../../lib/caught.ts';
import { fileFault } from '../../lib/file-fault.ts';
import { isListening } from '../../lib/unix-socket.ts';
import type { CommandContext } from './context.ts';
import { CommandFailed, EXIT } from './exit.ts';
import { note } from './output.ts';
import { hasFailed, installedService, mayFail, type ServiceManager, tellManager } from './service-manager.ts';
import { withoutUndefined } from './values.ts';

/** The time that a daemon may take to answer after its start. */
export const START_MS = 20_000;
const LOOK_EVERY_MS = 25;
/** The time after which the manager of a service that does not answer yet is asked whether it has failed. */
const SERVICE_LOOK_MS = 1000;
/** This command shows the log of a service. */
const LOGS = 'poste daemon logs';
/** The pause between two starts while another process has the store. */
const LOCKED_EVERY_MS = 1000;
/** A log that has grown so far is begun anew, and the former one is kept beside it. */
const LOG_BYTES_MAX = 8 << 20;

interface StartOptions {
  /** A process is about to be started. */
  onStart?: () => void;
  /** The time in which another process that has the store must free it, or be a daemon that answers. */
  lockedMs?: number;
}

/**
 * Resolves when a daemon answers: the one that this starts, or the one of another command that was sooner. Throws
 * `CommandFailed`, with the daemon's own reason, when none comes up.
 */
export async function startInBackground(
  context: CommandContext,
  paths: HostPaths,
  { onStart, lockedMs = START_MS }: StartOptions = {},
): Promise<void> {
  const { store } = paths;
  if (!existsSync(store)) {
    throw new CommandFailed('notFound', 'STORE_ABSENT', `there is no store at ${store}: make one with poste init`);
  }
  onStart?.();
  const lockedUntil = performance.now() + lockedMs;
  let isUp = false;
  while (!isUp) {
    const refusal = await startProcess(context, paths);
    if (!refusal) return;
    if (!refusal.isLocked || performance.now() > lockedUntil) throw refusal.failure;
    // A daemon that is about to answer has the store, or one that ends.
    isUp = await untilAnswered(paths, performance.now() + LOCKED_EVERY_MS);
  }
}

/**
 * Does the same, by the service that poste installed for this host, where there is one: a daemon beside it would keep
 * the store from it. Where its manager does not start it, the daemon starts without it, and the service is ended, so
 * that it does not try on and on to have the store.
 */
export async function startServiceOrDaemon(
  context: CommandContext,
  paths: HostPaths,
  onStart?: () => void,
): Promise<void> {
  const service = existsSync(paths.store) ? installedService(context) : undefined;
  if (!service) return startInBackground(context, paths, withoutUndefined({ onStart }));
  onStart?.();
  const fault = await serviceFault(context, paths, service);
  if (fault === undefined || (await isListening(paths.socket))) return;
  note(context, `${fault}; the daemon is started without it`);
  await tellManager(context, service, mayFail(service.stop), '');
  await startInBackground(context, paths);
}

/** Says why the service does not come up, as a clause; `undefined` when a daemon answers. Throws `CommandFailed`. */
async function serviceFault(
  context: CommandContext,
  paths: HostPaths,
  service: ServiceManager,
): Promise<string | undefined> {
  const told = tellManager(context, service, service.start, 'the service was not started');
  const refused = await told.then(
    nothing,
    onlyOf(CommandFailed, ({ message }) => message),
  );
  if (refused !== undefined) return refused;
  const deadline = performance.now() + START_MS;
  while (!(await untilAnswered(paths, Math.min(deadline, performance.now() + SERVICE_LOOK_MS)))) {
    if (await hasFailed(context, service)) return `the service has failed (${service.name})`;
    if (performance.now() > deadline) throw silent(LOGS);
  }
  return undefined;
}

/** Waits for a daemon that a service starts. Throws `CommandFailed`. */
export async function waitForService(paths: HostPaths): Promise<void> {
  if (!(await untilAnswered(paths, performance.now() + START_MS))) throw silent(LOGS);
}

interface Refusal {
  /** Another process has the store. */
  isLocked: boolean;
  failure: CommandFailed;
}

/** Returns `undefined` when a daemon answers. */
async function startProcess({ env, program }: CommandContext, paths: HostPaths): Promise<Refusal | undefined> {
  const log = openLog(paths);
  const { size } = fstatSync(log);
  const child = spawn(process.execPath, [program, 'daemon'], {
    detached: true,
    stdio: ['ignore', log, log],
    cwd: '/',
    env,
  });
  closeSync(log);
  child.unref();
  let end: { code: number | null } | { fault: string } | undefined;
  const ended = new Promise<void>((resolve) => {
    child.once('exit', (code) => resolve(void (end = { code })));
    child.once('error', (error) => resolve(void (end = { fault: fileFault(error) })));
  });
  if (await untilAnswered(paths, performance.now() + START_MS, () => end !== undefined)) {
    // Ours came too late, and would serve as soon as the other frees the store: stop it before this command ends.
    const { pid } = await new DaemonClient(paths.socket, paths.store).call('status', {});
    if (pid !== child.pid && end === undefined) {
      child.ref();
      child.kill();
      await ended;
    }
    return undefined;
  }
  if (end === undefined) return { isLocked: false, failure: silent(paths.logFile) };
  if ('fault' in end)
    return { isLocked: false, failure: notStarted(`: ${process.execPath} cannot be run (${end.fault})`) };
  const said = /^poste: (?<reason>.*?)\.?$/.exec(lastLogLine(paths.logFile, size))?.groups?.['reason'];
  const why = said === undefined ? ` (exit code ${end.code ?? 'none'}): see ${paths.logFile}` : `: ${said}`;
  return { isLocked: end.code === EXIT.conflict, failure: notStarted(why) };
}

/** True when a daemon answered in time; false also when `isOver`. */
async function untilAnswered({ socket }: HostPaths, deadline: number, isOver = () => false): Promise<boolean> {
  while (!(await isListening(socket))) {
    if (isOver() || performance.now() > deadline) return false;
    await elapsed(LOOK_EVERY_MS);
  }
  return true;
}

/** Several daemons that start at once write to one log. Throws `CommandFailed`. */
function openLog({ dataFolder, logFile }: HostPaths): number {
  try {
    makePrivateFolder(dataFolder);
    const size = statSync(logFile, { throwIfNoEntry: false })?.size ?? 0;
    if (size > LOG_BYTES_MAX) renameSync(logFile, `${logFile}.old`);
    return openSync(logFile, 'a', 0o600);
  } catch (error) {
    throw notStarted(`: its log ${logFile} cannot be written (${fileFault(error)})`);
  }
}

function silent(log: string): CommandFailed {
  return notStarted(` (it does not answer): see ${log}`);
}

function notStarted(why: string): CommandFailed {
  return new CommandFailed('failure', 'DAEMON_NOT_STARTED', `the daemon did not start${why}`);
}

/** The last line that was written behind so many bytes. */
function lastLogLine(file: string, from: number): string {
  return readFileSync(file).subarray(from).toString('utf8').trimEnd().split('\n').at(-1) ?? '';
}
