/**
 * The log of a command that serves: JSON lines on standard error. What others said may be in it: it is escaped, so that
 * no terminal obeys it, and an error is written in a few lines, whatever is attached to it.
 */
import pino from 'pino';
import { jsonEscape, printable } from '../../protocol/printable.ts';
import type { CommandContext } from './context.ts';

/** Of an error's message, and of its stack with those of its causes. */
const MESSAGE_CHARACTERS_MAX = 2_000;
const STACK_CHARACTERS_MAX = 8_000;
const CODE_CHARACTERS_MAX = 100;

export function commandLog({ stderr }: CommandContext, level: string): pino.Logger {
  // What a process says before it ends on the spot is to be seen, so a descriptor is written to synchronously.
  const destination = stderr.fd === undefined ? stderr : pino.destination({ dest: stderr.fd, sync: true });
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { err: errorDocument },
      hooks: { streamWrite: printableLine },
    },
    destination,
  );
}

/** JSON holds no line break but the one at its end. */
function printableLine(line: string): string {
  return `${printable(line.trimEnd(), jsonEscape)}\n`;
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
