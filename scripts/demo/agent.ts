/** An agent of the demo: `poste mcp`, and its tools as a program has them that speaks MCP. */
import type { CallToolResult, Client } from '@modelcontextprotocol/client';
import type { AgentsResult, InboxResult, SendResult } from '../../src/host/contract/mail.ts';
import { connectMcp } from '../../test/support/mcp-client.ts';
import type { PosteHome } from '../../test/support/poste-home.ts';

interface ToolResults {
  mail_send: SendResult;
  mail_reply: SendResult;
  mail_agents: AgentsResult;
  mail_inbox: InboxResult;
}

export class DemoAgent {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Throws when the tool refuses. */
  async use<T extends keyof ToolResults>(tool: T, input: Record<string, unknown> = {}): Promise<ToolResults[T]> {
    const result = await this.call(tool, input);
    if (result.isError) throw new Error(`${tool} refused: ${JSON.stringify(result.content)}`);
    return result.structuredContent as ToolResults[T];
  }

  call(tool: keyof ToolResults, input: Record<string, unknown>): Promise<CallToolResult> {
    return this.#client.callTool({ name: tool, arguments: input });
  }
}

/** A new agent of the host, with its tools. */
export async function agentOf(host: PosteHome, name: string, roles: string[] = []): Promise<DemoAgent> {
  await host.client.call('add-agent', { name, roles });
  const { client } = await connectMcp(host.environment, ['--agent', name]);
  return new DemoAgent(client);
}
