/** What the operating system says of a process: by `/proc` where there is one, else by `ps`. */
import { readFile } from 'node:fs/promises';
import type { ProcessMark } from '../core/rows.ts';
import { runBounded } from './run-bounded.ts';

const PS_MS = 1000;

export interface ProcessFacts {
  mark: ProcessMark;
  parentPid: number;
  /** Its process group, and the one in the foreground of its terminal: the same when the terminal shows it. */
  group: number;
  foregroundGroup: number;
}

export type FactsOf = (pid: number, signal: AbortSignal) => Promise<ProcessFacts | undefined>;

/** `undefined` when there is no such process. */
export async function processFacts(pid: number, signal: AbortSignal): Promise<ProcessFacts | undefined> {
  const boot = await textOf('/proc/sys/kernel/random/boot_id');
  if (boot === undefined) return factsByPs(pid, signal);
  const stat = await textOf(`/proc/${pid}/stat`);
  return stat === undefined ? undefined : factsOfStat(pid, boot.trim(), stat);
}

/** Whether it still is the process that it was. */
export async function isRunning(mark: ProcessMark, factsOf: FactsOf, signal: AbortSignal): Promise<boolean> {
  const facts = await factsOf(mark.pid, signal);
  return facts?.mark.startedAt === mark.startedAt;
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

async function factsByPs(pid: number, signal: AbortSignal): Promise<ProcessFacts | undefined> {
  const columns = ['ppid', 'pgid', 'tpgid', 'stat', 'lstart'].flatMap((name) => ['-o', `${name}=`]);
  const { code, stdout } = await runBounded('ps', ['-p', String(pid), ...columns], { timeoutMs: PS_MS, signal });
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

async function textOf(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch {
    return undefined;
  }
}
