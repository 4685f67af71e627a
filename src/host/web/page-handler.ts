/**
 * The one way every request of the owner's page goes: target → framing → route and method → size → body → the route,
 * which asks its door first. Every answer has the security headers; nothing throws out of here.
 */
import { randomBytes } from 'node:crypto';
import { BODY_DEADLINE_MS, type BodyFailure, BodyReader, type DeadlineTimers, discardBody } from '../../http/body.ts';
import type { Exchange, Reply } from '../../http/exchange.ts';
import { isReply, readFraming, readTarget } from '../../http/framing.ts';
import { otherProblemReply, problemReply } from '../../http/replies.ts';
import { SharedBudget } from '../../http/shared-budget.ts';
import { type PageResult, SECURITY_HEADERS } from '../../page-access/access.ts';
import type { PageRoute } from '../../page-access/page-routes.ts';
import { isStoreFailure } from '../office/store-failure.ts';

/** Bytes of bodies held at once: a few of the largest. */
const BODIES_BYTES_MAX = 16 << 20;
/** A body that nobody wants is let in up to this size, so that the answer is read. */
const DISCARDED_BYTES_MAX = 1 << 20;

const TIMERS: DeadlineTimers = {
  after: (ms, run) => {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

export interface PageHandlerOptions {
  routes: readonly PageRoute[];
  /** Told of what should not happen. */
  unexpected: (error: unknown) => void;
}

export class PageHandler {
  readonly #options: PageHandlerOptions;
  readonly #bodies = new SharedBudget(BODIES_BYTES_MAX, BODIES_BYTES_MAX);
  readonly #active = new Set<Promise<void>>();
  #isDraining = false;

  constructor(options: PageHandlerOptions) {
    this.#options = options;
  }

  /** Begins to handle an exchange. Never throws. */
  handle(exchange: Exchange): void {
    const done = this.#run(exchange).catch((error: unknown) => {
      this.#options.unexpected(error);
      exchange.abort();
    });
    this.#active.add(done);
    void done.finally(() => this.#active.delete(done));
  }

  /** From now on new requests get 503; resolves when those under way are answered. */
  async drain(): Promise<void> {
    this.#isDraining = true;
    while (this.#active.size > 0) await Promise.all(this.#active);
  }

  async #run(exchange: Exchange): Promise<void> {
    const id = randomBytes(8).toString('hex');
    const result = await this.#result(exchange, id);
    if (result === 'streamed') return;
    const headers = { ...SECURITY_HEADERS, ...result.headers, 'x-request-id': id };
    exchange.reply({ ...result, headers, close: result.close === true || this.#isDraining });
  }

  async #result(exchange: Exchange, id: string): Promise<PageResult> {
    const target = readTarget(exchange.head);
    const framing = readFraming(exchange.head);
    if (isReply(target)) return { ...target, close: true };
    if (isReply(framing)) return { ...framing, close: true };
    const route = this.#route(exchange.head.method, target.path);
    if (isReply(route)) return refuse(exchange, framing.contentLength, route);
    if (framing.contentLength > route.bodyBytesMax) return bodyRefusal('too large', route);
    const reader = new BodyReader(exchange, this.#bodies, 'page', route.bodyBytesMax);
    const cancel = TIMERS.after(BODY_DEADLINE_MS, () => reader.giveUp());
    try {
      const body = await reader.read();
      cancel();
      if (typeof body === 'string') return bodyRefusal(body, route);
      return await route.handle({ exchange, id, query: target.query, body });
    } catch (error) {
      if (isStoreFailure(error)) {
        return problemReply(
          'UNAVAILABLE',
          'the store failed, and what became of this is unknown: start the daemon again',
        );
      }
      this.#options.unexpected(error);
      const kind = { status: 500, title: 'Internal Error' };
      return otherProblemReply(kind, 'INTERNAL', 'the daemon could not do this: its log says why');
    } finally {
      cancel();
      reader.release();
    }
  }

  #route(method: string, path: string): PageRoute | Reply {
    if (this.#isDraining) return problemReply('UNAVAILABLE', 'the daemon is stopping', { close: true });
    const routes = this.#options.routes.filter((one) => one.path === path);
    if (routes.length === 0) return problemReply('NOT_FOUND', 'no such route');
    const route = routes.find((one) => one.method === method);
    if (route) return route;
    const allow = routes.map((one) => one.method).join(', ');
    return problemReply('METHOD_NOT_ALLOWED', `this route takes ${allow}`, { headers: { allow } });
  }
}

async function refuse(exchange: Exchange, contentLength: number, reply: Reply): Promise<Reply> {
  if (contentLength > DISCARDED_BYTES_MAX) return { ...reply, close: true };
  await discardBody(exchange, TIMERS);
  return reply;
}

function bodyRefusal(failure: BodyFailure, { bodyBytesMax }: PageRoute): Reply {
  switch (failure) {
    case 'too large':
      return problemReply('BODY_TOO_LARGE', `the body may have ${bodyBytesMax} bytes`, { close: true });
    case 'no budget':
      return problemReply('UNAVAILABLE', 'too much is being received at once', { close: true });
    case 'late':
    case 'aborted':
      return problemReply('BAD_REQUEST', 'the body did not arrive in time', { close: true });
  }
}
