/**
 * `poste mcp`: the tools of one agent over a client's stdio. The composition root of this folder.
 *
 *     client ─ stdio ─▶ one server for its protocol revision ─▶ tool ─▶ daemon's socket
 *                       session: beats while this runs ────────────▶ daemon's socket
 *
 * Standard output carries the protocol alone.
 */
import { randomBytes } from 'node:crypto';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import type { DaemonClient } from '../local/client.ts';
import { AgentSession } from './agent-session.ts';
import { DaemonLink } from './daemon-link.ts';
import { type ServerLog, toolServer } from './tool-server.ts';

export interface McpOptions {
  client: DaemonClient;
  agent: string;
  version: string;
  log: ServerLog;
  /** Starts a daemon and resolves when it answers; throws `CallFailed`. */
  start: (() => Promise<void>) | undefined;
}

export interface ServedMcp {
  /** Resolves when the client has gone. */
  ended: Promise<void>;
  /** Ends the session and the connection. */
  close(): Promise<void>;
}

export function serveMcp({ client, agent, version, log, start }: McpOptions): ServedMcp {
  const link = new DaemonLink({ client, agent, start });
  const transport = new ClientTransport();
  const served = serveStdio(() => toolServer({ link, version, log }), {
    transport,
    // What the message was is the client's, and may be mail.
    onerror: ({ name }) => log(`the client's messages are not all understood (${name})`),
  });
  const session = new AgentSession(link, `mcp-${randomBytes(8).toString('hex')}`, log);
  return {
    ended: transport.closed,
    close: async () => {
      await session.end();
      await served.close();
    },
  };
}

/** Standard input and output; says when either has ended, which `serveStdio` tells nobody. */
class ClientTransport extends StdioServerTransport {
  readonly closed: Promise<void>;
  #tellClosed!: () => void;

  constructor() {
    super();
    this.closed = new Promise((resolve) => {
      this.#tellClosed = resolve;
    });
  }

  override async close(): Promise<void> {
    await super.close();
    this.#tellClosed();
  }
}
