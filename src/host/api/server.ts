/**
 * The daemon's socket: HTTP, by which commands and tools of the same user call operations.
 *
 *     POST /v1/<operation>, x-poste-agent, JSON ─▶ request pipeline ─▶ schema ─▶ acting agent ─▶ handler ─▶ JSON
 *
 * A handler has a signal that fires when its caller has gone and when the daemon stops: one that waits ends then.
 */
import { randomBytes } from 'node:crypto';
import type { Server } from 'node:http';
import { Budget } from '../../http/budget.ts';
import type { Exchange, Reply } from '../../http/exchange.ts';
import { type AcceptedRequest, type PipelineRoute, RequestPipeline, type RoutedHead } from '../../http/pipeline.ts';
import { jsonReply } from '../../http/replies.ts';
import { exchangeServer } from '../../http/server-node.ts';
import { systemTimers } from '../../lib/clock.ts';
import { listenAt } from '../../lib/unix-socket.ts';
import type { ProblemCode } from '../../protocol/problem.ts';
import { actingAgent } from '../agents/agents.ts';
import { type HostContext, isStoreFailure } from '../base/context.ts';
import { type Refusal, isRefusal, refusal } from '../core/refusal.ts';
import { type Caller, type Handlers, parseOperationInput, perform, STATUS_OF } from './handlers.ts';
import { OPERATIONS, type OperationName, type ProblemAnswer } from './operations.ts';
import {
  AGENT_HEADER,
  BACKUP_TARGET,
  CALL_HEADER,
  REQUEST_BYTES_MAX,
  SESSION_HEADER,
  VERSION_HEADER,
  operationTarget,
} from '../contract/socket-protocol.ts';

/** Enough for every session of every agent to wait at once. */
const CONNECTIONS_MAX = 1000;
/** With more than this open, a connection ends with its answer: the others are for calls that wait and for commands. */
const CONNECTIONS_KEPT_MAX = 500;
const BACKUPS_AT_ONCE = 2;
/** Bytes of bodies held at once: some of the largest. */
const BODIES_BYTES_MAX = 64 << 20;
/** A body that is too large is let in up to this size, so that the caller reads why it is refused. */
const DISCARDED_BYTES_MAX = 64 << 20;

interface LocalServerOptions {
  socketPath: string;
  context: HostContext;
  handlers: Handlers;
  /** The version of the daemon; every answer names it. */
  version: string;
  /** A backup of the store at this moment. */
  backup: () => AsyncIterable<Buffer>;
}

interface LocalRoute extends PipelineRoute {
  /** `undefined`: the backup. */
  operation: OperationName | undefined;
}

export class LocalServer {
  readonly #options: LocalServerOptions;
  readonly #server: Server;
  readonly #pipeline: RequestPipeline<LocalRoute>;
  readonly #bodies = new Budget({ bytesMax: BODIES_BYTES_MAX, monotonicMs: () => performance.now() });
  /** One for each request under way: aborted when its caller has gone, and when the daemon stops. */
  readonly #callers = new Set<AbortController>();
  #isStopping = false;
  #open = 0;
  #backups = 0;

  private constructor(options: LocalServerOptions) {
    this.#options = options;
    const { context } = options;
    this.#pipeline = new RequestPipeline<LocalRoute>({
      routes: [
        ...(Object.keys(OPERATIONS) as OperationName[]).map((operation) => {
          return { method: 'POST', path: operationTarget(operation), bodyBytesMax: DISCARDED_BYTES_MAX, operation };
        }),
        { method: 'GET', path: BACKUP_TARGET, bodyBytesMax: 0, operation: undefined },
      ],
      timers: systemTimers,
      randomBytes,
      stopping: 'the daemon is stopping',
      discardBytesMax: DISCARDED_BYTES_MAX,
      accept: (head) => this.#accept(head),
      failed: (error, _id, path) => this.#failureReply(error, path),
      complete: (reply) => localReply(reply, options.version, this.#open > CONNECTIONS_KEPT_MAX),
      unexpected: (error) => context.log('error', 'a request failed', { err: error }),
    });
    this.#server = exchangeServer(this.#pipeline.handle, {
      // A caller that waits for mail says nothing for as long as it waits.
      silenceTimeoutMs: 0,
      // A caller that calls seldom may keep its connection; it is the one that ends it.
      idleTimeoutMs: 0,
    });
    this.#server.on('connection', (socket) => {
      this.#open++;
      socket.once('close', () => this.#open--);
    });
    // One more is refused.
    this.#server.maxConnections = CONNECTIONS_MAX;
  }

  /** Call it in the process that holds the store's lock. Throws `SocketUnavailable`. */
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
    await this.#pipeline.drain();
  }

  /** Cuts every connection. */
  close(): void {
    this.#server.close();
    this.#stop();
    this.#server.closeAllConnections();
  }

  #stop(): void {
    this.#isStopping = true;
    for (const caller of this.#callers) caller.abort();
  }

  #accept({ route, exchange, framing }: RoutedHead<LocalRoute>): AcceptedRequest | Reply {
    const { operation } = route;
    if (operation === undefined) {
      return { handle: () => this.#whileAsked(exchange, (signal) => this.#streamBackup(exchange, signal)) };
    }
    if (framing.contentLength > REQUEST_BYTES_MAX) {
      return tooLargeReply();
    }
    const agentName = framing.header(AGENT_HEADER);
    const sessionId = framing.header(SESSION_HEADER);
    const callId = framing.header(CALL_HEADER);
    return {
      room: { budget: this.#bodies, holders: [], expectedBytes: framing.contentLength },
      handle: ({ bytes }) =>
        this.#whileAsked(exchange, async (signal) => {
          const input = parseOperationInput(operation, bytes);
          if (isRefusal(input)) return refusalReply(input);
          const caller = await this.#caller(agentName, OPERATIONS[operation].acting, signal);
          if (isRefusal(caller)) return refusalReply(caller);
          const output = await perform(this.#options.handlers, operation, { sessionId, callId, ...caller }, input);
          return isRefusal(output) ? refusalReply(output) : jsonReply(200, output);
        }),
    };
  }

  /** Runs `work` with a signal of its own: one joined of two would live as long as the daemon. */
  async #whileAsked<T>(exchange: Exchange, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const caller = new AbortController();
    this.#callers.add(caller);
    exchange.onAborted(() => caller.abort());
    if (this.#isStopping || exchange.isAborted) caller.abort();
    try {
      return await work(caller.signal);
    } finally {
      this.#callers.delete(caller);
    }
  }

  async #caller(name: string | undefined, acting: 'agent' | 'anybody', signal: AbortSignal): Promise<Caller | Refusal> {
    if (name !== undefined && name !== '') {
      const agentId = await actingAgent(this.#options.context, name);
      return isRefusal(agentId) ? agentId : { agentId, signal };
    }
    if (acting === 'anybody') return { agentId: null, signal };
    return refusal('BAD_INPUT', 'no agent given: use --as NAME or POSTE_AGENT', { field: 'as' });
  }

  async #streamBackup(exchange: Exchange, signal: AbortSignal): Promise<'streamed' | Reply> {
    if (this.#backups >= BACKUPS_AT_ONCE) {
      return refusalReply(refusal('UNAVAILABLE', 'other backups are being taken: wait for their end'));
    }
    this.#backups++;
    try {
      const reply = exchange.startReply(200, { 'content-type': 'application/octet-stream' });
      // At once: a write may wait for a caller that reads nothing.
      signal.addEventListener('abort', () => exchange.abort(), { once: true });
      for await (const chunk of this.#options.backup()) {
        signal.throwIfAborted();
        await reply.write(chunk);
      }
      signal.throwIfAborted();
      reply.end();
    } catch (error) {
      if (!signal.aborted) this.#failureReply(error, BACKUP_TARGET);
      // Half a backup is none: the caller sees the connection end.
      exchange.abort();
    } finally {
      this.#backups--;
    }
    return 'streamed';
  }

  #failureReply(error: unknown, operation: string): Reply {
    if (isStoreFailure(error)) {
      const message =
        'the store failed, and what became of this is unknown: free disk space or replace the ' +
        'disk, and start the daemon again';
      return problemReply(503, 'STORE_FAILED', message);
    }
    this.#options.context.log('error', 'an operation failed', { operation, err: error });
    return problemReply(500, 'INTERNAL', 'the daemon could not do this: its log says why');
  }
}

function refusalReply({ code, message, details }: Refusal): Reply {
  return problemReply(STATUS_OF[code], code, message, details);
}

function tooLargeReply(): Reply {
  return refusalReply(refusal('TOO_LARGE', `a request has at most ${REQUEST_BYTES_MAX} bytes`, { field: null }));
}

function problemReply(status: number, code: string, message: string, details: ProblemAnswer['details'] = {}): Reply {
  const document: ProblemAnswer = { code, message, details };
  return jsonReply(status, document);
}

/** Returns what the pipeline refuses, in the form that every answer at this socket has. */
function localReply(reply: Reply, version: string, isLast: boolean): Reply {
  const said = reply.problem === undefined ? reply : localAnswer(reply, reply.problem);
  const close = isLast || reply.close === true;
  return { ...said, close, headers: { [VERSION_HEADER]: version, ...said.headers } };
}

function localAnswer({ status, body }: Reply, code: ProblemCode): Reply {
  switch (code) {
    case 'NOT_FOUND':
    case 'METHOD_NOT_ALLOWED':
      return problemReply(404, 'UNKNOWN_OPERATION', 'the daemon knows no such operation');
    case 'BODY_TOO_LARGE':
      return tooLargeReply();
    default:
      return problemReply(status, code, (JSON.parse(String(body)) as { detail: string }).detail);
  }
}
