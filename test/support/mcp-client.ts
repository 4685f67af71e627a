/**
 * The official MCP client, and `poste mcp` as its child process or in this one. Everything that the process writes is
 * kept, so that a test can hold its standard output to the protocol. Call it inside a test, after the build.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { PassThrough, type Readable, type Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import {
  Client,
  type ClientOptions,
  type JSONRPCMessage,
  type Transport,
  deserializeMessage,
  serializeMessage,
} from '@modelcontextprotocol/client';
import { run } from '../../src/cli/run.ts';
import { commandContext } from './command-run.ts';
import { PATIENCE_MS } from './patience.ts';
import { type Environment, ownEnvironment } from './poste-process.ts';
import { atTestEnd } from './test-end.ts';

const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

/** The two revisions that the tools are tried over. */
export const REVISIONS = ['2025-11-25', '2026-07-28'] as const;
export type Revision = (typeof REVISIONS)[number];

/** A server of the tools, as a process or in this one. */
interface Server {
  stdin: Writable;
  stdout: Readable;
  stderr: Readable;
  /** Resolves with the exit code, or the signal that ended it. */
  ended: Promise<number | string | null>;
  signal: (name: NodeJS.Signals) => void;
}

function serverProcess(args: readonly string[], environment: Environment, main = MAIN): Server {
  const child = spawn(process.execPath, [main, 'mcp', ...args], { env: { ...ownEnvironment(), ...environment } });
  const { stdin, stdout, stderr } = child;
  const ended = once(child, 'close').then(() => child.exitCode ?? child.signalCode);
  return { stdin, stdout, stderr, ended, signal: (name) => void child.kill(name) };
}

function serverHere(args: readonly string[], environment: Environment): Server {
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  const context = commandContext({ environment, stdin });
  const ended = run(['mcp', ...args], { ...context, stdout, stderr });
  const signal = (name: NodeJS.Signals): void => {
    // Nothing outlives what a test asks of a process here: a kill is a signal like another.
    if (context.signals.listenerCount('SIGTERM') > 0) context.signals.emit(name === 'SIGKILL' ? 'SIGTERM' : name);
  };
  return { stdin, stdout, stderr, ended, signal };
}

/** Lines of JSON to and from a server. */
export class McpProcess implements Transport {
  readonly #server: Server;
  #stdout = '';
  #stderr = '';
  #read = 0;
  #hasEnded = false;
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;

  constructor(server: Server) {
    this.#server = server;
    server.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.#stdout += text;
      this.#deliver();
    });
    server.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text;
    });
    // A server that is gone takes nothing more.
    server.stdin.on('error', () => undefined);
    void server.ended.then(() => {
      this.#hasEnded = true;
      this.onclose?.();
    });
    atTestEnd(() => this.kill());
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
    this.#server.stdin.write(text);
  }

  /** Ends standard input, as a client that ends. */
  async close(): Promise<void> {
    this.#server.stdin.end();
    await this.#server.ended;
  }

  signal(name: NodeJS.Signals): void {
    this.#server.signal(name);
  }

  /** The exit code, or the signal that ended it. */
  ended(): Promise<number | string | null> {
    return this.#server.ended;
  }

  async kill(): Promise<void> {
    if (!this.#hasEnded) this.#server.signal('SIGKILL');
    await this.#server.ended;
  }

  /** Resolves when standard error holds `text`. */
  async said(text: string): Promise<void> {
    const deadline = AbortSignal.timeout(PATIENCE_MS);
    while (!this.#stderr.includes(text)) await once(this.#server.stderr, 'data', { signal: deadline });
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

/** Starts `poste mcp`, also of another build, with nobody who speaks to it. */
export function mcpProcess(environment: Environment, args: readonly string[], main?: string): McpProcess {
  return new McpProcess(serverProcess(args, environment, main));
}

/** The options of a client that speaks one revision. */
export function versionNegotiationOf(revision: Revision): ClientOptions {
  return { versionNegotiation: { mode: revision === '2026-07-28' ? { pin: revision } : 'legacy' } };
}

interface ConnectedMcp {
  client: Client;
  process: McpProcess;
}

/** `poste mcp` as a process, and a client at it. */
export function connectMcp(
  environment: Environment,
  args: readonly string[],
  revision: Revision = '2025-11-25',
): Promise<ConnectedMcp> {
  return connected(mcpProcess(environment, args), revision);
}

/** The same in this process. */
export function connectMcpHere(
  environment: Environment,
  args: readonly string[],
  revision: Revision = '2025-11-25',
): Promise<ConnectedMcp> {
  return connected(new McpProcess(serverHere(args, environment)), revision);
}

async function connected(process: McpProcess, revision: Revision): Promise<ConnectedMcp> {
  const client = new Client({ name: 'test', version: '0' }, versionNegotiationOf(revision));
  await client.connect(process);
  return { client, process };
}
