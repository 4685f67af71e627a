/**
 * `poste mcp` and its daemon's socket in this process, with the official client at its streams: for tests of what is
 * said, and not of processes. Call it inside a test.
 */
import { PassThrough } from 'node:stream';
import { join } from 'node:path';
import {
  Client,
  type JSONRPCMessage,
  ReadBuffer,
  type Transport,
  serializeMessage,
} from '@modelcontextprotocol/client';
import { onTestFinished } from 'vitest';
import { DaemonClient } from '../../src/host/local/client.ts';
import { type Handlers, handlersOf } from '../../src/host/local/handlers.ts';
import { LocalServer } from '../../src/host/local/server.ts';
import { type ServedMcp, serveMcp } from '../../src/host/mcp/serve.ts';
import { type Deferred, deferred } from './deferred.ts';
import { type Revision, versionNegotiationOf } from './mcp-client.ts';
import { temporaryFolder } from './temporary-folder.ts';
import { type WakeOffice, wakeOffice } from './wake-office.ts';

const FACTS = { version: '1', pid: 1, startedAtMs: 1, store: '/s', config: '/c', socket: '/d' };
const unasked = (): Promise<never> => Promise.reject(new Error('no test over MCP asks for this'));
const relay = { set: unasked, unset: unasked, status: unasked };
const pairing = { invite: unasked, accept: unasked };
const diagnosis = { doctor: unasked, trace: unasked };
const backup = (): AsyncIterable<Buffer> => {
  throw new Error('no test over MCP asks for a backup');
};

export interface McpDaemon extends Pick<WakeOffice, 'office'> {
  client: DaemonClient;
  watches: Watches;
  server: LocalServer;
}

/** An office with these agents behind a socket. */
export async function mcpDaemon(names: readonly string[]): Promise<McpDaemon> {
  const { office, timers, desk, ring } = await wakeOffice(names);
  const web = { link: unasked };
  const watches = new Watches();
  const own = handlersOf({ office, timers, facts: FACTS, pairing, relay, diagnosis, web, sessions: desk, ring });
  const handlers = { ...own, 'watch-inbox': watches.over(own['watch-inbox']) };
  const socketPath = join(await temporaryFolder(), 'daemon.sock');
  const server = await LocalServer.listen({ socketPath, office, handlers, backup });
  onTestFinished(async () => {
    await server.drain();
    server.close();
  });
  return { office, server, watches, client: new DaemonClient(socketPath, '/store') };
}

/** What the daemon is asked of mailboxes by `watch-inbox`: how often, and how many answers are due. */
export class Watches {
  begun = 0;
  underWay = 0;
  #moved = deferred();
  #held: Promise<void> | undefined;

  /** Whoever asked listens when this resolves. */
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
  /** What the server logged. */
  logged: string[];
}

export async function connectHere(
  daemon: Pick<McpDaemon, 'client'>,
  agent: string,
  revision: Revision,
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
