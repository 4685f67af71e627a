/** Another system that keeps what it is given, as `npm run bench:peers` measures it beside a relay. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createConnection } from 'node:net';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '../scripts/until.ts';
import type { SyncedBy } from './syncs.ts';

export interface Peer {
  /** The process of its server. */
  pid: number;
  version: string;
  /** A sentence says what is on disk when it answers. */
  durability: string;
  syncedBy: SyncedBy;
  connect(): Promise<PeerConnection>;
  stop(): Promise<void>;
}

export interface PeerConnection {
  /** Resolves when the server has answered for each of the items. */
  push(items: readonly Buffer[]): Promise<void>;
  close(): Promise<void>;
}

/** A server in a temporary folder, which goes with it. */
export interface PeerServer {
  pid: number;
  stop(): Promise<void>;
}

/** Starts a server that will listen at `port` of 127.0.0.1; `args` are told its folder. */
export async function startServer(
  program: string,
  port: number,
  args: (folder: string) => Promise<readonly string[]>,
): Promise<PeerServer> {
  const folder = await mkdtemp(join(tmpdir(), 'poste-bench-'));
  const child = spawn(program, await args(folder), { stdio: ['ignore', 'ignore', 'inherit'], cwd: folder });
  const end = (): void => void child.kill('SIGKILL');
  // Whatever ends the benchmark ends its servers.
  process.once('exit', end);
  const stop = async (): Promise<void> => {
    process.off('exit', end);
    if (child.exitCode === null && child.signalCode === null) {
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      await exited;
    }
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await once(child, 'spawn');
    await listens(child, program, port);
    return { pid: child.pid ?? 0, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function listens(child: ChildProcess, program: string, port: number): Promise<void> {
  await until(`${program} listens at port ${port}`, async () => {
    if (child.exitCode !== null) throw new Error(`${program} ended with exit code ${child.exitCode}`);
    return (await answers(port)) || undefined;
  });
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection({ host: '127.0.0.1', port });
    const done = (is: boolean) => (): void => {
      socket.destroy();
      resolve(is);
    };
    socket.once('connect', done(true));
    socket.once('error', done(false));
  });
}
