/**
 * The daemon as the tools of one agent ask it. Every call is a connection of its own, so a daemon that went and came back
 * is simply asked again. What goes wrong is said as an agent needs it: it has tools, and no command line.
 */
import { CallFailed, type ClientCode, type DaemonClient } from '../local/client.ts';
import type { InputOf, OperationName, OutputOf } from '../local/operations.ts';

/** A daemon that is away is asked again after this long, by whoever asks it all the time. */
export const RETRY_MS = 3000;

export interface DaemonLinkOptions {
  client: DaemonClient;
  agent: string;
  /** Starts a daemon and resolves when it answers; throws `CallFailed`. Without it none is started. */
  start?: (() => Promise<void>) | undefined;
}

export interface LinkCallOptions {
  signal?: AbortSignal | undefined;
  /** Longer than the daemon is asked to wait. */
  silenceMs?: number;
}

const UNKNOWN_OUTCOME =
  'so it is not known whether this was done: if you gave an idempotency_key, make the same call again with it; else doing it again may do it twice';

/** What an agent is told instead of what a command says. */
const SAID: Readonly<Partial<Record<ClientCode, string>>> = {
  DAEMON_NOT_RUNNING:
    "no Poste daemon is running, so nothing was done: ask your user to run poste daemon, or to add --start to this server's arguments, and try again",
  DAEMON_GONE: `the Poste daemon ended before it had answered, ${UNKNOWN_OUTCOME}`,
  DAEMON_SILENT: `the Poste daemon did not answer for a long time, ${UNKNOWN_OUTCOME}`,
};

export class DaemonLink {
  readonly #options: DaemonLinkOptions;
  #starting: Promise<void> | undefined;

  constructor(options: DaemonLinkOptions) {
    this.#options = options;
  }

  get agent(): string {
    return this.#options.agent;
  }

  /** Asks in the agent's name, and starts the daemon when none runs and that is wanted. Throws `CallFailed`. */
  async call<N extends OperationName>(name: N, input: InputOf<N>, options: LinkCallOptions = {}): Promise<OutputOf<N>> {
    try {
      return await this.callRunning(name, input, options);
    } catch (error) {
      if (!this.#options.start || !isNotRunning(error)) throw error;
    }
    await this.#started(this.#options.start);
    return this.callRunning(name, input, options);
  }

  /** The same, and starts nothing. */
  async callRunning<N extends OperationName>(
    name: N,
    input: InputOf<N>,
    options: LinkCallOptions = {},
  ): Promise<OutputOf<N>> {
    const { client, agent } = this.#options;
    try {
      return await client.call(name, input, { ...options, as: agent });
    } catch (error) {
      throw forAgents(error);
    }
  }

  /** Calls that come while it starts wait for the same start. */
  #started(start: () => Promise<void>): Promise<void> {
    this.#starting ??= start().finally(() => {
      this.#starting = undefined;
    });
    return this.#starting;
  }
}

export function isNotRunning(error: unknown): boolean {
  return error instanceof CallFailed && error.code === 'DAEMON_NOT_RUNNING';
}

function forAgents(error: unknown): unknown {
  if (!(error instanceof CallFailed)) return error;
  const said = SAID[error.code as ClientCode];
  return said === undefined ? error : new CallFailed(error.code, error.status, said, error.details);
}
