/**
 * `poste mcp` and its daemon's socket in this process, with the official client at its streams: for tests of what is
 * said, and not of processes. Call it inside a test.
 */
import { PassThrough } from 'node:stream';
import {
  Client,
  type JSONRPCMessage,
  ReadBuffer,
  type Transport,
  serializeMessage,
} from '@modelcontextprotocol/client';
import { onTestFinished } from 'vitest';
import type { DaemonClient } from '../../src/host/api/client.ts';
import type { Handlers } from '../../src/host/api/handlers.ts';
import type { LocalServer } from '../../src/host/api/server.ts';
import { type McpOptions, type ServedMcp, serveMcp } from '../../src/host/mcp/serve.ts';
import { type Deferred, deferred } from './deferred.ts';
import { type Revision, versionNegotiationOf } from './mcp-client.ts';
import { contextAtSocket } from './socket-context.ts';
import { type WakeContext, wakeContext } from './wake-context.ts';

export interface McpDaemon extends WakeContext {
  client: DaemonClient;
  watches: Watches;
  server: LocalServer;
}

/** A host with these agents behind a socket. */
export async function mcpDaemon(names: readonly string[]): Promise<McpDaemon> {
  const here = await wakeContext(names);
  const watches = new Watches();
  const { server, client } = await contextAtSocket(here, (own) => ({
    'watch-inbox': watches.over(own['watch-inbox']),
  }));
  return { ...here, server, client, watches };
}

/** Watches what the daemon is asked of mailboxes by `watch-inbox`: how often, and how many answers are due. */
export class Watches {
  begun = 0;
  underWay = 0;
  #moved = deferred();
  #held: Promise<void> | undefined;

  /** The client that asked listens when this resolves. */
  async reachBegun(count: number): Promise<void> {
    while (this.begun < count) await this.#moved.promise;
  }

  async reachUnderWay(count: number): Promise<void> {
    while (this.underWay !== count) await this.#moved.promise;
  }

  /** The waits that are under way are answered no earlier than what it returns is resolved. */
  hold(): Deferred {
    const held = deferred();
    this.#held = held.promise;
    return held;
  }

  over(watch: Handlers['watch-inbox']): Handlers['watch-inbox'] {
    return async (caller, input) => {
      const answer = watch(caller, input);
      this.#move(1);
      try {
        const answered = await answer;
        if (input.wait_ms !== undefined) await this.#held;
        return answered;
      } finally {
        this.#move(-1);
      }
    };
  }

  #move(by: 1 | -1): void {
    this.underWay += by;
    if (by === 1) this.begun++;
    const moved = this.#moved;
    this.#moved = deferred();
    moved.resolve();
  }
}

export interface ConnectedHere {
  client: Client;
  served: ServedMcp;
  /** The log of the server. */
  logged: string[];
}

export async function connectHere(
  daemon: Pick<McpDaemon, 'client'>,
  agent: string,
  revision: Revision,
  { parentPid = () => process.ppid, ...given }: Partial<Pick<McpOptions, 'inbox' | 'parentPid' | 'timers'>> = {},
): Promise<ConnectedHere> {
  const toServer = new PassThrough();
  const toClient = new PassThrough();
  const logged: string[] = [];
  const served = serveMcp({
    client: daemon.client,
    agent,
    version: '1',
    log: (message) => logged.push(message),
    start: undefined,
    streams: { stdin: toServer, stdout: toClient },
    inbox: undefined,
    parentPid,
    ...given,
  });
  onTestFinished(() => served.close());
  const client = new Client({ name: 'test', version: '0' }, versionNegotiationOf(revision));
  await client.connect(new StreamTransport(toServer, toClient));
  return { client, served, logged };
}

/** Lines of JSON over two streams. */
class StreamTransport implements Transport {
  readonly #to: PassThrough;
  readonly #from: PassThrough;
  readonly #read = new ReadBuffer();
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;

  constructor(to: PassThrough, from: PassThrough) {
    this.#to = to;
    this.#from = from;
  }

  async start(): Promise<void> {
    this.#from.on('data', (chunk: Buffer) => {
      this.#read.append(chunk);
      for (let message = this.#read.readMessage(); message; message = this.#read.readMessage()) {
        this.onmessage?.(message);
      }
    });
    this.#from.on('end', () => this.onclose?.());
  }

  async send(message: JSONRPCMessage): Promise<void> {
    this.#to.write(serializeMessage(message));
  }

  async close(): Promise<void> {
    this.#to.end();
    this.onclose?.();
  }
}
