/**
 * The way of every request, in every server:
 *
 * target ─▶ route and method ─▶ framing and size ─▶ caller (the server decides) ─▶ body ─▶ the route ─▶ reply
 *
 * All checks of the head come before the body is read. No request can make this throw, and every exchange gets exactly
 * one reply or is cut.
 */
import type { RandomBytes } from '../lib/clock.ts';
import type { ProblemCode } from '../protocol/problem.ts';
import {
  BODY_DEADLINE_MS,
  type Body,
  type BodyFailure,
  BodyReader,
  type BodyRoom,
  type DeadlineTimers,
  type Framing,
  discardBody,
  isReply,
  readFraming,
  readTarget,
} from './framing.ts';
import type { Exchange, Reply } from './exchange.ts';
import { problemReply } from './replies.ts';

export interface PipelineRoute {
  method: string;
  path: string;
  bodyBytesMax: number;
}

/** A request with a valid head, and its route. */
export interface RoutedHead<R extends PipelineRoute> {
  route: R;
  exchange: Exchange;
  id: string;
  /** The part after `?`; `undefined` without one. */
  query: string | undefined;
  framing: Framing;
}

/** A request whose body will be read. */
export interface AcceptedRequest {
  /** The budget for the body; without it the body is hashed but not kept. */
  room?: BodyRoom | undefined;
  /**
   * Calls `end` with a refusal if the caller loses its permission while the body arrives. Returns how to stop watching.
   */
  watch?: (end: (reply: Reply) => void) => () => void;
  handle: (body: Body) => RouteResult | Promise<RouteResult>;
}

/** A reply, or `streamed` when the route itself has written it in pieces. */
export type RouteResult = Reply | 'streamed';

/** The end of a request: nothing of its content. */
export interface FinishedRequest {
  id: string;
  /** One that routes have, or `other`: a method is the client's own word. */
  method: 'GET' | 'POST' | 'other';
  /** The path of the route; `none` without one. */
  route: string;
  status: number;
  /** The code of the problem document if the reply is one. */
  code?: ProblemCode;
  durationMs: number;
}

interface PipelineOptions<R extends PipelineRoute> {
  routes: readonly R[];
  timers: DeadlineTimers;
  /** Requests get random ids. */
  randomBytes: RandomBytes;
  /** Maps the path of a request to the path of a route, where they differ. */
  routePath?: (path: string) => string;
  /** The detail of the 503 for requests that come while the server stops. */
  stopping: string;
  /**
   * The body of a refused request is read up to this size, so that the peer reads the reply and keeps its connection.
   */
  discardBytesMax: number;
  /**
   * Finds out who calls, and accepts the request or returns the reply that refuses it. With uWebSockets.js it must not
   * return a promise: the body would be lost.
   */
  accept: (head: RoutedHead<R>) => AcceptedRequest | Reply | Promise<AcceptedRequest | Reply>;
  /** Makes the reply when the route at `path` threw; `path` is `none` when no route was found yet. */
  failed: (error: unknown, id: string, path: string) => Reply;
  /** Completes every reply that is not streamed, with the headers that all of them have, or all of a route. */
  complete?: (reply: Reply, id: string, path: string) => Reply;
  /** Gets an error of the pipeline itself, which should not happen. The exchange is cut. */
  unexpected: (error: unknown, id: string) => void;
  /** Sees the end of every request, for logs and metrics. `monotonicMs` is the clock of their durations. */
  observer?: { finished: (request: FinishedRequest) => void; monotonicMs: () => number };
}

export class RequestPipeline<R extends PipelineRoute> {
  readonly #options: PipelineOptions<R>;
  readonly #routes = new Map<string, R[]>();
  #active = 0;
  #drained: Promise<void> | undefined;
  #whenIdle: (() => void) | undefined;
  #isDraining = false;

  constructor(options: PipelineOptions<R>) {
    this.#options = options;
    for (const route of options.routes) this.#routes.set(route.path, [...(this.#routes.get(route.path) ?? []), route]);
  }

  /** Starts to handle an exchange. Never throws. */
  readonly handle = (exchange: Exchange): void => {
    const id = requestId(this.#options.randomBytes);
    this.#active++;
    void this.#run(exchange, id)
      .catch((error: unknown) => {
        this.#options.unexpected(error, id);
        exchange.abort();
      })
      .finally(() => {
        if (--this.#active === 0) this.#whenIdle?.();
      });
  };

  /** From now on new requests get 503. Resolves when every earlier request is answered. */
  async drain(): Promise<void> {
    this.#isDraining = true;
    if (this.#active > 0) await (this.#drained ??= new Promise((resolve) => (this.#whenIdle = resolve)));
  }

  async #run(exchange: Exchange, id: string): Promise<void> {
    const { complete, observer } = this.#options;
    const startedMs = observer?.monotonicMs() ?? 0;
    const { path: route, result } = await this.#result(exchange, id);
    let status = 200;
    let code: ProblemCode | undefined;
    if (result !== 'streamed') {
      const { headers, body, close, ...reply } = complete?.(result, id, route) ?? result;
      ({ status, problem: code } = reply);
      exchange.reply({ status, headers, body, close: close === true || this.#isDraining });
    }
    if (!observer) return;
    const { method: word } = exchange.head;
    const method = word === 'GET' || word === 'POST' ? word : 'other';
    const durationMs = observer.monotonicMs() - startedMs;
    observer.finished({ id, method, route, status, ...(code && { code }), durationMs });
  }

  async #result(exchange: Exchange, id: string): Promise<{ path: string; result: RouteResult }> {
    const target = readTarget(exchange.head);
    if (isReply(target)) return { path: 'none', result: target };
    const framing = readFraming(exchange.head);
    const asked = this.#options.routePath?.(target.path) ?? target.path;
    const routes = this.#routes.get(asked);
    const path = routes ? asked : 'none';
    try {
      const route = this.#routeOrRefusal(framing, routes, exchange.head.method);
      if (isReply(route) || isReply(framing)) {
        const refused = isReply(route) ? route : (framing as Reply);
        return { path, result: await this.#refuse(exchange, framing, refused) };
      }
      return { path, result: await this.#handleRoute({ route, exchange, id, query: target.query, framing }) };
    } catch (error) {
      return { path, result: this.#options.failed(error, id, path) };
    }
  }

  #routeOrRefusal(framing: Framing | Reply, routes: readonly R[] | undefined, method: string): R | Reply {
    if (this.#isDraining) return problemReply('UNAVAILABLE', this.#options.stopping, { close: true });
    if (!routes) return problemReply('NOT_FOUND', 'no such route');
    const route = routes.find((one) => one.method === method);
    if (!route) {
      const allow = routes.map((one) => one.method).join(', ');
      return problemReply('METHOD_NOT_ALLOWED', `this route takes ${allow}`, { headers: { allow } });
    }
    if (isReply(framing)) return framing;
    return framing.contentLength > route.bodyBytesMax ? bodyRefusal('too large', route) : route;
  }

  async #handleRoute(head: RoutedHead<R>): Promise<RouteResult> {
    const { exchange, framing, route } = head;
    const { accept, timers } = this.#options;
    const answer = accept(head);
    // No `await` unless it is a promise: with uWebSockets.js the body must be received before this function yields.
    const accepted = answer instanceof Promise ? await answer : answer;
    if (isReply(accepted)) return this.#refuse(exchange, framing, accepted);
    const reader = new BodyReader(exchange, accepted.room, route.bodyBytesMax);
    const cancel = timers.after(BODY_DEADLINE_MS, () => reader.giveUp());
    let ended: Reply | undefined;
    const stopWatching = accepted.watch?.((reply) => {
      ended = reply;
      reader.giveUp();
    });
    try {
      const body = await reader.read();
      cancel();
      stopWatching?.();
      if (typeof body === 'string') return ended ? { ...ended, close: true } : bodyRefusal(body, route);
      return await accepted.handle(body);
    } finally {
      cancel();
      stopWatching?.();
      reader.release();
    }
  }

  /** Reads a body of moderate size before it refuses, so that the peer reads the refusal and keeps its connection. */
  async #refuse(exchange: Exchange, framing: Framing | Reply, reply: Reply): Promise<Reply> {
    // With invalid framing, nobody knows where the body ends.
    if (isReply(framing)) return { ...reply, close: true };
    if (reply.close !== true && framing.contentLength > 0) {
      if (framing.contentLength > this.#options.discardBytesMax) return { ...reply, close: true };
      await discardBody(exchange, this.#options.timers);
    }
    return reply;
  }
}

export function requestId(randomBytes: RandomBytes): string {
  return randomBytes(8).toString('hex');
}

function bodyRefusal(failure: BodyFailure, { bodyBytesMax }: PipelineRoute): Reply {
  switch (failure) {
    case 'too large':
      return problemReply('BODY_TOO_LARGE', `the body may have at most ${bodyBytesMax} bytes`, { close: true });
    case 'no budget':
      return problemReply('UNAVAILABLE', 'the server is receiving too many bytes at once: try again', { close: true });
    case 'late':
    case 'aborted':
      return problemReply('BAD_REQUEST', 'the body did not arrive in time', { close: true });
  }
}
