/** A real relay in a process of its own, on a store of its own, for one benchmark. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { PublicKey } from '../src/protocol/public-key.ts';

export interface BenchRelay {
  pid: number;
  port: number;
  relayPubkey: PublicKey;
  server: string;
  folder: string;
  /** Milliseconds from its start until it listened. */
  readyMs: number;
  /** Resident memory in MB now, and at most so far, where the system tells. */
  rssMb(): number | undefined;
  peakMb(): number | undefined;
  /** As `rssMb`, without the files that are mapped, which the system takes back when it needs memory. */
  anonMb(): number | undefined;
  stop(): Promise<void>;
}

/** That of `namedSigner('relay')`. */
export const RELAY_KEY: string = createHash('sha256').update('bench relay').digest('base64');

/** Room for what a benchmark pushes; everything else as documented. */
const LIMITS = {
  max_queue_items: 1_000_000,
  max_queue_bytes: 4_000_000_000,
  max_sender_items: 1_000_000,
  max_sender_bytes: 4_000_000_000,
};

interface BenchRelayOptions {
  /** Flags of a shared log, whose relay key is that of `namedSigner('relay')`. */
  log?: readonly string[];
  /** A store that was made before, which the caller removes. */
  folder?: string;
}

export async function startBenchRelay({ log = [], folder: given }: BenchRelayOptions = {}): Promise<BenchRelay> {
  const folder = given ?? mkdtempSync(join(tmpdir(), 'poste-bench-'));
  const flags = [
    '--store-dir',
    folder,
    '--position-file',
    join(folder, 'position'),
    '--listen',
    '127.0.0.1:0',
    '--admin-listen',
    'off',
    '--backup-dir',
    'off',
    '--json',
  ];
  const room = ['--limits', JSON.stringify(LIMITS), '--pushes-per-minute', '1000000', '--enrol-rate', '1000000'];
  const more = ['--max-enrolments', '200000', '--max-dedup-rows', '100000000', '--log-level', 'warn'];
  const program = new URL('../dist/cli/main.js', import.meta.url).pathname;
  const startedMs = performance.now();
  const child = spawn(process.execPath, [program, 'relay', 'serve', ...flags, ...room, ...more, ...log], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...(log.length > 0 && { MAIL_RELAY_KEY: RELAY_KEY }) },
  });
  // Whatever ends the benchmark ends its relay.
  const endWithBench = (): void => void child.kill('SIGKILL');
  process.once('exit', endWithBench);
  const start = JSON.parse(await firstLine(child)) as { url: string; relay_pubkey: PublicKey; server: string };
  const readyMs = performance.now() - startedMs;
  return {
    pid: child.pid ?? 0,
    port: Number(new URL(start.url).port),
    relayPubkey: start.relay_pubkey,
    server: start.server,
    folder,
    readyMs,
    rssMb: () => memoryMb(child.pid, 'VmRSS'),
    peakMb: () => memoryMb(child.pid, 'VmHWM'),
    anonMb: () => memoryMb(child.pid, 'RssAnon'),
    stop: async () => {
      const ended = new Promise((resolve) => {
        child.once('exit', resolve);
      });
      child.kill('SIGTERM');
      await ended;
      process.off('exit', endWithBench);
      if (given === undefined) rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Resident memory of a process in MB, now or at most so far; `undefined` where the system does not tell. */
function memoryMb(pid: number | undefined, field: 'VmRSS' | 'VmHWM' | 'RssAnon'): number | undefined {
  try {
    const line = new RegExp(`^${field}:\\s+(\\d+) kB`, 'm');
    const kib = line.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1];
    return kib === undefined ? undefined : Number(kib) / 1024;
  } catch {
    return undefined;
  }
}

function firstLine(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    child.stdout?.on('data', (chunk: Buffer) => {
      text += chunk.toString('utf8');
      if (text.includes('\n')) resolve(text.slice(0, text.indexOf('\n')));
    });
    child.once('exit', (code) => reject(new Error(`the relay ended with exit code ${code}`)));
  });
}
