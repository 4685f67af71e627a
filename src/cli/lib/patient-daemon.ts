/**
 * Calls of a command that runs on while the daemon restarts: a call waits for a daemon that is away, and is made again.
 * So an operation that is asked for here must be one that may be done twice. The command starts a daemon only
 * before the first answer. A daemon that goes away later was stopped by somebody, and the command waits for the next.
 */
import { setTimeout as elapsed } from 'node:timers/promises';
import type { CallOptions } from '../../host/api/client.ts';
import type { InputOf, OperationName, OutputOf } from '../../host/api/operations.ts';
import type { CommandContext } from './context.ts';
import { printable } from '../../protocol/printable.ts';
import { type ActingFlags, ask } from './daemon-call.ts';
import { CommandFailed } from './exit.ts';

/** The time between two calls to a daemon that is away. */
export const RETRY_MS = 500;
/** A daemon that ended, ends, or is about to start; and one that ends because its disk is full. */
const GONE_CODES: ReadonlySet<string> = new Set([
  'DAEMON_NOT_RUNNING',
  'DAEMON_GONE',
  'DAEMON_SILENT',
  'UNAVAILABLE',
  'STORE_FAILED',
]);

type Options = Pick<CallOptions, 'silenceMs' | 'callId'>;
export type AskDaemon = PatientDaemon['ask'];

export class PatientDaemon {
  readonly #context: CommandContext;
  readonly #flags: ActingFlags;
  readonly #signal: AbortSignal;
  /** All that call for one command share it, which says once that the daemon is away. */
  readonly #seen: { isGone: boolean; hasAnswered: boolean };

  constructor(
    context: CommandContext,
    flags: ActingFlags,
    signal: AbortSignal,
    seen = { isGone: false, hasAnswered: false },
  ) {
    this.#context = context;
    this.#flags = flags;
    this.#signal = signal;
    this.#seen = seen;
  }

  /** The same, whose calls end with another signal. */
  endedBy(signal: AbortSignal): PatientDaemon {
    return new PatientDaemon(this.#context, this.#flags, signal, this.#seen);
  }

  /** Asks once. Throws `CommandFailed`, and another error when the signal is aborted. */
  async askNow<N extends OperationName>(name: N, input: InputOf<N>, options: Options = {}): Promise<OutputOf<N>> {
    const { start = false, ...flags } = this.#flags;
    const starting = { ...flags, start: start && !this.#seen.hasAnswered };
    const answer = await ask(this.#context, name, input, starting, { ...options, signal: this.#signal });
    this.#seen.hasAnswered = true;
    return answer;
  }

  /** Asks until a daemon answers. Throws as `askNow` does, but not because the daemon is away. */
  async ask<N extends OperationName>(name: N, input: InputOf<N>, options: Options = {}): Promise<OutputOf<N>> {
    for (;;) {
      try {
        const answer = await this.askNow(name, input, options);
        this.#say();
        return answer;
      } catch (error) {
        if (this.#signal.aborted || !(error instanceof CommandFailed) || !GONE_CODES.has(error.code)) throw error;
        this.#say(error.code === 'UNAVAILABLE' ? printable(error.message) : 'the daemon does not answer');
      }
      await elapsed(RETRY_MS, undefined, { signal: this.#signal });
    }
  }

  /** Says why no answer can be had, or without a reason that there is one again; once each. */
  #say(why?: string): void {
    const isGone = why !== undefined;
    if (this.#seen.isGone === isGone) return;
    this.#seen.isGone = isGone;
    const what = isGone ? `${why}; this tries again until it is answered` : 'the daemon answers again';
    this.#context.stderr.write(`poste: ${what}.\n`);
  }
}
