/**
 * `poste` as a process of its own, from `dist` (npm test builds it first). Every process is ended by its own id when
 * its test is over, whatever became of the test.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { atTestEnd } from './test-end.ts';

const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
/** A process may take this long to start or to end before its test fails. */
const PATIENCE_MS = 90_000;

export type Environment = Readonly<Record<string, string>>;

/** A process whose wall clock is ahead by as many milliseconds as the file says at the time. */
export function movableClock(file: string): Environment {
  const preload = `import{readFileSync}from'node:fs';const real=Date.now;let ahead=0;
    const look=()=>{try{ahead=Number(readFileSync(${JSON.stringify(file)},'utf8'))}catch{}};
    look();setInterval(look,50).unref();Date.now=()=>real()+ahead`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(preload)}` };
}

export interface ProcessOptions {
  /** The number of files that it may have open; as many as this process when absent. */
  openFilesMax?: number;
  /** The program of another build. */
  main?: string;
  /** A program with its arguments that starts the process, and becomes it or leaves it this one's child. */
  under?: readonly string[];
}

export interface Ended {
  /** The exit code; `null` when a signal ended it. */
  code: number | null;
  signal: string | null;
  stdout: string;
  stderr: string;
}

/** The document that `relay serve --json` prints when it is ready. */
export interface StartDocument {
  url: string;
  admin_url: string | null;
  store: string;
  key: string;
  relay_pubkey: string;
  fingerprint: string;
  epoch: string;
  server: string;
  server_why: string | null;
  authority: string;
  issuer: string | null;
  initialised: boolean;
  notices: string[];
  pid: number;
}

/**
 * Returns what commands have of this process's environment: its state folder is one of the test run. A daemon that
 * nobody asked for would outlive its test: a test that wants one gives `--start`, or an empty POSTE_NO_START.
 */
export function ownEnvironment(): Environment {
  const { PATH = '', HOME = '', XDG_STATE_HOME = '' } = process.env;
  return { PATH, HOME, XDG_STATE_HOME, NO_COLOR: '1', POSTE_NO_START: '1' };
}

/** The processes that still run: whatever ends this process ends them. */
const children = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
});

export class PosteProcess {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  #stdout = '';
  #stderr = '';

  constructor(
    args: readonly string[],
    environment: Environment,
    { openFilesMax, main = MAIN, under = [] }: ProcessOptions,
  ) {
    const env = { ...ownEnvironment(), ...environment };
    const command = [...under, process.execPath, main, ...args];
    const [program = '', ...rest] =
      openFilesMax === undefined
        ? command
        : ['/bin/sh', '-c', `ulimit -n ${openFilesMax} && exec "$0" "$@"`, ...command];
    this.#child = spawn(program, rest, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    children.add(this.#child);
    this.#ended = once(this.#child, 'close').finally(() => children.delete(this.#child));
    // Any number of callers may wait for what it prints.
    this.#child.stdout?.setMaxListeners(0);
    this.#child.stdout?.on('data', (chunk: Buffer) => {
      this.#stdout += chunk.toString();
    });
    this.#child.stderr?.on('data', (chunk: Buffer) => {
      this.#stderr += chunk.toString();
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  get stdout(): string {
    return this.#stdout;
  }

  get stderr(): string {
    return this.#stderr;
  }

  /** Resolves when standard output holds `text`. Rejects when the process ends without it. */
  async printed(text: string): Promise<void> {
    const deadline = AbortSignal.timeout(PATIENCE_MS);
    while (!this.#stdout.includes(text)) {
      const more = once(this.#child.stdout ?? this.#child, 'data', { signal: deadline });
      await Promise.race([more, this.#ended]);
      if (this.#child.exitCode !== null || this.#child.signalCode !== null) {
        await this.#ended;
        if (!this.#stdout.includes(text))
          throw new Error(`ended with ${this.#child.exitCode ?? this.#child.signalCode}: ${this.#stderr}`);
      }
    }
  }

  /** Reads nothing any more, as a reader that ends. */
  leave(): void {
    this.#child.stdout?.destroy();
  }

  /** Takes nothing for now: what the process writes waits in its pipe. */
  stall(): void {
    this.#child.stdout?.pause();
  }

  /** Takes nothing of its log. */
  stallLog(): void {
    this.#child.stderr?.pause();
  }

  readLog(): void {
    this.#child.stderr?.resume();
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  /** Resolves when the process has ended; ends it itself when it takes too long. */
  async ended(): Promise<Ended> {
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), PATIENCE_MS);
    await this.#ended;
    clearTimeout(timer);
    const { exitCode: code, signalCode: signal } = this.#child;
    return { code, signal, stdout: this.#stdout, stderr: this.#stderr };
  }

  /** Ends the process on the spot, if it has not ended. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ended;
  }
}

/** Starts `poste`; call it inside a test. */
export function poste(
  args: readonly string[],
  environment: Environment = {},
  options: ProcessOptions = {},
): PosteProcess {
  const started = new PosteProcess(args, environment, options);
  atTestEnd(() => started.kill());
  return started;
}

/** Runs `poste` to its end. */
export function run(args: readonly string[], environment: Environment = {}): Promise<Ended> {
  return poste(args, environment).ended();
}

export interface RelayProcess {
  process: PosteProcess;
  start: StartDocument;
}

/** `relay serve` on free ports of 127.0.0.1, ready. What `args` say of ports goes first. */
export async function relayProcess(
  storeDir: string,
  args: readonly string[] = [],
  environment: Environment = {},
  options: ProcessOptions = {},
): Promise<RelayProcess> {
  return readyRelay(poste([...serveArgs(storeDir, args), '--json'], environment, options));
}

/** Resolves when a relay that was started with `--json` listens. */
export async function readyRelay(started: PosteProcess): Promise<RelayProcess> {
  await started.printed('}\n');
  return { process: started, start: JSON.parse(started.stdout) as StartDocument };
}

/** The arguments of `relay serve`: free ports and a quiet log unless `args` say otherwise. */
export function serveArgs(storeDir: string, args: readonly string[] = []): string[] {
  const defaults = Object.entries({
    '--listen': '127.0.0.1:0',
    '--admin-listen': 'off',
    '--log-level': 'warn',
    '--backup-dir': 'off',
  });
  const added = defaults.flatMap(([name, value]) => (args.includes(name) ? [] : [name, value]));
  return ['relay', 'serve', '--store-dir', storeDir, ...added, ...args];
}
