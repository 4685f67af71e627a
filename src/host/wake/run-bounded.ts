/** Runs a program without a shell, for a bounded time. */
import { spawn } from 'node:child_process';

/** A program that is told to end has so long before it is ended. */
const END_MS = 500;
const OUTPUT_BYTES_MAX = 64 * 1024;

export interface RunOptions {
  timeoutMs: number;
  /** Ends it early. */
  signal: AbortSignal;
}

export interface Ran {
  /** Its exit code; null when it could not be started, or was ended. */
  code: number | null;
  stdout: string;
}

/**
 * Never rejects. The program reads nothing and what it says on stderr is passed over. It leads a process group of its
 * own, which is ended as a whole.
 */
export function runBounded(program: string, args: readonly string[], { timeoutMs, signal }: RunOptions): Promise<Ran> {
  if (signal.aborted) return Promise.resolve({ code: null, stdout: '' });
  return new Promise((resolve) => {
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'ignore'], detached: true, cwd: '/' });
    const chunks: Buffer[] = [];
    let bytes = 0;
    child.stdout.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= OUTPUT_BYTES_MAX) chunks.push(chunk);
    });
    let killing: NodeJS.Timeout | undefined;
    const end = (): void => {
      sendToGroup(child.pid, 'SIGTERM');
      killing ??= setTimeout(() => sendToGroup(child.pid, 'SIGKILL'), END_MS);
    };
    const timer = setTimeout(end, timeoutMs);
    signal.addEventListener('abort', end);
    const done = (code: number | null): void => {
      clearTimeout(timer);
      clearTimeout(killing);
      signal.removeEventListener('abort', end);
      // A child of the program may hold its end of the pipe open.
      child.stdout.destroy();
      resolve({ code, stdout: Buffer.concat(chunks).toString('utf8') });
    };
    child.once('error', () => done(null));
    child.once('exit', (code) => {
      // What it left behind goes too, when it was ended.
      if (killing) sendToGroup(child.pid, 'SIGKILL');
      // The rest of what it said is in the pipe.
      setImmediate(() => done(code));
    });
  });
}

function sendToGroup(pid: number | undefined, name: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, name);
  } catch {
    // It has ended.
  }
}
