/** Facts about processes, from `/proc` or else `ps`; and running a program for a bounded time. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { signalGroup } from '../../lib/process-group.ts';
import type { ProcessMark } from '../core/session-rows.ts';

const PS_MS = 1000;

export interface ProcessFacts {
  mark: ProcessMark;
  parentPid: number;
  /** Its process group, and the one in the foreground of its terminal: the same when the terminal shows it. */
  group: number;
  foregroundGroup: number;
}

/** `undefined` when there is no such process; `'unknown'` when it could not be looked at. */
type ProcessLook = ProcessFacts | 'unknown' | undefined;

export type FactsOf = (pid: number, signal: AbortSignal) => Promise<ProcessLook>;

/** The same for as long as this process runs; null where the system has no such file. */
let boot: string | null | undefined;

/** It waits for nothing where there is a /proc: each message asks for the processes of all sessions. */
export async function processFacts(pid: number, signal: AbortSignal): Promise<ProcessLook> {
  try {
    boot ??= textOf('/proc/sys/kernel/random/boot_id')?.trim() ?? null;
    if (boot === null) return await factsByPs(pid, signal);
    const stat = textOf(`/proc/${pid}/stat`);
    return stat === undefined ? undefined : factsOfStat(pid, boot, stat);
  } catch {
    return 'unknown';
  }
}

/** Says whether the same process still runs. One that cannot be looked at counts as running: nothing of it is ended. */
export async function isRunning(mark: ProcessMark, factsOf: FactsOf, signal: AbortSignal): Promise<boolean> {
  const facts = await factsOf(mark.pid, signal);
  return facts === 'unknown' || facts?.mark.startedAt === mark.startedAt;
}

/** A line of proc_pid_stat(5). The name, in brackets, may hold anything. */
export function factsOfStat(pid: number, boot: string, stat: string): ProcessFacts | undefined {
  const [state, ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [parentPid, group, , , foregroundGroup] = rest.map(Number);
  const ticks = rest[18];
  if (state === 'Z' || state === 'X') return undefined;
  if (parentPid === undefined || group === undefined || foregroundGroup === undefined || ticks === undefined) {
    return undefined;
  }
  return { mark: { pid, startedAt: `${boot} ${ticks}` }, parentPid, group, foregroundGroup };
}

/** Its start is a text: the same one in every language and time zone that the daemon may be started in. */
const PS_ENVIRONMENT = { LC_ALL: 'C', TZ: 'UTC0' };

export async function factsByPs(pid: number, signal: AbortSignal): Promise<ProcessLook> {
  const columns = ['ppid', 'pgid', 'tpgid', 'stat', 'lstart'].flatMap((name) => ['-o', `${name}=`]);
  const options = { timeoutMs: PS_MS, signal, environment: PS_ENVIRONMENT };
  const { code, stdout } = await runBounded('ps', ['-p', String(pid), ...columns], options);
  // It was not started, or took too long.
  if (code === null) return 'unknown';
  return code === 0 ? factsOfPs(pid, stdout) : undefined;
}

/** A line of `ps -o ppid= -o pgid= -o tpgid= -o stat= -o lstart=`. */
export function factsOfPs(pid: number, line: string): ProcessFacts | undefined {
  const [parentPid, group, foregroundGroup, state = 'Z', ...started] = line.trim().split(/ +/);
  if (state.startsWith('Z') || started.length === 0) return undefined;
  return {
    mark: { pid, startedAt: started.join(' ') },
    parentPid: Number(parentPid),
    group: Number(group),
    foregroundGroup: Number(foregroundGroup),
  };
}

/** These say that a file of /proc is not there: the process ended before or while it was read. */
const ABSENT: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ESRCH', 'ENOTDIR']);

/** `undefined` when there is no such file. Throws other errors of the system. */
function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (ABSENT.has((error as NodeJS.ErrnoException).code)) return undefined;
    throw error;
  }
}

/** The time between SIGTERM and SIGKILL. */
const END_MS = 500;
/** The output of a program is read so long after its end, where a child of it holds the pipes open. */
const REST_MS = 200;
const OUTPUT_BYTES_MAX = 64 * 1024;

interface RunOptions {
  timeoutMs: number;
  /** Ends it early. */
  signal: AbortSignal;
  /** Variables besides those of this process. */
  environment?: Readonly<Record<string, string>>;
}

interface Ran {
  /** Its exit code; null when it could not be started, or was ended. */
  code: number | null;
  stdout: string;
  stderr: string;
}

/**
 * Runs a program without a shell. Never rejects. Its stdin is empty, and 64 KiB of each output are kept. It leads its
 * own process group, which is ended as a whole.
 */
export function runBounded(
  program: string,
  args: readonly string[],
  { timeoutMs, signal, environment }: RunOptions,
): Promise<Ran> {
  if (signal.aborted) return Promise.resolve({ code: null, stdout: '', stderr: '' });
  return new Promise((resolve) => {
    const env = { ...process.env, ...environment };
    const child: ChildProcess = spawn(program, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
      cwd: '/',
      env,
    });
    // Without a file left to open it has no pipes.
    const stdout = collectText(child.stdout);
    const stderr = collectText(child.stderr);
    let killing: NodeJS.Timeout | undefined;
    let resting: NodeJS.Timeout | undefined;
    const end = (): void => {
      signalGroup(child.pid, 'SIGTERM');
      killing ??= setTimeout(() => signalGroup(child.pid, 'SIGKILL'), END_MS);
    };
    const timer = setTimeout(end, timeoutMs);
    signal.addEventListener('abort', end);
    const done = (code: number | null): void => {
      clearTimeout(timer);
      clearTimeout(killing);
      clearTimeout(resting);
      signal.removeEventListener('abort', end);
      // A child of the program may hold its ends of the pipes open.
      child.stdout?.destroy();
      child.stderr?.destroy();
      resolve({ code, stdout: stdout(), stderr: stderr() });
    };
    child.once('error', () => done(null));
    child.once('exit', (code) => {
      // Its children end too, if it was ended.
      if (killing) signalGroup(child.pid, 'SIGKILL');
      // The rest of its output is in the pipe.
      resting = setTimeout(() => done(code), REST_MS);
    });
    child.once('close', done);
  });
}

function collectText(stream: Readable | null | undefined): () => string {
  const chunks: Buffer[] = [];
  let bytes = 0;
  stream?.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes <= OUTPUT_BYTES_MAX) chunks.push(chunk);
  });
  return () => Buffer.concat(chunks).toString('utf8');
}
