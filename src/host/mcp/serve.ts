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
import { type JSONRPCMessage, type McpServer, isJSONRPCNotification } from '@modelcontextprotocol/server';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import type { DaemonClient } from '../local/client.ts';
import { AgentSession } from './agent-session.ts';
import { DaemonLink } from './daemon-link.ts';
import { INBOX_URI } from './inbox-resource.ts';
import { InboxWatch } from './inbox-watch.ts';
import { type ServerLog, toolServer } from './tool-server.ts';

export interface McpOptions {
  client: DaemonClient;
  agent: string;
  version: string;
  log: ServerLog;
  /** Starts a daemon and resolves when it answers; throws `CallFailed`. */
  start: (() => Promise<void>) | undefined;
  /** What the client speaks over; absent: standard input and output. */
  streams?: ClientStreams | undefined;
}

export interface ClientStreams {
  stdin: Readable;
  stdout: Writable;
}

export interface ServedMcp {
  /** Resolves when the client has gone. */
  ended: Promise<void>;
  /** Ends the session and the connection. */
  close(): Promise<void>;
}

export function serveMcp({ client, agent, version, log, start, streams = process }: McpOptions): ServedMcp {
  const link = new DaemonLink({ client, agent, start });
  // What the message was is the client's, and may be mail.
  const onerror = ({ name }: Error): void => log(`the client's messages are not all understood (${name})`);
  let server: McpServer | undefined;
  const watch = new InboxWatch(link, () => {
    // A client that has gone needs no word.
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

/** The client's streams; says what `serveStdio` tells nobody: that it listens for the inbox, and that it has gone. */
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

/** Whether it tells the client that it is told of the inbox from now on. */
function grantsInbox(message: JSONRPCMessage): boolean {
  if (!isJSONRPCNotification(message) || message.method !== 'notifications/subscriptions/acknowledged') return false;
  const { resourceSubscriptions } = Object(message.params?.['notifications']) as { resourceSubscriptions?: unknown };
  return Array.isArray(resourceSubscriptions) && resourceSubscriptions.includes(INBOX_URI);
}
