/**
 * The official MCP client and `poste mcp` as its child process. Everything that the process writes is kept, so that a
 * test can hold its standard output to the protocol. Call it inside a test, after the build.
 */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import {
  Client,
  type ClientOptions,
  type JSONRPCMessage,
  type Transport,
  deserializeMessage,
  serializeMessage,
} from '@modelcontextprotocol/client';
import { onTestFinished } from 'vitest';
import type { Environment } from './poste-process.ts';

const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

/** The two revisions that the tools are tried over. */
export const REVISIONS = ['2025-11-25', '2026-07-28'] as const;
export type Revision = (typeof REVISIONS)[number];

/** Lines of JSON to and from a child process. */
export class McpProcess implements Transport {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #closed: Promise<unknown>;
  #stdout = '';
  #stderr = '';
  #read = 0;
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;

  constructor(args: readonly string[], environment: Environment) {
    const { PATH = '', HOME = '' } = process.env;
    this.#child = spawn(process.execPath, [MAIN, 'mcp', ...args], { env: { PATH, HOME, ...environment } });
    this.#closed = once(this.#child, 'close');
    this.#child.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.#stdout += text;
      this.#deliver();
    });
    this.#child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text;
    });
    // A process that is gone takes nothing more.
    this.#child.stdin.on('error', () => undefined);
    void this.#closed.then(() => this.onclose?.());
    onTestFinished(() => this.kill());
  }

  get stdout(): string {
    return this.#stdout;
  }

  get stderr(): string {
    return this.#stderr;
  }

  async start(): Promise<void> {}

  async send(message: JSONRPCMessage): Promise<void> {
    this.write(serializeMessage(message));
  }

  /** Whatever bytes a client may send. */
  write(text: string): void {
    this.#child.stdin.write(text);
  }

  /** Ends standard input, as a client that ends. */
  async close(): Promise<void> {
    this.#child.stdin.end();
    await this.#closed;
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  /** The exit code, or the signal that ended it. */
  async ended(): Promise<number | string | null> {
    await this.#closed;
    return this.#child.exitCode ?? this.#child.signalCode;
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#closed;
  }

  /** Resolves when standard error holds `text`. */
  async said(text: string): Promise<void> {
    const deadline = AbortSignal.timeout(30_000);
    while (!this.#stderr.includes(text)) await once(this.#child.stderr, 'data', { signal: deadline });
  }

  #deliver(): void {
    for (;;) {
      const end = this.#stdout.indexOf('\n', this.#read);
      if (end === -1) return;
      const line = this.#stdout.slice(this.#read, end);
      this.#read = end + 1;
      // What is no message of the protocol fails the test that reads it.
      this.onmessage?.(deserializeMessage(line));
    }
  }
}

/** Starts `poste mcp`, with nobody who speaks to it. */
export function mcpProcess(environment: Environment, args: readonly string[]): McpProcess {
  return new McpProcess(args, environment);
}

/** The options of a client that speaks one revision. */
export function versionNegotiationOf(revision: Revision): ClientOptions {
  return { versionNegotiation: { mode: revision === '2026-07-28' ? { pin: revision } : 'legacy' } };
}

export interface ConnectedMcp {
  client: Client;
  process: McpProcess;
}

export async function connectMcp(
  environment: Environment,
  args: readonly string[],
  revision: Revision = '2025-11-25',
): Promise<ConnectedMcp> {
  const process = mcpProcess(environment, args);
  const client = new Client({ name: 'test', version: '0' }, versionNegotiationOf(revision));
  await client.connect(process);
  return { client, process };
}
