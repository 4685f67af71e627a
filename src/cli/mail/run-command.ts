/**
 * The command of `poste run`, started once for each mail: without a shell, the mail in its standard input or in place
 * of `{message}` as a whole or a part of one argument, and what is known of it in its environment.
 *
 * It leads a process group, which is ended as a whole: with SIGTERM, and a while later with SIGKILL.
 */
import type { ChildProcess } from 'node:child_process';
import { setTimeout as elapsed } from 'node:timers/promises';
import type { FullMessage } from '../../host/contract/usual-mail.ts';
import { UNTRUSTED_TEXT } from '../../host/core/untrusted-text.ts';
import { endGroup, howItEnded, startGroup } from '../../lib/process-group.ts';
import { printable } from '../../protocol/printable.ts';
import type { CommandContext } from '../lib/context.ts';

const PLACE = '{message}';
/** DO NOT RAISE: Linux gives no program a longer argument, its last zero byte included (MAX_ARG_STRLEN). */
const ARGUMENT_BYTES_MAX = 131_072;

/** The time between SIGTERM and SIGKILL. */
export const COMMAND_END_MS = 5000;
/** The output of a command that has ended is read this long, where a process of its own still holds it open. */
const OUTPUT_MS = 1000;
/** The most of its output that is kept as an answer. */
export const ANSWER_BYTES_MAX = 65_536;

/** A mail as a program gets it: a line for each fact, an empty line, and the body as it came. */
export function mailText({ body, ...message }: FullMessage): string {
  const { message_id, thread, from, to, subject, kind, needs_reply, origin, refs } = message;
  const head = [
    ['From', from],
    ['To', to.join(', ')],
    ['Subject', subject],
    ['Message-Id', message_id],
    ['Thread', thread],
    ['Kind', kind],
    ['Needs-Reply', needs_reply ? 'yes' : 'no'],
    ['Origin', origin],
    ...refs.map((ref) => ['Ref', ref]),
    ['Notice', UNTRUSTED_TEXT],
  ];
  return `${head.map(([name, value = '']) => `${name}: ${printable(value)}\n`).join('')}\n${body}\n`;
}

/** Returns what a command finds in its environment. `POSTE_MESSAGE_ID` is the same in every try of one message. */
export function mailEnvironment(
  { message_id, thread, from, subject, kind, needs_reply, origin }: FullMessage,
  agent: string,
  attempt: number,
): Record<string, string> {
  return {
    POSTE_AGENT: agent,
    POSTE_MESSAGE_ID: message_id,
    POSTE_THREAD: thread,
    POSTE_FROM: printable(from),
    POSTE_SUBJECT: printable(subject),
    POSTE_KIND: kind,
    POSTE_NEEDS_REPLY: needs_reply ? '1' : '0',
    POSTE_ORIGIN: origin,
    POSTE_TRY: String(attempt),
  };
}

/** The words with the mail in place of `{message}`; what stands in its text is not looked at again. */
export function placeMail(words: readonly string[], text: string): { words: string[]; isPlaced: boolean } {
  return {
    words: words.map((word) => word.split(PLACE).join(text)),
    isPlaced: words.some((word) => word.includes(PLACE)),
  };
}

/** Says why no program can be given these arguments, or `undefined`. */
export function argumentFault(words: readonly string[]): string | undefined {
  const longest = Math.max(...words.map((word) => Buffer.byteLength(word)));
  const remedy = `leave out ${PLACE}, and the command has the mail in its standard input`;
  if (longest >= ARGUMENT_BYTES_MAX) {
    return `the mail makes an argument of ${longest} bytes, and one holds at most ${ARGUMENT_BYTES_MAX - 1}: ${remedy}`;
  }
  return words.some((word) => word.includes('\0'))
    ? `no argument can hold the zero byte of the mail: ${remedy}`
    : undefined;
}

interface CommandCall {
  words: readonly string[];
  environment: Readonly<Record<string, string>>;
  /** An open file that is its standard input; that is empty without. */
  inputFd: number | undefined;
  /** The end of its time; `undefined`: it has as long as it likes. */
  timeoutMs: number | undefined;
  /** Its output is kept, and not passed on. */
  keepsOutput: boolean;
  signal: AbortSignal;
}

export interface CommandEnd {
  /** 0: it did its work. Else why it did not, in words that follow `the command`. */
  fault: string | undefined;
  /** The signal of the caller ended it. */
  isStopped: boolean;
  /** The output, as far as it is kept, and how many bytes it was. */
  output: Buffer;
  outputBytes: number;
}

/** Starts the command; `onStart` is called once it runs. Resolves when it has ended, and its group if it was ended. */
export async function startCommand(
  context: Pick<CommandContext, 'env' | 'stdout' | 'stderr'>,
  { words, environment, inputFd, timeoutMs, keepsOutput, signal }: CommandCall,
  onStart: (pid: number) => Promise<void>,
): Promise<CommandEnd> {
  const { stdout, stderr } = context;
  let child: ChildProcess;
  try {
    child = await startGroup(words, {
      env: { ...context.env, ...environment },
      stdio: [inputFd ?? 'ignore', keepsOutput ? 'pipe' : (stdout.fd ?? 'pipe'), stderr.fd ?? 'pipe'],
    });
  } catch (error) {
    const fault = `could not be started (${(error as Error).message})`;
    return { fault, isStopped: false, output: Buffer.alloc(0), outputBytes: 0 };
  }
  const kept = keepsOutput ? keepOutput(child) : undefined;
  if (!keepsOutput) child.stdout?.pipe(stdout, { end: false });
  child.stderr?.pipe(stderr, { end: false });
  const closed = new Promise<void>((resolve) => {
    child.once('close', () => resolve());
  });
  const exited = howItEnded(child);
  let finish: (() => void) | undefined;
  const end = (): void => void (finish ??= endGroup(child.pid, COMMAND_END_MS));
  let isOverTime = false;
  const overTime = (): void => {
    isOverTime = true;
    end();
  };
  const timer = timeoutMs === undefined ? undefined : setTimeout(overTime, timeoutMs);
  signal.addEventListener('abort', end);
  if (signal.aborted) end();
  const started = onStart(child.pid ?? 0);
  let fault: string | undefined = await exited;
  if (child.exitCode === 0) fault = undefined;
  await started;
  if (isOverTime) fault = `was ended after ${(timeoutMs ?? 0) / 1000} s`;
  const over = new AbortController();
  await Promise.race([closed, elapsed(OUTPUT_MS, undefined, { signal: over.signal }).catch(() => undefined)]);
  over.abort();
  clearTimeout(timer);
  signal.removeEventListener('abort', end);
  finish?.();
  child.stdout?.destroy();
  child.stderr?.destroy();
  const { bytes = Buffer.alloc(0), count = 0 } = kept?.() ?? {};
  return { fault, isStopped: signal.aborted, output: bytes, outputBytes: count };
}

function keepOutput({ stdout }: ChildProcess): () => { bytes: Buffer; count: number } {
  const chunks: Buffer[] = [];
  let kept = 0;
  let count = 0;
  stdout?.on('data', (chunk: Buffer) => {
    count += chunk.length;
    const part = chunk.subarray(0, ANSWER_BYTES_MAX - kept);
    kept += part.length;
    if (part.length > 0) chunks.push(part);
  });
  return () => ({ bytes: Buffer.concat(chunks), count });
}
