/**
 * The world that a command gets from its caller: streams, environment, signals, clock. `main.ts` passes those of its
 * process; a test passes its own, so that commands run side by side in one process.
 *
 * Commands write to these streams and end by returning or throwing. None of them uses `process.stdout`, `process.env`,
 * `process.exit` and the like (test/unit/cli/run.test.ts). Only two things come from the process itself: the working
 * folder, which relative paths start from, and the process id.
 */
import type { EventEmitter } from 'node:events';
import type { Readable, Writable } from 'node:stream';

type InputStream = Readable & { isTTY?: boolean };
export type OutputStream = Writable & { isTTY?: boolean; columns?: number; fd?: number };

export interface CommandContext {
  readonly stdin: InputStream;
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  /** The command line holds bytes that are no UTF-8: each is U+FFFD in the words that a command gets. */
  readonly hasBrokenWords: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** `linux`, `darwin` and the like: what starts services here. */
  readonly platform: NodeJS.Platform;
  /** Emits SIGINT, SIGTERM and SIGHUP. */
  readonly signals: Pick<EventEmitter, 'on' | 'once' | 'off'>;
  /** The path of `main.js`, for commands that start a daemon, or write a service or a hook. */
  readonly program: string;
  /** Ends the process at once, at a second signal. */
  readonly abort: (exitCode: number) => void;
  /** The wall clock. */
  readonly nowMs: () => number;
  /** The command prints documents: sentences for people are left out. `run` sets it by the flag `--json`. */
  isJson: boolean;
  /** The flag `--quiet`: what nobody asked for is left out on standard error, but for errors. */
  readonly isQuiet?: boolean;
  exitCode: number;
}
