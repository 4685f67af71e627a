/** The operator's listener: health for whoever watches the process. Loopback by default, never public. */
import type { Exchange, ExchangeHandler } from '../http/exchange.ts';
import { jsonReply, problemReply } from '../http/replies.ts';

export interface Health {
  /** False while the relay starts or drains, and after its store failed. */
  isReady: boolean;
  version: string;
  epoch: string;
  /** Live enrolments. */
  hosts: number;
  uptimeMs: number;
}

export function operatorHandler(health: () => Health): ExchangeHandler {
  return (exchange: Exchange) => {
    exchange.receive(() => undefined);
    const { method, target } = exchange.head;
    const { isReady, version, epoch, hosts, uptimeMs } = health();
    const known = ['/livez', '/readyz', '/healthz'].includes(target);
    if (!known) exchange.reply(problemReply('NOT_FOUND', 'no such route'));
    else if (method !== 'GET') {
      exchange.reply(problemReply('METHOD_NOT_ALLOWED', 'this route takes GET', { headers: { allow: 'GET' } }));
    } else if (target === '/livez') exchange.reply(jsonReply(200, { status: 'live' }));
    else if (!isReady) exchange.reply(problemReply('UNAVAILABLE', 'the relay is not ready'));
    else if (target === '/readyz') exchange.reply(jsonReply(200, { status: 'ready' }));
    else exchange.reply(jsonReply(200, { status: 'ready', version, epoch, hosts, uptime_ms: Math.round(uptimeMs) }));
  };
}
