/**
 * Faults of the system in a real `poste` process, by strace: a call fails with EIO or ENOSPC, or the process is killed
 * before it.
 *
 * A run without a fault is recorded first: which calls it makes of files below a folder. Then the run is repeated with
 * the fault at one of them. strace counts calls for each thread and by their names, so the thread pool of libuv has one
 * thread in these processes: nearly every call is made there, in the same order each time. Where another thread makes
 * as many, the fault happens there as well.
 */
import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import type { TestContext } from 'vitest';
import { type Environment, type PosteProcess, poste } from './poste-process.ts';
import { NEEDS, STRACE, neededProgram } from './programs.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** Calls that open or change files and folders. */
const CALLS = [
  'openat',
  'write',
  'pwrite64',
  'writev',
  'pwritev',
  'copy_file_range',
  'sendfile',
  'fsync',
  'fdatasync',
  'ftruncate',
  'rename',
  'renameat2',
  'link',
  'symlink',
  'unlink',
  'unlinkat',
  'mkdir',
  'rmdir',
];

/** LevelDB writes it for people to read, and does without. */
const UNIMPORTANT = /\/LOG(?:\.old)?$/;

export const FAULT_KINDS = ['kill', 'EIO', 'ENOSPC'] as const;

export interface Fault {
  /** `kill`: the process is killed before the call; else the call fails with the error and is not made. */
  what: (typeof FAULT_KINDS)[number];
  call: string;
  /** The number of the call among those with that name, from 1. */
  at: number;
}

/** A run did this to files below a folder. */
export interface Recording {
  /** The calls by their names, each with how many there were in the thread that made most. */
  counts: ReadonlyMap<string, number>;
  /** The files, as paths from the folder. */
  paths: readonly string[];
}

/** The file of strace for one test, which is skipped where there is none or where it may not trace. */
export function neededStrace(context: Pick<TestContext, 'skip'>): string {
  const strace = neededProgram(context, STRACE);
  const { status } = spawnSync(strace, ['-qq', '-o', '/dev/null', process.execPath, '--version']);
  return status === 0 ? strace : context.skip(`${NEEDS}a system where strace may trace (ptrace is not permitted here)`);
}

/** Starts `poste` and records it; `recorded` is to be asked when it has ended. Call it inside a test. */
export async function recordedPoste(
  strace: string,
  args: readonly string[],
  environment: Environment,
): Promise<{ process: PosteProcess; recorded: (folder: string) => Promise<Recording> }> {
  const file = join(await temporaryFolder(), 'calls');
  const under = [strace, ...HOW, '-y', '-o', file, '-e', `trace=${CALLS.join(',')}`];
  const started = poste(args, { ...environment, UV_THREADPOOL_SIZE: '1' }, { under });
  return { process: started, recorded: async (folder) => recordingOf(await readFile(file, 'utf8'), folder) };
}

/**
 * Starts `poste` with a fault among the calls of a recording, in another folder of the same contents. Call it inside a
 * test.
 */
export function faultyPoste(
  strace: string,
  args: readonly string[],
  environment: Environment,
  { folder, recording: { paths } }: { folder: string; recording: Recording },
  { what, call, at }: Fault,
): PosteProcess {
  const how = what === 'kill' ? 'signal=KILL' : `error=${what}`;
  const ofPaths = paths.flatMap((path) => ['-P', join(folder, path)]);
  const inject = ['-e', `trace=${call}`, '-e', `inject=${call}:${how}:when=${at}`];
  const under = [strace, ...HOW, '-o', '/dev/null', ...inject, ...ofPaths];
  return poste(args, { ...environment, UV_THREADPOOL_SIZE: '1' }, { under });
}

/** Every fault of one kind that a recording has room for. */
export function faultsOf({ counts }: Recording, what: Fault['what']): Fault[] {
  return [...counts].flatMap(([call, count]) =>
    Array.from({ length: count }, (_none, before) => ({ what, call, at: before + 1 })),
  );
}

/** All threads, quietly, and the process stays the child of the one that starts strace. */
const HOW = ['-D', '-f', '-qq', '-e', 'signal=none'];

function recordingOf(text: string, folder: string): Recording {
  const paths = new Set<string>();
  const counts = new Map<string, Map<string, number>>();
  for (const line of text.split('\n')) {
    const [, thread = '', call = '', rest = ''] = /^(\d+) +(\w+)\((.*)$/.exec(line) ?? [];
    const named = [...rest.matchAll(/["<](?<path>\/[^">]*)[">]/g)].map(({ groups }) => groups?.['path'] ?? '');
    const ours = named.filter((path) => path.startsWith(folder) && !UNIMPORTANT.test(path));
    if (ours.length === 0) continue;
    for (const path of ours) paths.add(relative(folder, path));
    const ofCall = counts.get(call) ?? new Map<string, number>();
    counts.set(call, ofCall.set(thread, (ofCall.get(thread) ?? 0) + 1));
  }
  const most = [...counts].map(([call, threads]) => [call, Math.max(...threads.values())] as const);
  return { counts: new Map(most), paths: [...paths] };
}
