/**
 * The requests of the operator's listener: health, metrics, the OpenAPI document and the console. On the loopback
 * interface by default, never public.
 */
import type { Exchange, ExchangeHandler, Reply, RequestHead } from '../../http/exchange.ts';
import { isReply, readFraming, readTarget } from '../../http/framing.ts';
import type { OpenApiDocument } from '../http/openapi.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import { isForeignName, pageProblem } from '../../http/browser-session/access.ts';
import type { RelayState } from './relay-state.ts';

/** A standby may lead soon. */
const STANDBY_RETRY_S = 1;

interface OperatorHandlerOptions {
  state: RelayState;
  /** Where the listener listens. */
  host: string;
  openApi: OpenApiDocument;
  metrics: () => Promise<Reply>;
  console: { handle: ExchangeHandler };
}

const PATHS = new Set(['/livez', '/readyz', '/healthz', '/openapi.json', '/metrics']);
const CONSOLE_PATH = /^\/console(?:[/?]|$)/;

export function operatorHandler({ state, host, openApi, metrics, console }: OperatorHandlerOptions): ExchangeHandler {
  const document = jsonReply(200, openApi);
  return (exchange: Exchange) => {
    const { target } = exchange.head;
    if (CONSOLE_PATH.test(target)) {
      console.handle(exchange);
      return;
    }
    exchange.receive(() => undefined);
    const refusal = refusalOf(exchange.head, host);
    if (refusal) exchange.reply(refusal);
    else if (target === '/livez') exchange.reply(jsonReply(200, { status: 'live' }));
    else if (target === '/openapi.json') exchange.reply(document);
    else if (target === '/metrics') {
      metrics().then(
        (reply) => exchange.reply(reply),
        () => exchange.abort(),
      );
    } else exchange.reply(healthReply(target, state));
  };
}

function healthReply(target: string, state: RelayState): Reply {
  const { whyNotReady } = state;
  const { serving } = state.subject;
  if (!serving) {
    return problemReply('UNAVAILABLE', whyNotReady ?? 'this relay follows', { retryAfterS: STANDBY_RETRY_S });
  }
  if (whyNotReady !== undefined) return problemReply('UNAVAILABLE', whyNotReady);
  return jsonReply(200, target === '/readyz' ? { status: 'ready' } : state.healthDocument(serving));
}

/** As the pipeline judges a request: target, route and method, framing. */
function refusalOf(head: RequestHead, listenHost: string): Reply | undefined {
  const target = readTarget(head);
  if (isReply(target)) return target;
  // Proxies that ask how the relay is speak HTTP/1.0 or 1.1, as HAProxy does with `httpchk`.
  const framing = readFraming(head, false);
  const close = isReply(framing);
  if (!PATHS.has(head.target)) return problemReply('NOT_FOUND', 'no such route', { close });
  if (head.method !== 'GET') {
    return problemReply('METHOD_NOT_ALLOWED', 'this route takes GET', { headers: { allow: 'GET' }, close });
  }
  if (isReply(framing)) return framing;
  const host = framing.header('host');
  return host !== undefined && isForeignName(host, listenHost)
    ? pageProblem('FOREIGN_HOST', 'ask this listener by its address, or as localhost')
    : undefined;
}
