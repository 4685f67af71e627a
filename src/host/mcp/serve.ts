/**
 * `poste mcp`: the tools of one agent over a client's stdio. The composition root of this folder.
 *
 *     client ─ stdio ─▶ one server for its protocol revision ─▶ tool ─▶ daemon's socket
 *                       session: beats while this runs ────────────▶ daemon's socket
 *                       subscription: one long wait after another ─▶ daemon's socket
 *
 * Standard output carries the protocol alone.
 */
import { randomBytes } from 'node:crypto';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as elapsed } from 'node:timers/promises';
import { isJSONRPCNotification, type JSONRPCMessage, type McpServer } from '@modelcontextprotocol/server';
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import { CallFailed, type DaemonClient } from '../api/client.ts';
import { DaemonLink, RETRY_MS } from './daemon-link.ts';
import { INBOX_URI, InboxWatch } from './inbox-resource.ts';
import { type ServerLog, toolServer } from './tools.ts';

export interface McpOptions {
  client: DaemonClient;
  agent: string;
  version: string;
  log: ServerLog;
  /** Starts a daemon and resolves when it answers; throws `CallFailed`. */
  start: (() => Promise<void>) | undefined;
  /** The client's stdio. */
  streams: ClientStreams;
}

export interface ClientStreams {
  stdin: Readable;
  stdout: Writable;
}

export interface ServedMcp {
  /** Resolves when the client has disconnected. */
  ended: Promise<void>;
  /** Ends the session and the connection. */
  close(): Promise<void>;
}

export function serveMcp({ client, agent, version, log, start, streams }: McpOptions): ServedMcp {
  const link = new DaemonLink({ client, agent, start });
  // Never log the message itself: it may hold mail.
  const onerror = ({ name }: Error): void => log(`the client's messages are not all understood (${name})`);
  let server: McpServer | undefined;
  const watch = new InboxWatch(link, () => {
    // The client may have disconnected.
    void server?.server.sendResourceUpdated({ uri: INBOX_URI }).catch(() => undefined);
  });
  const makeServer = (): McpServer => {
    server = toolServer({ link, watch, version, log });
    return server;
  };
  const transport = new ClientTransport(streams, () => watch.begin());
  const served = serveStdio(makeServer, { transport, onerror });
  const session = new AgentSession(link, `mcp-${randomBytes(8).toString('hex')}`, log);
  return {
    ended: transport.closed,
    close: async () => {
      await Promise.all([watch.end(), session.end()]);
      await served.close();
    },
  };
}

/** The client's streams; also reports what `serveStdio` does not: that the client subscribed to the inbox, or disconnected. */
class ClientTransport extends StdioServerTransport {
  readonly closed: Promise<void>;
  readonly #listens: () => void;
  #tellClosed!: () => void;

  constructor({ stdin, stdout }: ClientStreams, listens: () => void) {
    super(stdin, stdout);
    this.#listens = listens;
    this.closed = new Promise((resolve) => {
      this.#tellClosed = resolve;
    });
  }

  override async send(message: JSONRPCMessage): Promise<void> {
    if (grantsInbox(message)) this.#listens();
    return super.send(message);
  }

  override async close(): Promise<void> {
    await super.close();
    this.#tellClosed();
  }
}

/** Whether the message acknowledges the client's subscription to the inbox. */
function grantsInbox(message: JSONRPCMessage): boolean {
  if (!isJSONRPCNotification(message) || message.method !== 'notifications/subscriptions/acknowledged') return false;
  const { resourceSubscriptions } = Object(message.params?.['notifications']) as { resourceSubscriptions?: unknown };
  return Array.isArray(resourceSubscriptions) && resourceSubscriptions.includes(INBOX_URI);
}

/**
 * The session of one MCP process: its agent is live while the process runs.
 *
 * It registers again well before it would count as silent. While no daemon runs, or the agent does not exist, it tries
 * again soon, so that the session is live shortly after either changes.
 */

/** Registrations within the time after which a silent session is not live. */
const BEATS_PER_LIFE = 3;
/** The time limit of the one call that ends the session. */
const END_MS = 1000;

class AgentSession {
  readonly #link: DaemonLink;
  readonly #sessionId: string;
  readonly #log: ServerLog;
  readonly #ending = new AbortController();
  readonly #beats: Promise<void>;
  #isRegistered = false;
  /** The code that was last logged, so that a missing daemon is logged once. */
  #lastFault = '';

  constructor(link: DaemonLink, sessionId: string, log: ServerLog) {
    this.#link = link;
    this.#sessionId = sessionId;
    this.#log = log;
    this.#beats = this.#beat();
  }

  /** Ends the session. Never throws. */
  async end(): Promise<void> {
    this.#ending.abort();
    await this.#beats;
    if (!this.#isRegistered) return;
    try {
      const signal = AbortSignal.timeout(END_MS);
      await this.#link.callRunning('session-end', { session_id: this.#sessionId }, { signal });
    } catch {
      // Without this call it is not live either once it was silent for long enough.
    }
  }

  async #beat(): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      const waitMs = await this.#register(signal);
      await elapsed(waitMs, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  /** Registers the session. Resolves with how long to wait for the next time. */
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
