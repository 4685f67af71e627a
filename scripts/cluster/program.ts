/** A process of the cluster that is a program of ours: a relay, or the proxy. Its log is a file of the folder. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';

/**
 * The codes of the systemd unit (scripts/deploy/poste-relay.service): an end with one of these is not mended by a new
 * start.
 */
const NOT_MENDED = new Set([0, 2, 5]);
const START_AGAIN_AFTER_MS = 1_000;

interface ProgramOptions {
  name: string;
  port: number;
  args: readonly string[];
  env: Readonly<Record<string, string>>;
  logFile: string;
  say: (what: string) => void;
  /** Returns what it tells its parent. */
  onMessage?: (message: unknown) => void;
}

export class Program {
  readonly name: string;
  readonly port: number;
  readonly #options: ProgramOptions;
  #child: ChildProcess | undefined;
  #isPaused = false;
  /** The deed that is done to it now, for the line that says how it ended. */
  #ending: string | undefined;
  #again: NodeJS.Timeout | undefined;

  constructor(options: ProgramOptions) {
    this.name = options.name;
    this.port = options.port;
    this.#options = options;
  }

  get pid(): number | undefined {
    const child = this.#child;
    return child?.exitCode === null && child.signalCode === null ? child.pid : undefined;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  start(): void {
    if (this.pid !== undefined) throw new Error(`${this.name} runs already`);
    clearTimeout(this.#again);
    const { args, env, logFile, onMessage } = this.#options;
    const log = openSync(logFile, 'a');
    const { PATH = '', HOME = '' } = process.env;
    const child = spawn(process.execPath, args, {
      stdio: ['ignore', log, log, 'ipc'],
      env: { PATH, HOME, NO_COLOR: '1', ...env },
    });
    closeSync(log);
    this.#child = child;
    this.#isPaused = false;
    this.#ending = undefined;
    if (onMessage) child.on('message', onMessage);
    child.on('error', (error) => this.#options.say(`${this.name} cannot be started: ${error.message}`));
    child.once('exit', (code, signal) => this.#noteEnd(code, signal));
  }

  /** kill -9. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL', 'was killed');
  }

  /** SIGTERM, as a supervisor stops it. */
  async stop(): Promise<void> {
    await this.#end('SIGTERM', 'was stopped');
  }

  pause(isPaused: boolean): void {
    if (this.pid === undefined) throw new Error(`${this.name} does not run`);
    this.#child?.kill(isPaused ? 'SIGSTOP' : 'SIGCONT');
    this.#isPaused = isPaused;
  }

  async #end(signal: 'SIGKILL' | 'SIGTERM', ending: string): Promise<void> {
    clearTimeout(this.#again);
    const child = this.#child;
    if (!child || this.pid === undefined) return;
    this.#ending = ending;
    const exited = once(child, 'exit');
    child.kill(signal);
    // One that is paused would not hear of it.
    if (signal === 'SIGTERM' && this.#isPaused) child.kill('SIGCONT');
    await exited;
  }

  #noteEnd(code: number | null, signal: string | null): void {
    const { say } = this.#options;
    this.#isPaused = false;
    if (this.#ending !== undefined) {
      say(`${this.name} ${this.#ending}`);
      return;
    }
    if (code === null || NOT_MENDED.has(code)) {
      say(`${this.name} was ended by somebody (${signal ?? `exit code ${code}`}): ${this.#lastWords()}`);
      return;
    }
    say(`${this.name} ended itself (exit code ${code}) and is started again: ${this.#lastWords()}`);
    this.#again = setTimeout(() => this.start(), START_AGAIN_AFTER_MS);
  }

  /** The last line of its log. */
  #lastWords(): string {
    return readFileSync(this.#options.logFile, 'utf8').trimEnd().split('\n').at(-1) ?? '';
  }
}
