/**
 * Calls the daemon for the tools of one agent. A restarted daemon is simply called again. Failures are worded for an
 * agent, which has tools and no command line.
 */
import { CallFailed, type ClientCode, type DaemonClient } from '../api/client.ts';
import type { InputOf, OperationName, OutputOf } from '../api/operations.ts';

/** The time that background calls wait before they try a missing daemon again. */
export const RETRY_MS = 3000;

interface DaemonLinkOptions {
  client: DaemonClient;
  agent: string;
  /** The session of this process: the daemon learns by it that the agent uses its tools. */
  session?: string;
  /** Starts a daemon and resolves when it answers; throws `CallFailed`. Absent: no daemon is started. */
  start?: (() => Promise<void>) | undefined;
}

interface LinkCallOptions {
  /** The name of the call, when `wait-heard` will say what became of its answer. */
  callId?: string;
  signal?: AbortSignal | undefined;
  /** Must be longer than the wait that is asked for. */
  silenceMs?: number;
}

const UNKNOWN_OUTCOME =
  'so it is not known whether this was done: if you gave an idempotency_key, make the same call again with it; ' +
  'else doing it again may do it twice';

/** The messages for agents that differ from those of commands. */
const MESSAGE_FOR_AGENTS: Readonly<Partial<Record<ClientCode, string>>> = {
  DAEMON_NOT_RUNNING:
    'no Poste daemon is running, so nothing was done: ask your user to run poste daemon, ' +
    'or to let this server start it, without --no-start and POSTE_NO_START, and try again',
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

  /** Calls an operation as the agent; starts a daemon when none runs and `start` is given. Throws `CallFailed`. */
  async call<N extends OperationName>(name: N, input: InputOf<N>, options: LinkCallOptions = {}): Promise<OutputOf<N>> {
    try {
      return await this.callRunning(name, input, options);
    } catch (error) {
      if (!this.#options.start || !isNotRunning(error)) throw error;
    }
    await this.#startOnce(this.#options.start);
    return this.callRunning(name, input, options);
  }

  /** The same, without starting a daemon. */
  async callRunning<N extends OperationName>(
    name: N,
    input: InputOf<N>,
    options: LinkCallOptions = {},
  ): Promise<OutputOf<N>> {
    const { client, agent, session } = this.#options;
    try {
      return await client.call(name, input, { ...options, as: agent, session });
    } catch (error) {
      throw forAgents(error);
    }
  }

  /** Calls during a start wait for the same start. */
  #startOnce(start: () => Promise<void>): Promise<void> {
    this.#starting ??= start().finally(() => {
      this.#starting = undefined;
    });
    return this.#starting;
  }
}

function isNotRunning(error: unknown): boolean {
  return error instanceof CallFailed && error.code === 'DAEMON_NOT_RUNNING';
}

/** The tool by which an agent finds a way out of a refusal. */
const TOOL_FOR_AGENTS: Readonly<Record<string, string>> = {
  UNKNOWN_RECIPIENT: 'See mail_agents for all names.',
  NO_SUCH_MESSAGE: 'See mail_inbox.',
};

function forAgents(error: unknown): unknown {
  if (!(error instanceof CallFailed)) return error;
  const { code, status, details } = error;
  const tool = TOOL_FOR_AGENTS[code];
  const message =
    MESSAGE_FOR_AGENTS[code as ClientCode] ?? (tool === undefined ? undefined : `${error.message} ${tool}`);
  return message === undefined ? error : new CallFailed(code, status, message, details);
}
