#!/usr/bin/env node
/** The process of the `poste` command: `run` with its arguments, streams, environment and signals. */
import { LARGE_COMMANDS } from './large-commands.ts';
import type { CommandContext } from './lib/context.ts';
import type { BegunInput } from './mail/run-as-hook.ts';

// Asked for by a function: an import of a part of Node.js makes all that it has, which takes as long as a hook's call.
const { fstatSync, readFileSync, readSync, writeSync } = process.getBuiltinModule('node:fs');
const { env } = process;

const argv = process.argv.slice(2);
/** A stream of the process is made when it is asked for. */
const context: CommandContext = {
  get stdin() {
    return process.stdin;
  },
  get stdout() {
    return process.stdout;
  },
  get stderr() {
    return process.stderr;
  },
  get hasBrokenWords() {
    if (!argv.some((word) => word.includes('\uFFFD'))) return false;
    try {
      return !process.getBuiltinModule('node:buffer').isUtf8(readFileSync('/proc/self/cmdline'));
    } catch {
      // Where the system does not show it, the character may be meant.
      return false;
    }
  },
  env,
  platform: process.platform,
  signals: process,
  program: `${import.meta.dirname}/main.js`,
  abort: (code) => process.exit(code),
  nowMs: () => Date.now(),
  isJson: false,
  exitCode: 0,
};

/** A hook is called at every prompt of an agent: it loads no more than it needs. */
async function hook(): Promise<boolean> {
  if (argv[0] !== 'hooks' || argv[1] !== 'run') return false;
  const { HOOK_INPUT_BYTES_MAX, hookRunOf, runAsHook } = await import('./mail/run-as-hook.ts');
  const asked = hookRunOf(argv);
  if (!asked) return false;
  // A program that reads no more of its hook is not told of it.
  const stdout = { get: () => process.stdout.on('error', () => process.exit()) };
  await runAsHook(Object.defineProperty(context, 'stdout', stdout), asked, inputAtOnce(HOOK_INPUT_BYTES_MAX));
  process.exitCode = context.exitCode;
  return true;
}

/**
 * Reads what a pipe or a file gives until its end, or until it would have to be waited for without blocking: a stream
 * takes longer to make than a hook's call takes. A terminal is left to the stream.
 */
function inputAtOnce(bytesMax: number): BegunInput {
  const chunks: Buffer[] = [];
  let isWhole = false;
  try {
    const input = fstatSync(0);
    if (input.isFIFO() || input.isSocket() || input.isFile()) {
      for (let bytes = 0; bytes <= bytesMax && !isWhole; ) {
        const chunk = Buffer.allocUnsafe(1 << 16);
        const read = readSync(0, chunk);
        isWhole = read === 0;
        bytes += read;
        chunks.push(chunk.subarray(0, read));
      }
    }
  } catch {
    // Such as EAGAIN: the stream goes on, or says what is wrong.
  }
  return { bytes: Buffer.concat(chunks), isWhole };
}

/** A client waits only so long for the tools. */
async function mcp(): Promise<boolean> {
  if (argv[0] !== 'mcp') return false;
  const { mcpRunOf, readyAnswers, runAsMcp } = await import('./mail/run-as-mcp.ts');
  const asked = mcpRunOf(argv, env);
  const ready = asked && readyAnswers(`${import.meta.dirname}/mcp.json`);
  return ready ? runAsMcp(context, asked, ready) : false;
}

/** Scripts ask for it, and it needs nothing of the command line. */
function version(): boolean {
  if (argv.length !== 1 || (argv[0] !== '--version' && argv[0] !== '-V')) return false;
  const text = readFileSync(`${import.meta.dirname}/../../package.json`, 'utf8');
  try {
    writeSync(1, `${(JSON.parse(text) as { version: string }).version}\n`);
    return true;
  } catch (error) {
    // The command line says of other errors what is wrong.
    return (error as NodeJS.ErrnoException).code === 'EPIPE';
  }
}

/** The text that `poste` prints of itself, made by the build (scripts/program-help.ts). */
export interface ReadyHelp {
  /** The exit code of `poste` without arguments, which prints it as an error. */
  aloneExitCode: number;
  /** The text for a file or a pipe. */
  text: string;
  /** The text for a terminal that has at least this many columns. */
  wide: string;
  wideFrom: number;
}

/** The first thing that most read of `poste`. A narrow terminal is left to the command line, which fills lines. */
function help(): boolean {
  const isAlone = argv.length === 0;
  if (!isAlone && (argv.length !== 1 || (argv[0] !== '--help' && argv[0] !== '-h'))) return false;
  const descriptor = isAlone ? 2 : 1;
  try {
    const ready = JSON.parse(readFileSync(`${import.meta.dirname}/help.json`, 'utf8')) as ReadyHelp;
    const { isTTY, columns } = fstatSync(descriptor).isCharacterDevice() ? outputOf(isAlone) : NO_TERMINAL;
    if (isTTY && columns < ready.wideFrom) return false;
    writeSync(descriptor, isTTY ? ready.wide : ready.text);
    if (isAlone) process.exitCode = ready.aloneExitCode;
    return true;
  } catch {
    // There is no such file beside the sources; and where it cannot be written, the streams wait or say why.
    return false;
  }
}

const NO_TERMINAL = { isTTY: false, columns: 0 };

function outputOf(isAlone: boolean): typeof NO_TERMINAL {
  return isAlone ? process.stderr : process.stdout;
}

async function main(): Promise<void> {
  if ((await hook()) || (await mcp()) || version() || help()) return;
  // A word may name another thing than a command: then more is loaded than is needed.
  const isLarge = argv.some((word) => Object.hasOwn(LARGE_COMMANDS, word));
  const { runToExit } = isLarge ? await import('./run.ts') : await import('./client.ts');
  process.exitCode = await runToExit(argv, context);
}

void main();
