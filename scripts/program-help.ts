/**
 * The help of `poste` itself, as `dist/cli/help.json` has it for main.ts: `poste` alone and `poste --help` are then
 * printed without loading the parser of the command line, which takes longer than the rest of their start.
 */
import { EventEmitter } from 'node:events';
import { PassThrough } from 'node:stream';
import type { CommandContext, OutputStream } from '../src/cli/lib/context.ts';
import type { ReadyHelp } from '../src/cli/main.ts';
import { run } from '../src/cli/run.ts';

/** Wider than any line. */
const WIDEST = 1000;

interface Shown {
  text: string;
  exitCode: number;
}

/** Returns what `poste` prints with these arguments; into a file when no width is given. */
export async function shownBy(args: readonly string[], columns?: number): Promise<Shown> {
  let text = '';
  const stream: OutputStream = Object.assign(new PassThrough(), {
    write: (chunk: string) => {
      text += chunk;
      return true;
    },
    ...(columns !== undefined && { isTTY: true, columns }),
  });
  const exitCode = await run(args, contextOn(stream));
  return { text, exitCode };
}

/** Returns what commands are built with that print on `stream`; the environment changes nothing of them. */
export function contextOn(stream: OutputStream): CommandContext {
  return {
    stdin: process.stdin,
    stdout: stream,
    stderr: stream,
    hasBrokenWords: false,
    env: {},
    platform: 'linux',
    signals: new EventEmitter(),
    program: 'poste',
    abort: (exitCode) => process.exit(exitCode),
    nowMs: () => Date.now(),
    isJson: false,
    exitCode: 0,
  };
}

export async function readyHelp(): Promise<ReadyHelp> {
  const { text, exitCode: aloneExitCode } = await shownBy([]);
  const { text: wide } = await shownBy([], WIDEST);
  let wideFrom = Math.max(...wide.split('\n').map((line) => line.length));
  while ((await shownBy([], wideFrom)).text !== wide) wideFrom++;
  return { aloneExitCode, text, wide, wideFrom };
}
