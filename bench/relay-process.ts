/** A real relay in a process of its own, on a store of its own, for one benchmark. */
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { PublicKey } from '../src/protocol/public-key.ts';
import { ofBuild } from './build.ts';
import { type Environment, PosteProcess, readyRelay, serveArgs } from '../test/support/poste-process.ts';

export interface BenchRelay {
  pid: number;
  port: number;
  relayPubkey: PublicKey;
  server: string;
  folder: string;
  /** Milliseconds from its start until it listened. */
  readyMs: number;
  memoryMb(field: MemoryField): number;
  stop(): Promise<void>;
}

/** Resident memory now, at most so far, and now without the files that are mapped, which the system takes back. */
type MemoryField = 'VmRSS' | 'VmHWM' | 'RssAnon';

/** The relay key that is the one of `namedSigner('relay')`. */
export const RELAY_KEY: string = createHash('sha256').update('bench relay').digest('base64');

const LIMITS = {
  max_queue_items: 1_000_000,
  max_queue_bytes: 4_000_000_000,
  max_sender_items: 1_000_000,
  max_sender_bytes: 4_000_000_000,
};

/** Room for what a benchmark pushes; everything else as documented. */
export const ROOM_ARGS: readonly string[] = Object.entries({
  limits: JSON.stringify(LIMITS),
  'pushes-per-minute': '1000000',
  'enrol-rate': '1000000',
  'max-enrolments': '200000',
  'max-dedup-rows': '100000000',
}).flatMap(([name, value]) => [`--${name}`, value]);

interface BenchRelayOptions {
  args?: readonly string[];
  environment?: Environment;
  /** A store that was made before, which the caller removes. */
  folder?: string;
}

export async function startBenchRelay(options: BenchRelayOptions = {}): Promise<BenchRelay> {
  const { args = [], environment = {}, folder: given } = options;
  const folder = given ?? mkdtempSync(join(tmpdir(), 'poste-bench-'));
  const served = serveArgs(folder, ['--position-file', join(folder, 'position'), ...ROOM_ARGS, ...args]);
  const startedMs = performance.now();
  const child = new PosteProcess(
    [...served, '--json'],
    { ...(process.env as Environment), ...environment },
    {
      main: ofBuild('dist/cli/main.js'),
    },
  );
  const { start } = await readyRelay(child);
  const readyMs = performance.now() - startedMs;
  return {
    pid: child.pid,
    port: Number(new URL(start.url).port),
    relayPubkey: start.relay_pubkey as PublicKey,
    server: start.server,
    folder,
    readyMs,
    memoryMb: (field) => memoryMb(child.pid, field),
    stop: async () => {
      child.signal('SIGTERM');
      process.stderr.write((await child.ended()).stderr);
      if (given === undefined) rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Resident memory of a process in MB; `NaN` where the system does not tell. */
export function memoryMb(pid: number, field: MemoryField): number {
  try {
    const line = new RegExp(`^${field}:\\s+(\\d+) kB`, 'm');
    return Number(line.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? Number.NaN) / 1024;
  } catch {
    return Number.NaN;
  }
}
