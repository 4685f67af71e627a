/**
 * The one way every request goes: drain → route and method → framing and size → enrolled → skew → body → signature →
 * rate → content. What the headers decide is decided before the body is read.
 *
 * Nothing that a request does may throw out of here, and every exchange gets exactly one reply or is cut.
 */
import { BODY_BYTES_MAX } from '../../protocol/limits.ts';
import { signedTarget } from '../../protocol/hop.ts';
import type { HostName } from '../../protocol/names.ts';
import type { ProblemCode } from '../../protocol/problem.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { type HopClaim, isAdmitted, readHop, verifiedHop } from '../auth/hop.ts';
import type { RateLimiter } from '../auth/rate-limit.ts';
import type { EnrolmentRow } from '../core/rows.ts';
import type { Clock, Timers } from '../engine/ambient.ts';
import { StoreFailed } from '../engine/committer.ts';
import type { Engine } from '../engine/engine.ts';
import { type Body, BODY_DEADLINE_MS, type BodyFailure, BodyReader, discardBody } from '../../http/body.ts';
import { type TrustProxy, clientAddress } from './client-address.ts';
import type { Exchange, Reply } from '../../http/exchange.ts';
import { type Framing, type Target, isReply, readFraming, readTarget } from '../../http/framing.ts';
import { problemReply } from '../../http/replies.ts';
import { refusalReply } from './refusals.ts';
import type { CountedAs, RelayRequest, Route, RouteResult } from './route.ts';
import { SharedBudget } from '../../http/shared-budget.ts';

/** Request bytes of hosts held at once, over all requests and of one host key. Two bodies of full size fit a share. */
const BODIES_BYTES_MAX = 64 << 20;
const BODIES_SHARE_BYTES = 16 << 20;
/** The same for requests without a hop, which are small, of one client address. */
const OPEN_BODIES_BYTES_MAX = 4 << 20;
const OPEN_BODIES_SHARE_BYTES = 256 << 10;

/** A full disk is emptied by acks and by expiry, not at once. */
const DISK_FULL_RETRY_S = 60;

export interface HandlerOptions {
  engine: Engine;
  routes: readonly Route[];
  relayPubkey: PublicKey;
  clock: Clock;
  timers: Timers;
  randomId: () => string;
  /** Whether there is room on the disk for this many bytes more. */
  room: { take: (bytes: number) => boolean };
  trustProxy: TrustProxy;
  rates: Readonly<Record<CountedAs, RateLimiter>>;
  /** Told of what should not happen: the error and the request it happened in. */
  unexpected: (error: unknown, requestId: string) => void;
  /** Told of every finished request, for logs and metrics. */
  finished: (request: FinishedRequest) => void;
}

/** What may be said of a request afterwards: nothing that it carried. */
export interface FinishedRequest {
  id: string;
  /** One that routes have, or `other`: a method is the client's own word. */
  method: 'GET' | 'POST' | 'other';
  /** The path of a route, or `none`. */
  route: string;
  status: number;
  /** The code of the problem document, when the answer is one. */
  code?: ProblemCode;
  durationMs: number;
}

export class Handler {
  readonly #options: HandlerOptions;
  readonly #routes = new Map<string, Route[]>();
  readonly #bodies = new SharedBudget(BODIES_BYTES_MAX, BODIES_SHARE_BYTES);
  readonly #openBodies = new SharedBudget(OPEN_BODIES_BYTES_MAX, OPEN_BODIES_SHARE_BYTES);
  readonly #active = new Set<Promise<void>>();
  #isDraining = false;

  constructor(options: HandlerOptions) {
    this.#options = options;
    for (const route of options.routes) this.#routes.set(route.path, [...(this.#routes.get(route.path) ?? []), route]);
  }

  /** Every route that it answers. */
  get routes(): readonly Route[] {
    return this.#options.routes;
  }

  /** Begins to handle an exchange. Never throws. */
  handle(exchange: Exchange): void {
    const id = this.#options.randomId();
    const startedMs = this.#options.clock.monotonicMs();
    const done = this.#run(exchange, id, startedMs).catch((error: unknown) => {
      this.#options.unexpected(error, id);
      exchange.abort();
    });
    this.#active.add(done);
    void done.finally(() => this.#active.delete(done));
  }

  /** From now on new requests get 503; resolves when those under way are answered. */
  async drain(): Promise<void> {
    this.#isDraining = true;
    this.#options.engine.endWaits();
    while (this.#active.size > 0) await Promise.all(this.#active);
  }

  async #run(exchange: Exchange, id: string, startedMs: number): Promise<void> {
    const { clock, finished } = this.#options;
    const { path, result } = await this.#result(exchange, id);
    const status = result === 'streamed' ? 200 : result.status;
    if (result !== 'streamed') {
      const headers = { ...result.headers, 'x-request-id': id };
      exchange.reply({ ...result, headers, close: result.close === true || this.#isDraining });
    }
    const { method: word } = exchange.head;
    const method = word === 'GET' || word === 'POST' ? word : 'other';
    const code = result === 'streamed' ? undefined : result.problem;
    const durationMs = clock.monotonicMs() - startedMs;
    finished({ id, method, route: path, status, ...(code && { code }), durationMs });
  }

  async #result(exchange: Exchange, id: string): Promise<{ path: string; result: RouteResult }> {
    const target = readTarget(exchange.head);
    if (isReply(target)) return { path: 'none', result: target };
    const framing = readFraming(exchange.head);
    const path = signedTarget(target.path);
    const routes = this.#routes.get(path);
    try {
      const route = this.#routeOrRefusal(framing, routes, exchange.head.method);
      if (isReply(route))
        return { path: routes ? path : 'none', result: await refuse(exchange, framing, route, this.#options.timers) };
      if (isReply(framing)) throw new Error('invariant: a route is found for a request of good framing');
      return { path, result: await this.#handleRoute(route, { target, framing, id }, exchange) };
    } catch (error) {
      if (!(error instanceof StoreFailed)) this.#options.unexpected(error, id);
      return { path: routes ? path : 'none', result: problemReply('UNAVAILABLE', 'the relay cannot answer this now') };
    }
  }

  #routeOrRefusal(framing: Framing | Reply, routes: readonly Route[] | undefined, method: string): Route | Reply {
    if (this.#isDraining) return problemReply('UNAVAILABLE', 'the relay is stopping', { close: true });
    if (!routes) return problemReply('NOT_FOUND', 'no such route');
    const route = routes.find((one) => one.method === method);
    if (!route) {
      const allow = routes.map((one) => one.method).join(', ');
      return problemReply('METHOD_NOT_ALLOWED', `this route takes ${allow}`, { headers: { allow } });
    }
    if (isReply(framing)) return framing;
    if (framing.contentLength > route.bodyBytesMax) return bodyRefusal('too large', route);
    if (route.fillsDisk && !this.#options.room.take(framing.contentLength)) {
      return problemReply('UNAVAILABLE', 'the disk of this relay is almost full', { retryAfterS: DISK_FULL_RETRY_S });
    }
    return route;
  }

  async #handleRoute(route: Route, parts: RequestParts, exchange: Exchange): Promise<RouteResult> {
    const { framing } = parts;
    const { engine, clock, timers, trustProxy } = this.#options;
    const { peerAddress, headers } = exchange.head;
    const address = clientAddress(peerAddress, headers, trustProxy);
    let claim: HopClaim | undefined;
    if (route.access !== 'open') {
      const lookUps = {
        byKey: (key: PublicKey) => engine.enrolment(key),
        byName: route.path.startsWith('/v1/') ? (name: HostName) => engine.namesakes(name) : undefined,
      };
      const read = readHop(framing.header, lookUps, clock.nowMs());
      if (read.type === 'HopClaim') claim = read;
      else if (route.access === 'hop') return refuse(exchange, framing, refusalReply(read), timers);
    }
    const reader = this.#bodyReader(route, exchange, address, claim);
    const cancel = timers.after(BODY_DEADLINE_MS, () => reader.giveUp());
    try {
      const body = await reader.read();
      cancel();
      if (typeof body === 'string') return bodyRefusal(body, route);
      const caller = claim && this.#verifiedCaller(claim, body, exchange);
      if (typeof caller === 'string' && route.access === 'hop') return hopRefusal(caller);
      // The time of the command is that of its last byte: a body may take a minute.
      const { target, id } = parts;
      const request = { exchange, id, query: target.query, body, clientAddress: address, nowMs: clock.nowMs() };
      return await this.#callRoute(route, request, typeof caller === 'string' ? undefined : caller);
    } finally {
      cancel();
      reader.release();
    }
  }

  #bodyReader(route: Route, exchange: Exchange, address: string, claim: HopClaim | undefined): BodyReader {
    // A GET has nothing to say in its body, so that a stranger cannot fill the budget through `info`.
    if (route.method === 'GET') return new BodyReader(exchange, undefined, address, route.bodyBytesMax);
    if (!claim) return new BodyReader(exchange, this.#openBodies, address, route.bodyBytesMax);
    // Nothing is verified yet: whoever claims the key of another from elsewhere does not use up that one's share.
    const caller = `${address} ${claim.candidates[0]?.hostPubkey ?? ''}`;
    return new BodyReader(exchange, this.#bodies, caller, route.bodyBytesMax);
  }

  async #callRoute(route: Route, request: RelayRequest, caller: EnrolmentRow | undefined): Promise<RouteResult> {
    switch (route.access) {
      case 'open':
        return this.#rateRefusal(route.counted, request.clientAddress) ?? route.handle(request);
      case 'optional hop':
        return route.handle(request, caller);
      case 'hop':
        if (!caller) throw new Error('invariant: a hop route is called by a verified host');
        return this.#rateRefusal(route.counted, caller.hostPubkey) ?? route.handle({ ...request, caller });
    }
  }

  #verifiedCaller(claim: HopClaim, body: Body, exchange: Exchange): EnrolmentRow | HopFailure {
    const { engine, clock, relayPubkey, unexpected } = this.#options;
    const { method, target } = exchange.head;
    const hostPubkey = verifiedHop(claim, { method, target, bodyHash: body.hash }, relayPubkey)?.hostPubkey;
    // Looked up again: the enrolment may have ended while the body came in.
    if (!hostPubkey) return 'bad signature';
    const enrolment = engine.enrolment(hostPubkey);
    if (!enrolment || !isAdmitted(enrolment, clock.nowMs())) return 'not enrolled';
    if (!enrolment.seen) {
      const noted = engine.noteHostSeen({
        type: 'NoteHostSeen',
        hostPubkey: enrolment.hostPubkey,
        nowMs: clock.nowMs(),
      });
      noted.catch((error: unknown) => {
        if (!(error instanceof StoreFailed)) unexpected(error, 'none');
      });
    }
    return enrolment;
  }

  #rateRefusal(counted: CountedAs | undefined, caller: string): Reply | undefined {
    if (!counted) return undefined;
    const retryAfterS = this.#options.rates[counted].take(caller);
    return retryAfterS === 0 ? undefined : problemReply('RATE_LIMITED', 'too many requests', { retryAfterS });
  }
}

/** What the head of a request says. */
interface RequestParts {
  target: Target;
  framing: Framing;
  /** The request id. */
  id: string;
}

/** Why a hop whose headers were good is none. */
type HopFailure = 'bad signature' | 'not enrolled';

function hopRefusal(failure: HopFailure): Reply {
  if (failure === 'not enrolled') return problemReply('NOT_ENROLLED', 'not enrolled');
  return problemReply('BAD_SIGNATURE', 'the hop signature does not verify');
}

function bodyRefusal(failure: BodyFailure, route: Route): Reply {
  switch (failure) {
    case 'too large':
      return problemReply('BODY_TOO_LARGE', `the body may have ${route.bodyBytesMax} bytes`, { close: true });
    case 'no budget':
      return problemReply('UNAVAILABLE', 'too much is being received at once', { close: true });
    case 'late':
    case 'aborted':
      return problemReply('BAD_REQUEST', 'the body did not arrive in time', { close: true });
  }
}

/** Lets a body of fair size arrive before refusing, so that the peer reads the refusal and keeps its connection. */
async function refuse(exchange: Exchange, framing: Framing | Reply, reply: Reply, timers: Timers): Promise<Reply> {
  // Where a body of doubtful framing ends is not known.
  if (isReply(framing)) return { ...reply, close: true };
  if (reply.close !== true && framing.contentLength > 0) {
    if (framing.contentLength > BODY_BYTES_MAX) return { ...reply, close: true };
    await discardBody(exchange, timers);
  }
  return reply;
}
