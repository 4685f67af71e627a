/** Seconds of processor time: what something costs, however busy the machine is. */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import type { Environment } from '../test/support/poste-process.ts';
import { childrenOf } from '../test/support/process-tree.ts';

/**
 * The seconds of this process, all its threads; of the thread that runs JavaScript; and of the programs that it
 * started.
 */
export interface CpuSeconds {
  process: number;
  loop: number;
  children: number;
}

export function cpuSeconds(): CpuSeconds {
  const { user, system } = process.cpuUsage();
  const children = childrenOf(process.pid);
  const all = children.concat(children.flatMap(childrenOf));
  return {
    process: (user + system) / 1e6,
    loop: onCpu(`/proc/self/task/${process.pid}/schedstat`),
    children: all.reduce((sum, pid) => sum + onCpu(`/proc/${pid}/schedstat`), 0),
  };
}

/** Microseconds an item since `before`. */
export function usAnItem(before: CpuSeconds, items: number): CpuSeconds {
  const now = cpuSeconds();
  const cost = (of: keyof CpuSeconds): number => ((now[of] - before[of]) * 1e6) / items;
  return { process: cost('process'), loop: cost('loop'), children: cost('children') };
}

/** Returns the seconds of all threads of a process. */
export function cpuSecondsOf(pid: number): number {
  return [...threadSeconds(pid).values()].reduce((sum, { seconds }) => sum + seconds, 0);
}

/** Zero where the system does not tell, or for a process that has ended. */
function onCpu(path: string): number {
  return Number(textOf(path).split(' ')[0]) / 1e9;
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}

/** What the threads of `poste` are for, as the system tells them apart where it was started with `NAMED_THREADS`. */
export const THREADS = [
  'event loop',
  'signature thread',
  'wire thread',
  'audit thread',
  'LevelDB and files',
  "LevelDB's compactions",
  "V8's threads",
  'other threads',
] as const;

const WORKERS: Readonly<Record<string, Thread>> = {
  'signature-worker.js': 'signature thread',
  'wire-worker.js': 'wire thread',
  'audit-worker.js': 'audit thread',
  v8: "V8's threads",
};

/**
 * Before the program begins there are only the threads of V8; the first call of the pool makes all of its threads. A
 * thread that LevelDB makes has the name of the thread of the pool that it was made by, which holds another id. A
 * thread that runs JavaScript names itself.
 */
const NAMING = `import{readdirSync,writeFileSync}from'node:fs';import{stat}from'node:fs/promises';
import{isMainThread}from'node:worker_threads';const all=()=>readdirSync('/proc/self/task');
const name=(id,as)=>writeFileSync('/proc/self/task/'+id+'/comm',as);
if(isMainThread){const had=all();for(const id of had.slice(1))name(id,'v8');await stat('/');
for(const id of all())if(!had.includes(id))name(id,'pool '+id)}
else writeFileSync('/proc/thread-self/comm',process.argv[1].split('/').at(-1))`;

export const NAMED_THREADS: Environment = {
  NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(NAMING)}`,
};

export type Thread = (typeof THREADS)[number];

/** Processor seconds by thread. */
export type ThreadSeconds = Map<string, { kind: Thread; seconds: number }>;

/** Looks at the threads of a process; those that it had in `seen` and has no more keep what they had there. */
export function threadSeconds(pid: number, seen: ThreadSeconds = new Map()): ThreadSeconds {
  const found = new Map(seen);
  const folder = `/proc/${pid}/task`;
  for (const id of existsSync(folder) ? readdirSync(folder) : []) {
    const name = textOf(`${folder}/${id}/comm`).trim();
    const seconds = onCpu(`${folder}/${id}/schedstat`);
    // One that ends while it is looked at has nothing more to say.
    if (name !== '' && seconds > 0) found.set(id, { kind: kindOf(name, id, pid), seconds });
  }
  return found;
}

function kindOf(name: string, id: string, pid: number): Thread {
  if (id === String(pid)) return 'event loop';
  if (name.startsWith('pool ')) return name === `pool ${id}` ? 'LevelDB and files' : "LevelDB's compactions";
  return Object.entries(WORKERS).find(([file]) => file.slice(0, NAME_MAX) === name)?.[1] ?? 'other threads';
}

/** The system cuts the name of a thread after so many bytes. */
const NAME_MAX = 15;
