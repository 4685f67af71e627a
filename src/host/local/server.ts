/**
 * The daemon's socket: HTTP by which commands and tools of the same user ask for operations.
 *
 *     POST /v1/<operation>, x-poste-agent, JSON ─▶ bounded ─▶ schema ─▶ acting agent ─▶ handler ─▶ JSON
 *
 * A handler is told when whoever asked has gone, and when the daemon stops: one that waits ends then.
 */
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import { listenAt } from '../../system/unix-socket.ts';
import { type Refusal, isRefusal, refusal } from '../core/refusal.ts';
import { actingAgent } from '../office/acting-agent.ts';
import type { Office } from '../office/office.ts';
import { isStoreFailure } from '../office/store-failure.ts';
import type { Caller, Handlers } from './handlers.ts';
import { parseOperationInput, perform } from './perform.ts';
import { STATUS_OF } from './refusal-status.ts';
import {
  AGENT_HEADER,
  BACKUP_TARGET,
  OPERATIONS,
  type ProblemAnswer,
  REQUEST_BYTES_MAX,
  isOperation,
} from './operations.ts';

const HEADER_BYTES_MAX = 4096;
/** For the whole of a request to come. */
const REQUEST_TIMEOUT_MS = 60_000;
/** Every session of every agent may wait here at once. */
const CONNECTIONS_MAX = 1000;
const BACKUPS_AT_ONCE = 2;

export interface LocalServerOptions {
  socketPath: string;
  office: Office;
  handlers: Handlers;
  /** Everything the host holds at this moment. */
  backup: () => AsyncIterable<Buffer>;
}

/** The answer of a request. */
interface Reply {
  status: number;
  document: object;
}

export class LocalServer {
  readonly #options: LocalServerOptions;
  readonly #server: Server;
  /** What each request under way is told when whoever asked has gone, and when the daemon stops. */
  readonly #asked = new Set<AbortController>();
  #isStopping = false;
  #underWay = 0;
  #backups = 0;
  #idle: (() => void) | undefined;

  private constructor(options: LocalServerOptions) {
    this.#options = options;
    const limits = {
      maxHeaderSize: HEADER_BYTES_MAX,
      headersTimeout: REQUEST_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
    };
    this.#server = createServer(limits, (request, response) => {
      this.#underWay++;
      void this.#serve(request, response).finally(() => {
        this.#underWay--;
        if (this.#underWay === 0) this.#idle?.();
      });
    });
    this.#server.maxConnections = CONNECTIONS_MAX;
  }

  /** To be called by the process that holds the store, when nobody listens at the socket. Throws `SocketUnavailable`. */
  static async listen(options: LocalServerOptions): Promise<LocalServer> {
    const local = new LocalServer(options);
    await listenAt(local.#server, options.socketPath, 'start the daemon again');
    return local;
  }

  /** Takes no new request, removes the socket, and resolves when every request that came is answered. */
  async drain(): Promise<void> {
    this.#server.close();
    this.#stop();
    this.#server.closeIdleConnections();
    if (this.#underWay === 0) return;
    await new Promise<void>((resolve) => {
      this.#idle = resolve;
    });
  }

  /** Cuts every connection. */
  close(): void {
    this.#server.close();
    this.#stop();
    this.#server.closeAllConnections();
  }

  #stop(): void {
    this.#isStopping = true;
    for (const asked of this.#asked) asked.abort();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const asked = new AbortController();
    let isGone = false;
    if (this.#isStopping) asked.abort();
    // No signal of two: one that lives as long as the daemon keeps something of each that it was joined to.
    this.#asked.add(asked);
    response.once('close', () => {
      isGone = true;
      this.#asked.delete(asked);
      asked.abort();
    });
    // A peer that resets is told by `close`.
    request.on('error', () => undefined);
    response.on('error', () => undefined);
    try {
      if (request.method === 'GET' && request.url === BACKUP_TARGET) await this.#streamBackup(response, asked.signal);
      else answer(response, await this.#replyTo(request, asked.signal));
    } catch (error) {
      if (isGone) return;
      if (response.headersSent) response.destroy();
      else answer(response, this.#replyToFailure(error, request.url ?? ''));
    }
  }

  async #replyTo(request: IncomingMessage, signal: AbortSignal): Promise<Reply> {
    const name = (request.url ?? '').replace(/^\/v1\//, '');
    if (request.method !== 'POST' || !isOperation(name)) {
      return problem(404, 'UNKNOWN_OPERATION', 'the daemon knows no such operation');
    }
    const bytes = await bodyOf(request);
    if (!bytes) {
      return refused(refusal('TOO_LARGE', `a request has at most ${REQUEST_BYTES_MAX} bytes`, { field: null }));
    }
    const input = parseOperationInput(name, bytes);
    if (isRefusal(input)) return refused(input);
    const caller = await this.#caller(request.headers[AGENT_HEADER], OPERATIONS[name].acting, signal);
    if (isRefusal(caller)) return refused(caller);
    const output = await perform(this.#options.handlers, name, caller, input);
    return isRefusal(output) ? refused(output) : { status: 200, document: output };
  }

  async #caller(
    name: string | string[] | undefined,
    acting: 'agent' | 'anybody',
    signal: AbortSignal,
  ): Promise<Caller | Refusal> {
    if (typeof name === 'string' && name !== '') {
      const agentId = await actingAgent(this.#options.office, name);
      return isRefusal(agentId) ? agentId : { agentId, signal };
    }
    if (acting === 'anybody') return { agentId: null, signal };
    return refusal('BAD_INPUT', 'it is not said which agent asks: name it with --as or POSTE_AGENT', { field: 'as' });
  }

  async #streamBackup(response: ServerResponse, over: AbortSignal): Promise<void> {
    if (this.#backups >= BACKUPS_AT_ONCE) {
      answer(response, refused(refusal('UNAVAILABLE', 'other backups are being taken: wait for their end')));
      return;
    }
    this.#backups++;
    try {
      response.writeHead(200, { 'content-type': 'application/octet-stream' });
      for await (const chunk of this.#options.backup()) {
        // Half a backup is none: the peer sees the connection end.
        if (over.aborted) {
          response.destroy();
          return;
        }
        if (!response.write(chunk)) await drained(response, over);
      }
      response.end();
    } finally {
      this.#backups--;
    }
  }

  #replyToFailure(error: unknown, target: string): Reply {
    if (isStoreFailure(error)) {
      const message =
        'the store failed, and what became of this is unknown: free disk space or replace the disk, and start the daemon again';
      return problem(503, 'STORE_FAILED', message);
    }
    this.#options.office.log('error', 'an operation failed', { operation: target, err: error });
    return problem(500, 'INTERNAL', 'the daemon could not do this: its log says why');
  }
}

/** The body; `undefined` when it is longer than a request may be. */
async function bodyOf(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    // What comes behind is passed over, so that the answer is read.
    if (bytes <= REQUEST_BYTES_MAX) chunks.push(chunk);
  }
  return bytes > REQUEST_BYTES_MAX ? undefined : Buffer.concat(chunks);
}

function refused({ code, message, details }: Refusal): Reply {
  return problem(STATUS_OF[code], code, message, details);
}

function problem(status: number, code: string, message: string, details: ProblemAnswer['details'] = {}): Reply {
  const document: ProblemAnswer = { code, message, details };
  return { status, document };
}

function answer(response: ServerResponse, { status, document }: Reply): void {
  const text = JSON.stringify(document);
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
  response.end(text);
}

function drained(response: ServerResponse, over: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off('drain', done);
      over.removeEventListener('abort', done);
      resolve();
    };
    response.once('drain', done);
    over.addEventListener('abort', done, { once: true });
    if (over.aborted) done();
  });
}
