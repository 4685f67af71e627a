/** How commands end: exit codes that scripts can switch on, and one clear sentence on stderr. */

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

/** Ends a command: `message` says what is wrong and what to do next, and never holds key material. */
export class CommandFailed extends Error {
  readonly exit: ExitName;
  /** For `--json`: stable, for programs. */
  readonly code: string;
  /** For `--json`: what else a program may want to know. */
  readonly details: Readonly<Record<string, unknown>>;

  constructor(exit: ExitName, code: string, message: string, details: Readonly<Record<string, unknown>> = {}) {
    super(message);
    this.exit = exit;
    this.code = code;
    this.details = details;
  }
}
