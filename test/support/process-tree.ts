/** The children of a process, and whether a process is still there: what a program started, by its ids. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';

const HAS_PROC = existsSync('/proc/self/stat');

export function childrenOf(parent: number): number[] {
  if (HAS_PROC) return numbersOf(readFileSync(`/proc/${parent}/task/${parent}/children`, 'utf8'));
  const lines = execFileSync('/bin/ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' }).split('\n').map(numbersOf);
  return lines.flatMap(([pid, of]) => (pid !== undefined && of === parent ? [pid] : []));
}

/** Also when it has ended and nobody has asked for its exit code yet. */
export function isGone(pid: number): boolean {
  try {
    if (!HAS_PROC) return !process.kill(pid, 0);
    // Behind the name of the program, which is in brackets and may hold any sign.
    const [state] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1) ?? '';
    return state === 'Z' || state === 'X';
  } catch {
    return true;
  }
}

/** Nothing when the process is gone already. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

function numbersOf(text: string): number[] {
  return text.trim().split(/\s+/).filter(Boolean).map(Number);
}
