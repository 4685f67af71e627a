/** A process group as a whole. A child that was started with `detached` leads its own. */

import { type ChildProcess, spawn, type SpawnOptions } from 'node:child_process';
import { once } from 'node:events';

/** Starts a program as the leader of a group. Resolves once it runs. Throws errors of the system. */
export async function startGroup(words: readonly string[], options: SpawnOptions): Promise<ChildProcess> {
  const [program = '', ...args] = words;
  const child = spawn(program, args, { ...options, detached: true });
  await once(child, 'spawn');
  return child;
}

/** Sends a signal to the group that `pid` leads. A group that has ended is left alone. */
export function signalGroup(pid: number | undefined, name: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, name);
  } catch {
    // It has ended.
  }
}

/**
 * Sends SIGTERM to the group that `pid` leads, and SIGKILL after `graceMs`. Returns a function that sends SIGKILL at
 * once.
 */
export function endGroup(pid: number | undefined, graceMs: number): () => void {
  signalGroup(pid, 'SIGTERM');
  const killing = setTimeout(() => signalGroup(pid, 'SIGKILL'), graceMs);
  return () => {
    clearTimeout(killing);
    signalGroup(pid, 'SIGKILL');
  };
}

/** Ends a child and its group: with SIGTERM, and after `graceMs` with SIGKILL. Resolves when the child has ended. */
export async function endChild(child: ChildProcess, graceMs: number): Promise<void> {
  const { pid } = child;
  if (child.exitCode !== null || child.signalCode !== null) return signalGroup(pid, 'SIGKILL');
  if (pid === undefined) return undefined;
  const exited = new Promise<void>((resolve) => {
    child.once('exit', () => resolve());
  });
  const finish = endGroup(pid, graceMs);
  await exited;
  return finish();
}

/** Resolves with how a child ended, in words after its name. */
export function howItEnded(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('exit', (code, name) =>
      resolve(code === null ? `was ended by ${name ?? 'a signal'}` : `ended with exit code ${code}`),
    );
    child.once('error', ({ message }) => resolve(`could not be started (${message})`));
  });
}
