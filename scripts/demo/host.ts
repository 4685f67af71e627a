/** A host of the demo: its folder, its daemon as a process, and `poste mcp` for each of its agents. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as elapsed } from 'node:timers/promises';
import { type CallToolResult, Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import type { AgentsResult, InboxResult, SendResult } from '../../src/host/contract/mail.ts';
import { initialiseHost } from '../../src/host/init.ts';
import { DaemonClient } from '../../src/host/api/client.ts';
import { ownPaths } from '../../src/host/base/paths.ts';
import { parseHostName } from '../../src/protocol/names.ts';

const PROGRAM = ['--import', 'tsx', new URL('../../src/cli/main.ts', import.meta.url).pathname];
/** How long something may take to arrive. */
const PATIENCE_MS = 30_000;
const LOOK_EVERY_MS = 50;

interface ToolResults {
  mail_send: SendResult;
  mail_reply: SendResult;
  mail_agents: AgentsResult;
  mail_inbox: InboxResult;
}

/** The tools of one agent, as a program has them that speaks MCP. */
export class DemoAgent {
  readonly #client: Client;

  private constructor(client: Client) {
    this.#client = client;
  }

  static async connect(name: string, environment: Record<string, string>): Promise<DemoAgent> {
    const client = new Client({ name: 'demo', version: '0' });
    const args = [...PROGRAM, 'mcp', '--agent', name];
    await client.connect(new StdioClientTransport({ command: process.execPath, args, env: environment }));
    return new DemoAgent(client);
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

  async close(): Promise<void> {
    await this.#client.close();
  }
}

export class DemoHost {
  readonly client: DaemonClient;
  readonly #environment: Record<string, string>;
  readonly #agents: DemoAgent[] = [];
  #daemon: ChildProcess | undefined;

  private constructor(environment: Record<string, string>, client: DaemonClient) {
    this.#environment = environment;
    this.client = client;
  }

  static async make(name: string, folder: string): Promise<DemoHost> {
    const { PATH = '', HOME = '' } = process.env;
    // A port of this machine that nobody has.
    const environment = { PATH, HOME, POSTE_HOME: join(folder, name), POSTE_LAN_LISTEN: '127.0.0.1:0' };
    const paths = ownPaths({ env: environment });
    const hostName = parseHostName(name);
    if (hostName === undefined) throw new Error(`${name} is no host name`);
    await initialiseHost(paths, hostName, Date.now());
    return new DemoHost(environment, new DaemonClient(paths.socket, paths.store));
  }

  async start(): Promise<void> {
    const child = spawn(process.execPath, [...PROGRAM, 'daemon', '--json', '--log-level', 'error'], {
      env: this.#environment,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#daemon = child;
    let text = '';
    for await (const chunk of child.stdout) {
      text += String(chunk);
      if (text.includes('\n')) return;
    }
    throw new Error('the daemon did not start');
  }

  /** A new agent with its tools. */
  async agent(name: string, roles: string[] = []): Promise<DemoAgent> {
    await this.client.call('add-agent', { name, roles });
    const agent = await DemoAgent.connect(name, this.#environment);
    this.#agents.push(agent);
    return agent;
  }

  /** Ends the daemon, if it runs. */
  async end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const child = this.#daemon;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  }

  async close(): Promise<void> {
    for (const agent of this.#agents) await agent.close();
    await this.end('SIGTERM');
  }
}

/** Looks again until it sees something. */
export async function until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const seen = await look();
    if (seen !== undefined) return seen;
    if (performance.now() > deadline) throw new Error(`it did not happen in time: ${what}`);
    await elapsed(LOOK_EVERY_MS);
  }
}
