/** The end of commands: exit codes that scripts can switch on, one clear sentence on stderr, and signals. */
import { systemRemedy } from '../../lib/file-fault.ts';
import type { CommandContext } from './context.ts';

/** DO NOT CHANGE: scripts switch on these. */
export const EXIT = {
  ok: 0,
  failure: 1,
  usage: 2,
  notFound: 3,
  conflict: 4,
  refused: 5,
  temporary: 75,
  interrupted: 130,
} as const;

export type ExitName = keyof typeof EXIT;

/** Ends a command. `message` says what is wrong and what to do next; it never holds key material. */
export class CommandFailed extends Error {
  readonly exit: ExitName;
  /** `--json` prints it. DO NOT CHANGE: programs switch on it. */
  readonly code: string;
  /** `--json` prints what else a program may want to know. */
  readonly details: Readonly<Record<string, unknown>>;

  constructor(exit: ExitName, code: string, message: string, details: Readonly<Record<string, unknown>> = {}) {
    super(message);
    this.exit = exit;
    this.code = code;
    this.details = details;
  }
}

/** Ends a command whose flags or arguments cannot be used so. */
export function usageFailure(message: string): CommandFailed {
  return new CommandFailed('usage', 'USAGE', message);
}

/** The errors of a disk or a limit of the system, which any command may meet. */
const SYSTEM_CODES = new Set(['EIO', 'ENOSPC', 'EDQUOT', 'EROFS', 'EMFILE', 'ENFILE']);

const FOLDER_GONE =
  'the folder that this is run in is not there any more: go to one that is, and give the command again';
const NO_TEMPORARY_FOLDER = 'set TMPDIR to a folder of yours, and give the command again';

/**
 * The end of a command that threw this, wherever that was: as it said, or met by an error of the system. `undefined`
 * for every other error.
 */
export function failureOf(error: unknown): CommandFailed | undefined {
  if (error instanceof CommandFailed) return error;
  const { code, message, syscall } = error as NodeJS.ErrnoException;
  if (code === 'HOME_UNKNOWN') return new CommandFailed('failure', code, message);
  if (syscall === 'uv_cwd') return new CommandFailed('notFound', 'FOLDER_GONE', FOLDER_GONE);
  if (code !== 'LEVEL_IO_ERROR' && (code === undefined || !SYSTEM_CODES.has(code))) {
    if (syscall !== 'mkdtemp') return undefined;
    const reason = `no folder for temporary files could be made (${message}): ${NO_TEMPORARY_FOLDER}`;
    return new CommandFailed('failure', 'TMPDIR_UNUSABLE', reason);
  }
  const remedy = `${systemRemedy(`${code} ${message}`)}, and give the command again`;
  const said = `the system could not read or write (${message}): ${remedy}`;
  return new CommandFailed('failure', 'SYSTEM_ERROR', said);
}

const EXIT_OF_STATUS: Readonly<Record<number, ExitName>> = {
  400: 'usage',
  403: 'refused',
  404: 'notFound',
  409: 'conflict',
  503: 'temporary',
};

/** The exit of a command when the daemon or the relay answered with this HTTP status. */
export function exitOfStatus(status: number): ExitName {
  return EXIT_OF_STATUS[status] ?? 'failure';
}

const STOP_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Calls `onFirst` at the first SIGINT, SIGTERM or SIGHUP; a second one ends the process at once. A terminal that closes
 * says SIGHUP twice, itself and by its shell.
 */
function onStopSignal({ signals, abort }: CommandContext, onFirst: (name: string) => void): void {
  for (const name of STOP_SIGNALS) {
    signals.once(name, () => {
      signals.on(name, () => name !== 'SIGHUP' && abort(EXIT.interrupted));
      onFirst(name);
    });
  }
}

/** Resolves, for a command that serves, with the name of the signal that tells it to stop. */
export function stopSignal(context: CommandContext): Promise<string> {
  return new Promise((resolve) => onStopSignal(context, resolve));
}

/** Aborts at the first SIGINT, SIGTERM or SIGHUP. */
export function stopping(context: CommandContext): AbortSignal {
  const controller = new AbortController();
  onStopSignal(context, () => controller.abort());
  return controller.signal;
}
