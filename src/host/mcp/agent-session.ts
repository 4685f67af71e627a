/**
 * The session of one MCP process: its agent is live while the process runs, and its client with it.
 *
 * It registers again well before it would count as silent. While no daemon runs, or the agent does not exist, it tries
 * again soon, so that the session is live shortly after either changes. With an inbox of Claude Code it also waits for
 * doorbells, and posts them there.
 */
import { setTimeout as elapsed } from 'node:timers/promises';
import { CallFailed } from '../api/client.ts';
import { SESSION_WAIT_MS_MAX } from '../contract/socket-protocol.ts';
import type { InputOf } from '../api/operations.ts';
import { type DaemonLink, RETRY_MS } from './daemon-link.ts';
import { connect, type Socket } from 'node:net';
import { socketFault } from '../../lib/socket-request.ts';

/** Registrations within the time after which a silent session is not live. */
const BEATS_PER_LIFE = 3;
/** The time limit of the one call that ends the session. */
const END_MS = 1000;
/** The most by which an answer may exceed the wait that was asked for. */
const WAIT_SLACK_MS = 15_000;

/** Writes a line about the server to stderr: never a subject or a body. */
export type ServerLog = (message: string) => void;

interface AgentSessionParts {
  link: Pick<DaemonLink, 'callRunning'>;
  sessionId: string;
  inbox: ClaudeInbox | undefined;
  parentPid: () => number;
  log: ServerLog;
}

export class AgentSession {
  readonly #parts: AgentSessionParts;
  readonly #ending = new AbortController();
  readonly #work: Promise<unknown>;
  /** Resolves at the first registration: before that there is no session to wait for. */
  readonly #registered: Promise<void>;
  #tellRegistered!: () => void;
  readonly #clientPid: number;
  #isRegistered = false;
  /** The daemon may not see the client's process: it may be one of another container. */
  #namesClient = true;
  /** The code that was last logged, so that a missing daemon is logged once. */
  #lastFault = '';

  constructor(parts: AgentSessionParts) {
    this.#parts = parts;
    this.#clientPid = parts.parentPid();
    this.#registered = new Promise((resolve) => {
      this.#tellRegistered = resolve;
    });
    const { inbox } = parts;
    this.#work = Promise.all([this.#beat(), inbox && this.#waitForDoorbells(new InboxPoster(inbox))]);
  }

  /** Ends the session. Never throws. */
  async end(): Promise<void> {
    this.#ending.abort();
    this.#tellRegistered();
    await this.#work;
    if (!this.#isRegistered) return;
    const { link, sessionId } = this.#parts;
    try {
      await link.callRunning('session-end', { session_id: sessionId }, { signal: AbortSignal.timeout(END_MS) });
    } catch {
      // Without this call it is not live either once it was silent for long enough.
    }
  }

  async #beat(): Promise<void> {
    while (!this.#ending.signal.aborted) await this.#pause(await this.#register());
  }

  /** Registers the session. Resolves with how long to wait for the next time. */
  async #register(): Promise<number> {
    const { link, log } = this.#parts;
    const { signal } = this.#ending;
    try {
      const { live_ms } = await link.callRunning('session-register', this.#registration(), { signal });
      this.#isRegistered = true;
      this.#tellRegistered();
      this.#lastFault = '';
      return live_ms / BEATS_PER_LIFE;
    } catch (error) {
      if (signal.aborted) return 0;
      const { code, message } = error instanceof CallFailed ? error : { code: 'INTERNAL', message: String(error) };
      const isOfPid = error instanceof CallFailed && error.details['field'] === 'pid';
      if (isOfPid && this.#namesClient) {
        this.#namesClient = false;
        return 0;
      }
      if (code !== this.#lastFault) log(message);
      this.#lastFault = code;
      return RETRY_MS;
    }
  }

  #registration(): InputOf<'session-register'> {
    const { sessionId, inbox, parentPid } = this.#parts;
    const pid = parentPid();
    return {
      session_id: sessionId,
      wake: inbox ? [{ type: 'claude-socket' }] : [],
      // Process 1 takes over what another one left behind.
      ...(this.#namesClient && pid > 1 && { pid }),
    };
  }

  async #waitForDoorbells(poster: InboxPoster): Promise<void> {
    const { link, sessionId } = this.#parts;
    const { signal } = this.#ending;
    await this.#registered;
    while (!signal.aborted) {
      try {
        const asked = { session_id: sessionId, wait_ms: SESSION_WAIT_MS_MAX };
        const options = { signal, silenceMs: SESSION_WAIT_MS_MAX + WAIT_SLACK_MS };
        const { event, ring, text } = await link.callRunning('session-wait', asked, options);
        if (event === 'doorbell' && ring !== null && text !== null) await this.#post(poster, ring, text);
        if (event === 'released') await this.#pause(RETRY_MS);
      } catch {
        // No daemon, or no such session yet: `#register` logs it.
        await this.#pause(RETRY_MS);
      }
    }
  }

  async #post(poster: InboxPoster, ring: string, text: string): Promise<void> {
    const heard = async (failed: boolean): Promise<boolean> => {
      const { link, sessionId } = this.#parts;
      const input = { session_id: sessionId, ring, failed };
      return (await link.callRunning('session-heard', input, { signal: this.#ending.signal })).counted;
    };
    const hasClient = this.#parts.parentPid() === this.#clientPid;
    const outcome = hasClient ? await poster.post(text, () => heard(false)) : 'failed';
    if (outcome === 'failed') await heard(true);
  }

  async #pause(ms: number): Promise<void> {
    await elapsed(ms, undefined, { signal: this.#ending.signal, ref: false }).catch(() => undefined);
  }
}

/** Claude Code drops the same text from the same process for 30 s. */
export const REPEAT_MS = 31_000;
const CONNECT_MS = 500;
/** Claude Code closes its end within 0.3 s. */
const CLOSE_MS = 2000;

export interface ClaudeInbox {
  socket: string;
  token: string;
}

/**
 * The inbox that Claude Code names in the environment of its children. `undefined` without one, and for a session that
 * nobody attends, such as `claude -p`: there a message changes what its caller gets as the answer. Its owner may know
 * better (`wakesUnattended`): a worker that is fed over stdin looks the same.
 */
export function claudeInboxOf(
  environment: Readonly<Record<string, string | undefined>>,
  wakesUnattended: boolean,
): ClaudeInbox | undefined {
  const {
    CLAUDE_CODE_MESSAGING_SOCKET: socket,
    CLAUDE_CODE_MESSAGING_TOKEN: token,
    CLAUDE_CODE_ENTRYPOINT: entry,
  } = environment;
  if (!socket || !token) return undefined;
  if (entry?.startsWith('sdk-') && !wakesUnattended) return undefined;
  return { socket, token };
}

/**
 * Posts doorbells into the inbox socket of the Claude Code session whose child this process is, as Claude Code
 * documents it for its own children (https://code.claude.com/docs, "The session's inbox socket"). The socket never
 * answers, and it drops without a word what names another session: so nothing but the line is sent.
 */
export class InboxPoster {
  readonly #inbox: ClaudeInbox;
  readonly #monotonicMs: () => number;
  #last: { text: string; atMs: number } | undefined;

  constructor(inbox: ClaudeInbox, monotonicMs: () => number = () => performance.now()) {
    this.#inbox = inbox;
    this.#monotonicMs = monotonicMs;
  }

  /** Posts the text once `agrees` says so. Resolves with whether it was written. Never rejects. */
  async post(text: string, agrees: () => Promise<boolean>): Promise<'posted' | 'failed' | 'not wanted'> {
    const nowMs = this.#monotonicMs();
    if (this.#last?.text === text && nowMs - this.#last.atMs < REPEAT_MS) return 'failed';
    if (socketFault(this.#inbox.socket) !== undefined) return 'failed';
    const connection = await openConnection(this.#inbox.socket);
    if (!connection) return 'failed';
    try {
      if (!(await agrees())) return 'not wanted';
      this.#last = { text, atMs: nowMs };
      return (await writeLines(connection, this.#lines(text))) ? 'posted' : 'failed';
    } finally {
      connection.destroy();
    }
  }

  #lines(text: string): string {
    const auth = { type: 'auth', token: this.#inbox.token };
    const message = { type: 'user', message: { role: 'user', content: text } };
    return `${JSON.stringify(auth)}\n${JSON.stringify(message)}\n`;
  }
}

function openConnection(path: string): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const connection = connect(path);
    connection.setTimeout(CONNECT_MS, () => connection.destroy());
    connection.on('error', () => undefined);
    connection.once('close', () => resolve(undefined));
    connection.once('connect', () => {
      connection.setTimeout(CLOSE_MS);
      resolve(connection);
    });
  });
}

/** Resolves when the other end has closed as well, or after a while: it reads what came before that. */
function writeLines(connection: Socket, lines: string): Promise<boolean> {
  return new Promise((resolve) => {
    let isWritten = false;
    connection.once('close', () => resolve(isWritten));
    connection.resume();
    connection.end(lines, () => {
      isWritten = true;
    });
    if (connection.destroyed) resolve(false);
  });
}
