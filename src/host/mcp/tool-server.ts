/** One MCP server with the four tools and the inbox, for a connection of either protocol revision. It keeps nothing: the daemon does. */
import {
  type CallToolResult,
  type JsonSchemaType,
  type JsonSchemaValidator,
  McpServer,
  type StandardSchemaWithJSON,
  fromJsonSchema,
} from '@modelcontextprotocol/server';
import type { TSchema } from 'typebox';
import { CallFailed } from '../local/client.ts';
import { OPERATIONS, type ProblemAnswer } from '../local/operations.ts';
import type { DaemonLink } from './daemon-link.ts';
import { addInboxResource } from './inbox-resource.ts';
import type { InboxWatch } from './inbox-watch.ts';
import { failed, succeeded } from './tool-result.ts';
import { TOOLS, type Tool, instructionsFor } from './tools.ts';

/** What is said of the server itself, on stderr: never a subject or a body. */
export type ServerLog = (message: string) => void;

export interface ToolServerOptions {
  link: DaemonLink;
  watch: InboxWatch;
  version: string;
  log: ServerLog;
}

export function toolServer({ link, watch, version, log }: ToolServerOptions): McpServer {
  const server = new McpServer(
    { name: 'poste', title: 'Poste', version },
    {
      instructions: instructionsFor(link.agent),
      capabilities: { tools: { listChanged: false }, resources: { subscribe: true, listChanged: false } },
    },
  );
  for (const tool of TOOLS) {
    const { input, output } = OPERATIONS[tool.operation];
    const { name, title, description, annotations } = tool;
    const config = { title, description, annotations, inputSchema: shown(input), outputSchema: shown(output) };
    const registered = server.registerTool(name, config, (given, { mcpReq }) =>
      answered(link, tool, given, mcpReq.signal, log),
    );
    registered.execution = { taskSupport: 'forbidden' };
  }
  addInboxResource(server, link, watch);
  return server;
}

async function answered(
  link: DaemonLink,
  { name, operation }: Tool,
  given: unknown,
  signal: AbortSignal,
  log: ServerLog,
): Promise<CallToolResult> {
  try {
    // The daemon holds what was given to the schema, for every caller alike.
    return succeeded(await link.call(operation, given as never, { signal }));
  } catch (error) {
    return failed(problemOf(error, name, signal, log));
  }
}

function problemOf(error: unknown, tool: string, signal: AbortSignal, log: ServerLog): ProblemAnswer {
  if (error instanceof CallFailed) return error;
  // Nobody waits for this answer any more.
  if (signal.aborted) return { code: 'CANCELLED', message: 'the call was cancelled', details: {} };
  log(`${tool} failed: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  return { code: 'INTERNAL', message: 'the tool failed, and its log on stderr says why', details: {} };
}

/** A schema that clients are shown. Values are not held to it here: a refusal of the daemon's says more. */
function shown(schema: TSchema): StandardSchemaWithJSON {
  return fromJsonSchema(schema as JsonSchemaType, {
    getValidator<T>(): JsonSchemaValidator<T> {
      return (data) => ({ valid: true, data: data as T, errorMessage: undefined });
    },
  });
}
