/**
 * What a relay that follows tells its operator: on the operator's listener that it is live and not ready, and who leads;
 * over the control socket how it is, and a backup of its view. Everything else is the relay's that leads: what this one
 * would answer may be behind.
 */
import type { Exchange, ExchangeHandler, Reply } from '../../http/exchange.ts';
import { SECURITY_HEADERS, isForeignName, pageProblem } from '../../http/browser-session/access.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import type { SharedLogShown } from '../../protocol/operator-documents.ts';
import type { StatusDocument } from './documents.ts';
import { CONSOLE_PATH } from './health.ts';
import { controlProblem } from './hosts.ts';

export const FOLLOWER_RETRY_S = 1;

interface FollowerPages {
  status: () => SharedLogShown;
  metrics: () => Promise<Reply>;
  /** Where the listener listens. */
  host: string;
}

/** The operator's listener. */
export function followerPages({ status, metrics, host }: FollowerPages): ExchangeHandler {
  return (exchange) => {
    exchange.receive(() => undefined);
    const { target, headers } = exchange.head;
    if (headers.some(([name, value]) => name === 'host' && isForeignName(value, host)))
      exchange.reply(pageProblem('FOREIGN_HOST', 'ask this listener by its address, or as localhost'));
    else if (target === '/livez') exchange.reply(jsonReply(200, { status: 'live' }));
    else if (target === '/metrics')
      metrics().then(
        (reply) => exchange.reply(reply),
        () => exchange.abort(),
      );
    else if (CONSOLE_PATH.test(target)) exchange.reply(page(status()));
    else exchange.reply(notReady(status()));
  };
}

interface FollowerControl {
  status: () => StatusDocument & { shared_log: SharedLogShown };
  /** Sends the backup, or the reply that says why there is none. */
  backup: (exchange: Exchange) => Promise<Reply | 'streamed'>;
  unexpected: (error: unknown) => void;
}

/** The control socket. */
export function followerControl({ status, backup, unexpected }: FollowerControl): ExchangeHandler {
  return (exchange) => {
    exchange.receive(() => undefined);
    const { method, target } = exchange.head;
    const request = `${method} ${target}`;
    if (request === 'GET /v1/status') exchange.reply(jsonReply(200, status()));
    else if (request === 'GET /v1/backup')
      backup(exchange).then(
        (result) => {
          if (result !== 'streamed') exchange.reply(result);
        },
        (error: unknown) => {
          unexpected(error);
          exchange.abort();
        },
      );
    else exchange.reply(notLeading(status().shared_log));
  };
}

function notReady(status: SharedLogShown): Reply {
  const detail = `this node of the relay follows; ${ledBy(status)}`;
  return problemReply('UNAVAILABLE', detail, { retryAfterS: FOLLOWER_RETRY_S });
}

function notLeading(status: SharedLogShown): Reply {
  const { leader } = status;
  const then = leader === null ? 'wait until one leads' : 'give the command on its machine';
  return controlProblem('NOT_LEADING', `this node follows, and ${ledBy(status)}: ${then}`, { leader });
}

function ledBy({ leader }: SharedLogShown): string {
  return leader === null ? 'no node leads' : `${leader} leads`;
}

/** A page without a script, which loads itself again. */
function page(status: SharedLogShown): Reply {
  const { node, leader, leading_since: since, term, behind_batches: behind, behind_ms: behindMs, doubt } = status;
  const facts = [
    ['this node', node],
    ['leads', leader ?? 'no node'],
    ['since', since === null || leader === null ? '–' : new Date(since).toISOString()],
    ['term', String(term)],
    ['behind', behind === 0 ? 'nothing' : `${behind} batches, ${(behindMs / 1000).toFixed(1)} s`],
    ...(doubt === null ? [] : [['in doubt', doubt]]),
  ];
  const rows = facts.map(([name = '', value = '']) => `<dt>${name}</dt><dd>${escaped(value)}</dd>`).join('');
  const where = leader === null ? '' : '<p>The console is on the node that leads.</p>';
  const body = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5"><title>This relay follows</title></head>
<body><h1>This relay follows</h1><p>It takes no requests of hosts.</p>${where}<dl>${rows}</dl></body></html>
`;
  const headers = {
    ...SECURITY_HEADERS,
    'content-type': 'text/html; charset=utf-8',
    'retry-after': String(FOLLOWER_RETRY_S),
  };
  return { status: 503, headers, body };
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
