/**
 * The log of a command that serves, on standard error: lines for people on a terminal, JSON elsewhere. What others said
 * may be in it: it is escaped, so that no terminal obeys it, and an error is written in a few lines, whatever is
 * attached to it.
 *
 * The log never decides over the service. A line that cannot be written, because the disk is full or nobody reads, is
 * left out and counted, and the next line that can be written says how many were.
 */
import { constants, fstatSync, openSync, writeSync } from 'node:fs';
import pino from 'pino';
import { isObject, jsonIn } from '../../protocol/json.ts';
import { jsonEscape, printable } from '../../protocol/printable.ts';
import type { CommandContext, OutputStream } from './context.ts';
import { EXIT } from './exit.ts';
import { applyStyle, formatSecond, type Screen, screenOf, type Style } from './screen.ts';

/** The limits of an error's message, and of its stack with those of its causes. */
const MESSAGE_CHARACTERS_MAX = 2_000;
const STACK_CHARACTERS_MAX = 8_000;
const CODE_CHARACTERS_MAX = 100;

interface CommandLog extends pino.Logger {
  /** The number of lines that could not be written since the start. */
  linesLost: () => number;
}

export const LOG_FORMATS = ['text', 'json'] as const;
export type LogFormat = (typeof LOG_FORMATS)[number];

/** `--log-format` of every command that serves, in these words. */
export const LOG_FORMAT_FLAG = [
  '--log-format <format>',
  'lines for people, or JSON (default: text on a terminal, else json)',
] as const;

export function commandLog(context: CommandContext, level: string, format?: LogFormat): CommandLog {
  const { stderr } = context;
  const isText = (format ?? (stderr.isTTY ? 'text' : 'json')) === 'text';
  const shown = isText ? (line: string): string => logText(screenOf(context, stderr), line) : printableLine;
  const destination = new LogDestination(stderr, shown);
  const logger = pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { err: errorDocument },
      hooks: { streamWrite: shown },
    },
    destination,
  );
  return Object.assign(logger, { linesLost: () => destination.linesLost });
}

/** The bytes that a stream may hold and its reader has not taken. */
const UNREAD_BYTES_MAX = 1 << 20;

/** Writes whole lines to `stream`, or counts them; neither waits nor throws. */
class LogDestination {
  linesLost = 0;
  /** The number of them that a line has said. */
  #said = 0;
  readonly #write: (line: string) => boolean;

  /** Gives a line of JSON the form that the log has. */
  readonly #shown: (line: string) => string;

  constructor(stream: OutputStream, shown: (line: string) => string) {
    this.#shown = shown;
    const descriptor = stream.fd === undefined ? undefined : unhurriedDescriptor(stream.fd);
    const lose = (): number => this.linesLost++;
    this.#write = descriptor === undefined ? streamWriter(stream, lose) : descriptorWriter(descriptor);
  }

  /** Takes each line of pino. */
  write(line: string): void {
    const lost = this.linesLost;
    if (this.#write(lost === this.#said ? line : `${this.#shown(lossLine(lost - this.#said))}${line}`))
      this.#said = lost;
    else this.linesLost++;
  }
}

function lossLine(lost: number): string {
  const msg = `${lost} lines of this log could not be written: make room where it goes, or see that its reader reads`;
  return `${JSON.stringify({ level: pino.levels.values['warn'], time: new Date().toISOString(), lost, msg })}\n`;
}

/**
 * A descriptor that is written to at once, so that what a process says before it ends on the spot is seen: of a file,
 * or of a device such as a terminal, which is opened once more so that it does not block. `undefined` for pipes and
 * sockets.
 */
function unhurriedDescriptor(fd: number): number | undefined {
  try {
    const kind = fstatSync(fd);
    if (kind.isFile()) return fd;
    if (!kind.isCharacterDevice()) return undefined;
    const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = constants;
    return openSync(`/dev/fd/${fd}`, O_WRONLY | O_NONBLOCK | O_NOCTTY);
  } catch {
    return undefined;
  }
}

function descriptorWriter(descriptor: number): (line: string) => boolean {
  /** The rest of a line whose beginning was written. */
  let rest: Buffer = Buffer.alloc(0);
  const flush = (): boolean => {
    try {
      while (rest.length > 0) rest = rest.subarray(writeSync(descriptor, rest));
      return true;
    } catch {
      return false;
    }
  };
  return (line) => {
    if (!flush()) return false;
    rest = Buffer.from(line);
    const { length } = rest;
    if (flush() || rest.length < length) return true;
    rest = Buffer.alloc(0);
    return false;
  };
}

/**
 * A pipe takes what it has room for at once, and the rest when its reader goes on. `lose` is called for each line that
 * it took and never wrote, as when the reader has ended.
 */
function streamWriter(stream: OutputStream, lose: () => void): (line: string) => boolean {
  // The callbacks of the lines tell it.
  stream.on('error', () => undefined);
  const written = (error?: Error | null): void => {
    if (error) lose();
  };
  return (line) => {
    if (stream.destroyed || stream.writableLength + line.length > UNREAD_BYTES_MAX) return false;
    stream.write(line, written);
    return true;
  };
}

/** The time that the last lines of a process may take. */
const LAST_LINES_MS = 1000;

/** Ends the log of a process that served: one that nobody reads does not keep it. */
export function endLog({ stderr, abort }: CommandContext): void {
  if (stderr.writableLength > 0) setTimeout(() => abort(EXIT.ok), LAST_LINES_MS).unref();
}

/** JSON holds no line break but the one at its end. */
function printableLine(line: string): string {
  return `${printable(line.trimEnd(), jsonEscape)}\n`;
}

const LEVEL_STYLES: Readonly<Record<string, Style>> = { debug: 'dim', warn: 'yellow', error: 'red', fatal: 'red' };

/**
 * A line of the log for people: the local time, the level, what happened, and what is known of it as name=value. An
 * error shows its message and its code; the whole is in the JSON. A line that is no JSON of a log stays as it is,
 * printable.
 */
export function logText(screen: Screen, line: string): string {
  const document = jsonIn(line);
  const { time, level, msg, ...facts } = isObject(document) ? document : {};
  if (typeof time !== 'string' || typeof level !== 'number') return `${printable(line.trimEnd())}\n`;
  const label = pino.levels.labels[level] ?? String(level);
  const head = [
    applyStyle(screen, 'dim', formatSecond(screen, time)),
    applyStyle(screen, LEVEL_STYLES[label], label.padEnd(5)),
    printable(typeof msg === 'string' ? msg : ''),
  ];
  const known = Object.entries(facts).map(([name, value]) => {
    return `${applyStyle(screen, 'dim', `${printable(name)}=`)}${valueText(value)}`;
  });
  return `${[...head, ...known].join(' ')}\n`;
}

/** A value that is one word stays one, and any other is quoted; of a fraction one digit is enough for people. */
function valueText(value: unknown): string {
  const { stack, message, type, code } = isObject(value) ? value : {};
  if (typeof stack === 'string') return valueText([code ?? type, message].join(': '));
  if (typeof value === 'number') return String(Number(value.toFixed(1)));
  if (typeof value === 'string' && /^[^\s"=]+$/.test(value)) return printable(value);
  return printable(JSON.stringify(value), jsonEscape);
}

function errorDocument(thrown: unknown): unknown {
  if (!(thrown instanceof Error)) return String(thrown).slice(0, MESSAGE_CHARACTERS_MAX);
  const { type, message, stack } = pino.stdSerializers.err(thrown);
  const { code } = thrown as NodeJS.ErrnoException;
  return {
    type,
    message: message.slice(0, MESSAGE_CHARACTERS_MAX),
    stack: stack.slice(0, STACK_CHARACTERS_MAX),
    ...(typeof code === 'string' && { code: code.slice(0, CODE_CHARACTERS_MAX) }),
  };
}
