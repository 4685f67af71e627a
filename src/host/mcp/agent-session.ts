/**
 * The session of one MCP process: its agent counts as live while it runs.
 *
 * Said again long before it would count as gone. A daemon that does not run, or does not know the agent yet, is asked
 * again soon, so that the session is there shortly after either changes.
 */
import { setTimeout as elapsed } from 'node:timers/promises';
import { CallFailed } from '../local/client.ts';
import { type DaemonLink, RETRY_MS } from './daemon-link.ts';
import type { ServerLog } from './tool-server.ts';

/** Beats within the time that the daemon says a silent session lives. */
const BEATS_PER_LIFE = 3;
/** The end is said once, and not waited for longer. */
const END_MS = 1000;

export class AgentSession {
  readonly #link: DaemonLink;
  readonly #sessionId: string;
  readonly #log: ServerLog;
  readonly #ending = new AbortController();
  readonly #beats: Promise<void>;
  #isRegistered = false;
  /** The code that was last logged: a daemon that is away is told of once. */
  #lastFault = '';

  constructor(link: DaemonLink, sessionId: string, log: ServerLog) {
    this.#link = link;
    this.#sessionId = sessionId;
    this.#log = log;
    this.#beats = this.#beat();
  }

  /** Says that the session ended. Never throws. */
  async end(): Promise<void> {
    this.#ending.abort();
    await this.#beats;
    if (!this.#isRegistered) return;
    try {
      const signal = AbortSignal.timeout(END_MS);
      await this.#link.callRunning('session-end', { session_id: this.#sessionId }, { signal });
    } catch {
      // It counts as gone when it has been silent for long enough.
    }
  }

  async #beat(): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      const waitMs = await this.#register(signal);
      await elapsed(waitMs, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  /** Registers the session, or says again that it is there. Resolves with how long to wait. */
  async #register(signal: AbortSignal): Promise<number> {
    try {
      const { live_ms } = await this.#link.callRunning('session-register', { session_id: this.#sessionId }, { signal });
      this.#isRegistered = true;
      this.#lastFault = '';
      return live_ms / BEATS_PER_LIFE;
    } catch (error) {
      if (signal.aborted) return 0;
      const { code, message } = error instanceof CallFailed ? error : { code: 'INTERNAL', message: String(error) };
      if (code !== this.#lastFault) this.#log(message);
      this.#lastFault = code;
      return RETRY_MS;
    }
  }
}
