/**
 * `poste mcp`: the tools of one agent over a client's stdio. The composition root of this folder.
 *
 *     client ─ stdio ─▶ one server for its protocol revision ─▶ tool ─▶ daemon's socket
 *                       a plain call, past the server ─────────▶ tool ─▶ daemon's socket
 *                       session: beats while this runs ────────────▶ daemon's socket
 *     Claude Code's inbox ◀─ doorbells: one long wait after another ─▶ daemon's socket
 *                       subscription: one long wait after another ─▶ daemon's socket
 *
 * Standard output carries the protocol alone.
 */
import { randomBytes } from 'node:crypto';
import {
  isJSONRPCNotification,
  type JSONRPCMessage,
  McpServer,
  type CallToolResult,
  fromJsonSchema,
  type JsonSchemaType,
  type JsonSchemaValidator,
  type jsonSchemaValidator,
  type RequestId,
  type StandardSchemaWithJSON,
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { type DaemonClient, CallFailed } from '../api/client.ts';
import { AgentSession, type ClaudeInbox, type ServerLog } from './agent-session.ts';
import { type CallTool, type ClientStreams, ClientTransport } from './client-transport.ts';
import { DaemonLink } from './daemon-link.ts';
import { INBOX_URI, InboxWatch, addInboxResource } from './inbox-resource.ts';
import { asksToWait, callWaiting, type ToolRequest, type WaitingCallParts } from './waiting-call.ts';
import { systemTimers, type Timers } from '../../lib/clock.ts';
import { OPERATIONS, type ProblemAnswer } from '../api/operations.ts';
import { SHOWN_AT_ONCE, TOOLS, type Tool, instructionsFor, listedInput, listedOutput } from './tools.ts';

export interface McpOptions {
  client: DaemonClient;
  agent: string;
  version: string;
  log: ServerLog;
  /** Starts a daemon and resolves when it answers; throws `CallFailed`. */
  start: (() => Promise<void>) | undefined;
  /** The client's stdio. */
  streams: ClientStreams;
  /** Requests that the streams bring and that were answered before. */
  answered?: ReadonlySet<RequestId>;
  /** The inbox of the Claude Code session that started this process. */
  inbox: ClaudeInbox | undefined;
  /** The process that started this one, while it runs: the client. */
  parentPid: () => number;
  timers?: Timers;
}

export interface ServedMcp {
  /** Resolves when the client has disconnected. */
  ended: Promise<void>;
  /** Ends the session and the connection. */
  close(): Promise<void>;
}

export function serveMcp(options: McpOptions): ServedMcp {
  const { client, agent, version, log, start, streams, inbox, parentPid, timers = systemTimers } = options;
  const { answered: answeredBefore } = options;
  const sessionId = `mcp-${randomBytes(8).toString('hex')}`;
  const link = new DaemonLink({ client, agent, session: sessionId, start });
  // Never log the message itself: it may hold mail.
  const onerror = ({ name }: Error): void => log(`the client's messages are not all understood (${name})`);
  let server: McpServer | undefined;
  const watch = new InboxWatch(link, () => {
    // The client may have disconnected.
    void server?.server.sendResourceUpdated({ uri: INBOX_URI }).catch(() => undefined);
  });
  const whenWritten = (id: RequestId): Promise<boolean> => transport.whenWritten(id);
  const parts = { link, timers, whenWritten };
  const makeServer = (): McpServer => {
    server = toolServer({ watch, version, log, ...parts });
    return server;
  };
  const callTool: CallTool = ({ id, name, given, meta }, signal, send) => {
    const tool = TOOLS.find((one) => one.name === name);
    const notify: ToolRequest['notify'] = (notification) => send({ jsonrpc: '2.0', ...notification });
    return tool && runTool(parts, tool, given, { id, signal, _meta: meta, notify }, log);
  };
  const beginAtGrant = (message: JSONRPCMessage): void => {
    if (grantsInbox(message)) watch.begin();
  };
  const transport = new ClientTransport(streams, beginAtGrant, answeredBefore, callTool);
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

/** True when the message acknowledges the client's subscription to the inbox. */
function grantsInbox(message: JSONRPCMessage): boolean {
  if (!isJSONRPCNotification(message) || message.method !== 'notifications/subscriptions/acknowledged') return false;
  const { resourceSubscriptions } = Object(message.params?.['notifications']) as { resourceSubscriptions?: unknown };
  return Array.isArray(resourceSubscriptions) && resourceSubscriptions.includes(INBOX_URI);
}

/**
 * The result of a successful tool call.
 *
 * A success is structured, and the same as JSON text for clients that show text alone. A failure is JSON text alone:
 * its shape is not that of the tool's output schema, which some clients hold structured content to even then.
 */

function successResult(output: Readonly<Record<string, unknown>>): CallToolResult {
  return { content: [{ type: 'text', text: JSON.stringify(output) }], structuredContent: output };
}

/** `code` for programs, one sentence, and what may help: suggestions, the member that is wrong. */
function failureResult({ code, message, details }: ProblemAnswer): CallToolResult {
  return { content: [{ type: 'text', text: JSON.stringify({ code, message, details }) }], isError: true };
}

/** An MCP server with the four tools and the inbox, for either protocol revision. Only the daemon has state. */

interface ToolServerOptions extends WaitingCallParts {
  watch: InboxWatch;
  version: string;
  log: ServerLog;
}

function toolServer({ watch, version, log, ...parts }: ToolServerOptions): McpServer {
  const { link } = parts;
  const server = new McpServer(
    { name: 'poste', title: 'Poste', version },
    {
      instructions: instructionsFor(link.agent),
      jsonSchemaValidator: ANY_VALUE,
      capabilities: { tools: { listChanged: false }, resources: { subscribe: true, listChanged: false } },
    },
  );
  for (const tool of TOOLS) {
    const { input, output } = OPERATIONS[tool.operation];
    const { name, title, description, annotations, isShownAtOnce, unlisted } = tool;
    const schemas = {
      inputSchema: schemaForTools(listedInput(input, unlisted)),
      outputSchema: schemaForTools(listedOutput(output)),
    };
    const config = { title, description, annotations, ...schemas, ...(isShownAtOnce ? { _meta: SHOWN_AT_ONCE } : {}) };
    const registered = server.registerTool(name, config, (given, { mcpReq }) =>
      runTool(parts, tool, given, mcpReq, log),
    );
    registered.execution = { taskSupport: 'forbidden' };
  }
  addInboxResource(server, link, watch);
  return server;
}

async function runTool(
  parts: WaitingCallParts,
  { name, operation }: Tool,
  given: unknown,
  request: ToolRequest,
  log: ServerLog,
): Promise<CallToolResult> {
  const { signal } = request;
  try {
    // The daemon validates the input, for every caller alike.
    const isWait = operation === 'mail-inbox' && asksToWait(given);
    const answer = isWait
      ? await callWaiting(parts, request, given as never)
      : await parts.link.call(operation, given as never, { signal });
    return successResult(answer);
  } catch (error) {
    return failureResult(problemOf(error, name, signal, log));
  }
}

function problemOf(error: unknown, tool: string, signal: AbortSignal, log: ServerLog): ProblemAnswer {
  if (error instanceof CallFailed) return error;
  // Nobody waits for this answer any more.
  if (signal.aborted) return { code: 'CANCELLED', message: 'the call was cancelled', details: {} };
  log(`${tool} failed: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  return { code: 'INTERNAL', message: 'the tool failed, and its log on stderr says why', details: {} };
}

/** Takes every value. The daemon says more of what it refuses, and nothing is asked of a client. */
const ANY_VALUE: jsonSchemaValidator = {
  getValidator<T>(): JsonSchemaValidator<T> {
    return (data) => ({ valid: true, data: data as T, errorMessage: undefined });
  },
};

/** A schema for clients to see. */
function schemaForTools(schema: object): StandardSchemaWithJSON {
  return fromJsonSchema(schema as JsonSchemaType, ANY_VALUE);
}
