/** Seconds of processor time: what something costs, however busy the machine is. */
import { readFileSync } from 'node:fs';
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
  const [, , ...fields] = readFileSync(`/proc/${pid}/stat`, 'latin1')
    .replace(/\(.*\)/, '()')
    .split(' ');
  // Fields 14 and 15 of proc(5), in hundredths of a second.
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** Zero where the system does not tell, or for a process that has ended. */
function onCpu(path: string): number {
  try {
    return Number(readFileSync(path, 'latin1').split(' ')[0]) / 1e9;
  } catch {
    return 0;
  }
}
