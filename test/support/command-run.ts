/** `poste` in this process: a command with streams, an environment and signals of its own, and what it printed. */
import { EventEmitter, once } from 'node:events';
import { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { CommandContext } from '../../src/cli/lib/context.ts';
import { run } from '../../src/cli/run.ts';
import { type Ended, type Environment, type StartDocument, ownEnvironment, serveArgs } from './poste-process.ts';
import { atTestEnd } from './test-end.ts';

/** The built program, where a command starts another process. */
const PROGRAM = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

class Collected extends Writable {
  text = '';

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString();
    this.emit('more');
    done();
  }
}

interface OwnContext extends CommandContext {
  readonly stdout: Collected;
  readonly stderr: Collected;
  readonly signals: EventEmitter;
}

export interface CommandWorld {
  /** A command has PATH, HOME and XDG_STATE_HOME of this process's environment besides. */
  environment?: Environment;
  /** All of standard input, which then ends; or where it comes from. */
  stdin?: string | Buffer | Readable;
  /** A person types this at a terminal instead, on which standard error is read too. */
  typed?: string | Readable;
  /** The width of the terminal that standard output is; without it that is a pipe. */
  columns?: number;
  nowMs?: () => number;
  /** `linux` unless it is said. */
  platform?: NodeJS.Platform;
}

export type CommandEnded = Ended;

export function commandContext({ environment = {}, stdin = '', typed, ...world }: CommandWorld = {}): OwnContext {
  const given = typed ?? stdin;
  const input = given instanceof Readable ? given : Readable.from(given.length === 0 ? [] : [Buffer.from(given)]);
  const isTTY = typed !== undefined;
  return {
    stdin: Object.assign(input, { isTTY }),
    stdout: Object.assign(new Collected(), world.columns !== undefined && { isTTY: true, columns: world.columns }),
    stderr: Object.assign(new Collected(), { isTTY }),
    hasBrokenWords: false,
    env: { ...ownEnvironment(), ...environment },
    platform: world.platform ?? 'linux',
    signals: new EventEmitter(),
    program: PROGRAM,
    abort: (exitCode) => {
      throw new Error(`ended on the spot with ${exitCode}`);
    },
    nowMs: world.nowMs ?? (() => Date.now()),
    isJson: false,
    exitCode: 0,
  };
}

/** Runs `poste` to its end, in this process. */
export function runHere(args: readonly string[], world: CommandWorld = {}): Promise<CommandEnded> {
  return new CommandRun(args, commandContext(world)).ended();
}

/** A command that runs in this process, with the words of `PosteProcess`. */
export class CommandRun {
  readonly pid = process.pid;
  readonly #context: OwnContext;
  readonly #ended: Promise<number>;
  #exitCode: number | undefined;
  #isSignalled = false;

  constructor(args: readonly string[], context: OwnContext) {
    this.#context = context;
    this.#ended = run(args, context).then((exitCode) => (this.#exitCode = exitCode));
  }

  get stdout(): string {
    return this.#context.stdout.text;
  }

  get stderr(): string {
    return this.#context.stderr.text;
  }

  /** Resolves when standard output holds `text`. Rejects when the command ends without it. */
  printed(text: string): Promise<void> {
    return this.#holds(this.#context.stdout, text);
  }

  /** The same of standard error. */
  asked(text: string): Promise<void> {
    return this.#holds(this.#context.stderr, text);
  }

  async #holds(stream: Collected, text: string): Promise<void> {
    while (!stream.text.includes(text)) {
      if (this.#exitCode !== undefined) throw new Error(`ended with ${this.#exitCode}: ${this.stderr}`);
      await Promise.race([once(stream, 'more'), this.#ended]);
    }
  }

  signal(name: 'SIGTERM' | 'SIGINT' | 'SIGHUP'): void {
    this.#isSignalled = true;
    this.#context.signals.emit(name);
  }

  /** Stops it, unless it was told to stop or has ended. */
  async stop(): Promise<void> {
    if (!this.#isSignalled) this.signal('SIGTERM');
    await this.#ended;
  }

  async ended(): Promise<Ended> {
    const code = await this.#ended;
    return { code, signal: null, stdout: this.stdout, stderr: this.stderr };
  }
}

/** `poste daemon` in this process, ready; it is stopped when the test is over. */
export async function daemonHere(environment: Environment): Promise<CommandRun> {
  const started = new CommandRun(['daemon', '--json', '--log-level', 'warn'], commandContext({ environment }));
  atTestEnd(() => started.stop());
  await started.printed('}\n');
  return started;
}

export interface RelayHere {
  process: CommandRun;
  start: StartDocument;
}

/** `relay serve` in this process, on free ports of 127.0.0.1, ready; it is stopped when the test is over. */
export async function relayHere(
  storeDir: string,
  args: readonly string[] = [],
  environment: Environment = {},
): Promise<RelayHere> {
  const started = new CommandRun([...serveArgs(storeDir, args), '--json'], commandContext({ environment }));
  atTestEnd(() => started.stop());
  await started.printed('}\n');
  return { process: started, start: JSON.parse(started.stdout) as StartDocument };
}
