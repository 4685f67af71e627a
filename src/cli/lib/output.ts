/** The output of a command: its result or chunks on standard output, and a line on standard error while it works. */
import { once } from 'node:events';
import type { Progress } from '../../relay/replay/finding.ts';
import type { CommandContext, OutputStream } from './context.ts';
import { CommandFailed, EXIT, stopping } from './exit.ts';
import { jsonLine } from './format.ts';

/** Outputs that are useless unless complete, as a backup is. `writeChunk` handles their errors. */
const NEEDED_COMPLETE = new WeakSet<OutputStream>();

/** Tells a person at a terminal what the command does besides; `text` is a clause. */
export function note({ stderr, isJson, isQuiet }: CommandContext, text: string): void {
  if (stderr.isTTY && !isJson && !isQuiet) stderr.write(`poste: ${text}.\n`);
}

/** Outputs of commands that serve: the service goes on without them. */
const NOT_NEEDED = new WeakSet<OutputStream>();

/** Says where a service is; whether anybody reads it decides nothing. */
export function announce({ stdout }: CommandContext, text: string): void {
  NOT_NEEDED.add(stdout);
  stdout.write(text);
}

/**
 * Ends the process when standard output takes no more: with 0 when its reader closed it early, as head does, and else
 * by `fail`. Standard error may take as little as it likes. Call it once.
 */
export function endWithOutput({ stdout, stderr, abort }: CommandContext, fail: (failure: CommandFailed) => void): void {
  stdout.on('error', ({ code = 'unknown error' }: NodeJS.ErrnoException) => {
    if (NEEDED_COMPLETE.has(stdout) || NOT_NEEDED.has(stdout)) return;
    if (code === 'EPIPE') abort(EXIT.ok);
    const remedy = 'make room where it goes; what else the command did stays done';
    const said = `standard output cannot be written (${code}): ${remedy}`;
    fail(new CommandFailed('failure', 'OUTPUT_FAILED', said));
  });
  stderr.on('error', () => {});
}

/** Resolves when the text has left this process. */
export function writeAll(stream: OutputStream, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(text, (error) => (error ? reject(error) : resolve()));
  });
}

/** Waits while the reader is slower. */
export async function write({ stdout }: CommandContext, text: string): Promise<void> {
  if (!stdout.write(text)) await once(stdout, 'drain');
}

/** Writes a chunk of an output that is useless unless complete. Throws `CommandFailed`, or the signal's reason. */
export async function writeChunk(
  { stdout }: CommandContext,
  chunk: Buffer,
  { what, signal }: { what: string; signal: AbortSignal },
): Promise<void> {
  NEEDED_COMPLETE.add(stdout);
  signal.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const abort = (): void => reject(signal.reason as Error);
    signal.addEventListener('abort', abort);
    stdout.write(chunk, (error) => {
      signal.removeEventListener('abort', abort);
      if (!error) resolve();
      else reject(outputFailed(error, what));
    });
  });
}

function outputFailed(error: NodeJS.ErrnoException, what: string): CommandFailed {
  const closed = `standard output closed before all of ${what} was written (${error.code ?? error.message})`;
  const remedy = 'check the program or file that receives it, and run the command again';
  return new CommandFailed('failure', 'OUTPUT_FAILED', `${closed}, and a part of it is useless: ${remedy}`);
}

/** Prints the result of a command: with `--json` the document, else the text. */
export function print(
  { stdout }: Pick<CommandContext, 'stdout'>,
  { json }: { json?: boolean },
  document: object,
  text: () => string,
): void {
  stdout.write(json ? jsonLine(document) : text());
}

const EVERY_MS = 100;
const ERASE_LINE = '\r\x1b[K';
const MEGABYTE = 1_000_000;

interface WorkOutput {
  isTTY?: boolean;
  write(text: string): unknown;
}

/**
 * The work of a command that takes a while: it stops when `signal` aborts, and says how far it is in one line on
 * standard error that is written over and over. Nothing is written when that is no terminal.
 */
export class Work {
  readonly signal: AbortSignal;
  readonly #output: WorkOutput;
  readonly #monotonicMs: () => number;
  readonly #startedMs: number;
  #shownMs = Number.NEGATIVE_INFINITY;
  #isShown = false;

  constructor(output: WorkOutput, signal: AbortSignal, monotonicMs: () => number = () => performance.now()) {
    this.#output = output;
    this.signal = signal;
    this.#monotonicMs = monotonicMs;
    this.#startedMs = monotonicMs();
  }

  /** `bytesAbout` is an estimate; 0 when there is none. */
  bytes(what: string, bytes: number, bytesAbout: number): void {
    this.#step((nowMs) => {
      const share = bytesAbout > 0 ? `, about ${Math.min(99, Math.floor((100 * bytes) / bytesAbout))}%` : '';
      const speed = bytes / MEGABYTE / (Math.max(1, nowMs - this.#startedMs) / 1000);
      return `${what}: ${(bytes / MEGABYTE).toFixed(1)} MB${share}, ${speed.toFixed(0)} MB/s`;
    });
  }

  /** Takes each step, shows how far that is, and resolves with the result. */
  async run<T>(steps: AsyncGenerator<Progress, T>): Promise<T> {
    const pace = new Pace();
    try {
      for (;;) {
        const step = await steps.next();
        if (step.done) return step.value;
        if (this.signal.aborted) await steps.return(undefined as T);
        this.signal.throwIfAborted();
        this.#step((nowMs) => progressText(step.value) + pace.left(step.value, nowMs));
      }
    } finally {
      this.end();
    }
  }

  /** Shows a text that changes often, at most ten times a second. */
  #step(text: (nowMs: number) => string): void {
    const nowMs = this.#monotonicMs();
    if (nowMs - this.#shownMs < EVERY_MS) return;
    this.#shownMs = nowMs;
    this.say(text(nowMs));
  }

  say(text: string): void {
    if (this.#output.isTTY !== true) return;
    this.#isShown = true;
    this.#output.write(ERASE_LINE + text);
  }

  /** Erases the line. */
  end(): void {
    if (this.#isShown) this.#output.write(ERASE_LINE);
    this.#isShown = false;
  }
}

/**
 * Runs a command that must remove what it began to write: at ctrl-c or SIGTERM it stops the work, and ends when that
 * has. Throws `CommandFailed` then.
 */
export async function atWork<T>(
  context: CommandContext,
  task: (work: Work) => Promise<T>,
  said = 'nothing was done, because the command was interrupted',
): Promise<T> {
  const work = new Work(context.stderr, stopping(context));
  try {
    return await task(work);
  } catch (error) {
    throw work.signal.aborted ? new CommandFailed('interrupted', 'INTERRUPTED', said) : error;
  } finally {
    work.end();
  }
}

export function progressText({ stage, done, of }: Progress): string {
  const share = of ? ` (${Math.min(100, Math.floor((done / of) * 100))} %)` : '';
  return `${stage}: ${done}${of === undefined ? '' : ` of ${of}`}${share}`;
}

/** So short a time does not say how long the rest takes. */
const PACE_MS = 2_000;
const UNITS = [
  ['s', 1_000],
  ['min', 60_000],
  ['h', 3_600_000],
] as const;

/** The pace of one stage, from where it was first seen. */
class Pace {
  #stage = '';
  #done = 0;
  #sinceMs = 0;

  /** ", about 3 min left", as soon as that can be told. */
  left({ stage, done, of }: Progress, nowMs: number): string {
    if (stage !== this.#stage || done < this.#done) [this.#stage, this.#done, this.#sinceMs] = [stage, done, nowMs];
    const tookMs = nowMs - this.#sinceMs;
    if (of === undefined || tookMs < PACE_MS || done === this.#done) return '';
    const leftMs = Math.max(0, ((of - done) * tookMs) / (done - this.#done));
    // In the largest unit of which there are two.
    const [unit, ms] = UNITS.findLast(([, unitMs]) => leftMs >= 2 * unitMs) ?? UNITS[0];
    return `, about ${Math.ceil(leftMs / ms)} ${unit} left`;
  }
}
