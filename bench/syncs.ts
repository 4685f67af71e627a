/**
 * Counts how often a server asks the system to put data on disk while something runs: what its durability really is.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Program, findProgram } from '../test/support/programs.ts';

const STRACE: Program = {
  title: 'strace',
  variable: 'POSTE_STRACE',
  names: ['strace'],
  places: [],
  install: 'apt-get install strace',
};

/**
 * The calls that get data to the disk: those that sync, with the writes of a relay's position, each of which is synced;
 * or every write where the file system syncs each of them.
 */
export type SyncedBy = 'syncs' | 'writes';

const CALLS: Readonly<Record<SyncedBy, { traced: string; line: RegExp }>> = {
  syncs: {
    traced: 'fsync,fdatasync,msync,sync_file_range,syncfs,sync,pwrite64',
    line: /^\d+ +(?:[a-z_]+\(|pwrite64\(\d+<[^>]*\/position>)/,
  },
  writes: { traced: 'write,pwrite64,writev,pwritev', line: /^\d+ +[a-z0-9]+\(\d+<[^>]*\/poste-bench-/ },
};

/** Counts the calls of a process, its threads and children during `work`; `undefined` where strace may not run. */
export async function syncsDuring(
  pid: number,
  syncedBy: SyncedBy,
  work: () => Promise<void>,
): Promise<number | undefined> {
  const strace = findProgram(STRACE);
  if (strace === undefined) return undefined;
  const folder = await mkdtemp(join(tmpdir(), 'poste-bench-'));
  const file = join(folder, 'trace');
  const { traced, line: counted } = CALLS[syncedBy];
  const shown = ['-f', '-y', '-s', '0', '-e', `trace=${traced}`, '-e', 'signal=none'];
  const child = spawn(strace, [...shown, '-o', file, '-p', String(pid)], { stdio: ['ignore', 'ignore', 'pipe'] });
  try {
    const exited = once(child, 'exit');
    const [said] = (await Promise.race([once(child.stderr, 'data'), exited])) as [Buffer | number | null];
    if (!Buffer.isBuffer(said) || !said.includes('attached')) return undefined;
    await work();
    child.kill('SIGINT');
    await exited;
    // A call that another thread interrupts is on two lines; the second says that it was resumed.
    return (await readFile(file, 'latin1')).split('\n').filter((line) => counted.test(line)).length;
  } finally {
    child.kill('SIGKILL');
    await rm(folder, { recursive: true, force: true });
  }
}
