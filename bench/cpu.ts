/**
 * Processor time as figures: microseconds of each kind of thread of a process for an item, a MB, an event or a message.
 * It says what a step costs however busy the machine is, which a rate does not.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { PosteProcess } from '../test/support/poste-process.ts';
import { ofBuild } from './build.ts';
import { NAMED_THREADS, THREADS, type ThreadSeconds, threadSeconds } from './cpu-seconds.ts';
import { type Figure, less } from './report.ts';

const LOOK_EVERY_MS = 50;

export interface Cost {
  /** What the threads took before counts no more. */
  begin: () => void;
  figures: (name: string, count: number, goal?: number) => Figure[];
}

/** What the threads of a process take; `goal` is that of the sum. */
export function costOf(pid: number): Cost {
  let before: ThreadSeconds = new Map();
  return {
    begin: () => void (before = threadSeconds(pid)),
    figures: (name, count, goal) => figuresOf(name, count, { before, after: threadSeconds(pid) }, goal),
  };
}

/** Runs `poste` to its end; resolves with its JSON document, its seconds, and what its threads took. */
export async function costOfCommand(...args: string[]): Promise<{ document: object; seconds: number; cost: Cost }> {
  const startedMs = performance.now();
  const command = new PosteProcess([...args, '--json'], NAMED_THREADS, { main: ofBuild('dist/cli/main.js') });
  let after: ThreadSeconds = new Map();
  while (command.isRunning) {
    after = threadSeconds(command.pid, after);
    await pause(LOOK_EVERY_MS);
  }
  const seconds = (performance.now() - startedMs) / 1000;
  const { code, stdout, stderr } = await command.ended();
  if (code !== 0) throw new Error(`poste ${args.join(' ')} ended with ${code}: ${stdout} ${stderr}`);
  const seen = { before: new Map(), after };
  const figures: Cost['figures'] = (name, count, goal) => figuresOf(name, count, seen, goal);
  return { document: JSON.parse(stdout) as object, seconds, cost: { begin: () => undefined, figures } };
}

/** A figure for all threads, and one for each kind that did anything. */
function figuresOf(
  name: string,
  count: number,
  { before, after }: { before: ThreadSeconds; after: ThreadSeconds },
  goal?: number,
): Figure[] {
  const costs = new Map<string, number>();
  let all = 0;
  for (const [id, { kind, seconds }] of after) {
    const us = ((seconds - (before.get(id)?.seconds ?? 0)) * 1e6) / count;
    costs.set(kind, (costs.get(kind) ?? 0) + us);
    all += us;
  }
  const kinds = THREADS.filter((kind) => (costs.get(kind) ?? 0) > 0);
  return [
    less(`${name}: all threads`, 'us', all, goal),
    ...kinds.map((kind) => less(`${name}: ${kind}`, 'us', costs.get(kind) ?? 0)),
  ];
}
