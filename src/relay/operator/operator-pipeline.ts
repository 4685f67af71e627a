/** Carries the requests of an operator, on the console and over the control socket, with or without an engine. */
import { Budget } from '../../http/budget.ts';
import { RequestPipeline, type RouteResult } from '../../http/pipeline.ts';
import { BODY_BYTES_MAX } from '../../protocol/limits.ts';
import { failureReply, withRequestId } from '../http/handler.ts';
import type { RawQuery, RelayRequest } from '../http/operation.ts';
import type { RelayState } from './relay-state.ts';

/** Bodies of operators are small. */
const BODIES_BYTES_MAX = 4 << 20;

export interface OperatorRoute {
  method: 'GET' | 'POST';
  path: string;
  bodyBytesMax: number;
  handle: (request: RelayRequest<RawQuery>) => RouteResult | Promise<RouteResult>;
}

/** `what` names a request in the log. */
export function operatorPipeline(
  what: string,
  routes: readonly OperatorRoute[],
  state: RelayState,
): RequestPipeline<OperatorRoute> {
  const { clock, timers, randomBytes, log } = state.settings;
  const { monotonicMs } = clock;
  const unexpected = (error: unknown, id: string): void => state.unexpected(error, id);
  const budget = new Budget({ bytesMax: BODIES_BYTES_MAX, monotonicMs });
  return new RequestPipeline({
    routes,
    timers,
    randomBytes,
    stopping: 'the relay is stopping',
    discardBytesMax: BODY_BYTES_MAX,
    accept: ({ route, exchange, id, query, framing }) => ({
      // A GET has nothing to say in its body.
      room: route.method === 'GET' ? undefined : { budget, holders: [], expectedBytes: framing.contentLength },
      handle: (body) => {
        const clientAddress = exchange.head.peerAddress;
        return route.handle({ exchange, id, query, body, clientAddress, nowMs: clock.nowMs() });
      },
    }),
    failed: (error, id) => failureReply(error, id, unexpected),
    complete: withRequestId,
    unexpected,
    observer: { finished: (request) => log.info(request, what), monotonicMs },
  });
}
