/**
 * `poste mcp`: the tools of one agent over a client's stdio. The composition root of this folder.
 *
 *     client ─ stdio ─▶ one server for its protocol revision ─▶ tool ─▶ daemon's socket
 *                       session: beats while this runs ────────────▶ daemon's socket
 *     Claude Code's inbox ◀─ doorbells: one long wait after another ─▶ daemon's socket
 *                       subscription: one long wait after another ─▶ daemon's socket
 *
 * Standard output carries the protocol alone.
 */
import { randomBytes } from 'node:crypto';
import { isJSONRPCNotification, type JSONRPCMessage, type McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import type { DaemonClient } from '../api/client.ts';
import { AgentSession } from './agent-session.ts';
import type { ClaudeInbox } from './claude-inbox.ts';
import { type ClientStreams, ClientTransport } from './client-transport.ts';
import { DaemonLink } from './daemon-link.ts';
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
  /** The inbox of the Claude Code session that started this process. */
  inbox: ClaudeInbox | undefined;
  /** The process that started this one, while it runs: the client. */
  parentPid: () => number;
}

export interface ServedMcp {
  /** Resolves when the client has disconnected. */
  ended: Promise<void>;
  /** Ends the session and the connection. */
  close(): Promise<void>;
}

export function serveMcp({ client, agent, version, log, start, streams, inbox, parentPid }: McpOptions): ServedMcp {
  const sessionId = `mcp-${randomBytes(8).toString('hex')}`;
  const link = new DaemonLink({ client, agent, session: sessionId, start });
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
  const transport = new ClientTransport(streams, (message) => {
    if (grantsInbox(message)) watch.begin();
  });
  const served = serveStdio(makeServer, { transport, onerror });
  const session = new AgentSession({ link, sessionId, inbox, parentPid, log });
  return {
    ended: transport.closed,
    close: async () => {
      await Promise.all([watch.end(), session.end()]);
      await served.close();
    },
  };
}

/** Whether the message acknowledges the client's subscription to the inbox. */
function grantsInbox(message: JSONRPCMessage): boolean {
  if (!isJSONRPCNotification(message) || message.method !== 'notifications/subscriptions/acknowledged') return false;
  const { resourceSubscriptions } = Object(message.params?.['notifications']) as { resourceSubscriptions?: unknown };
  return Array.isArray(resourceSubscriptions) && resourceSubscriptions.includes(INBOX_URI);
}
