/** The owner's page on the request pipeline: each route checks its own access, and every reply has the security headers. */
import { randomBytes } from 'node:crypto';
import { SECURITY_HEADERS } from '../../http/browser-session/access.ts';
import type { PageRoute } from '../../http/browser-session/page-routes.ts';
import { Budget } from '../../http/budget.ts';
import type { Reply } from '../../http/exchange.ts';
import { RequestPipeline } from '../../http/pipeline.ts';
import { otherProblemReply, problemReply } from '../../http/replies.ts';
import { systemTimers } from '../../lib/clock.ts';
import { isStoreFailure } from '../context.ts';

/** Bytes of bodies held at once: a few of the largest. */
const BODIES_BYTES_MAX = 16 << 20;
const DISCARDED_BYTES_MAX = 1 << 20;

export interface PagePipelineOptions {
  routes: readonly PageRoute[];
  /** Called with an error that no handler expects. */
  unexpected: (error: unknown) => void;
}

export function pagePipeline({ routes, unexpected }: PagePipelineOptions): RequestPipeline<PageRoute> {
  const bodies = new Budget({ bytesMax: BODIES_BYTES_MAX, monotonicMs: () => performance.now() });
  return new RequestPipeline({
    routes,
    timers: systemTimers,
    randomId: () => randomBytes(8).toString('hex'),
    stopping: 'the daemon is stopping',
    discardBytesMax: DISCARDED_BYTES_MAX,
    accept: ({ route, exchange, id, query, framing }) => ({
      room: { budget: bodies, holders: [], expectedBytes: framing.contentLength },
      handle: (body) => route.handle({ exchange, id, query, body }),
    }),
    failed: (error) => failureReply(error, unexpected),
    complete: (reply, id) => ({ ...reply, headers: { ...SECURITY_HEADERS, ...reply.headers, 'x-request-id': id } }),
    unexpected,
  });
}

function failureReply(error: unknown, unexpected: (error: unknown) => void): Reply {
  if (isStoreFailure(error)) {
    return problemReply('UNAVAILABLE', 'the store failed, and what became of this is unknown: start the daemon again');
  }
  unexpected(error);
  const kind = { status: 500, title: 'Internal Error' };
  return otherProblemReply(kind, 'INTERNAL', 'the daemon could not do this: its log says why');
}
