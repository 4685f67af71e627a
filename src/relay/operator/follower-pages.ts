/**
 * What a relay that follows tells its operator: on the operator's listener that it is live and not ready, who leads, and
 * its console; over the control socket how it is, a link to the console, a backup of its view, and a check of its rows.
 * Everything else is the relay's that leads: what this one would answer may be behind.
 */
import type { Exchange, ExchangeHandler, Reply } from '../../http/exchange.ts';
import { isForeignName, pageProblem } from '../../http/browser-session/access.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import type { SharedLogShown } from '../../protocol/operator-documents.ts';
import type { Clock } from '../../lib/clock.ts';
import { SMALL_BODY_BYTES_MAX } from '../../protocol/limits.ts';
import type { StatusDocument } from './documents.ts';
import { CONSOLE_PATH } from './health.ts';
import { consoleUrlReply, controlProblem } from './hosts.ts';

export const FOLLOWER_RETRY_S = 1;

interface FollowerPages {
  status: () => SharedLogShown;
  console: { handle: ExchangeHandler };
  metrics: () => Promise<Reply>;
  /** Where the listener listens. */
  host: string;
}

/** The operator's listener. */
export function followerPages({ status, console, metrics, host }: FollowerPages): ExchangeHandler {
  return (exchange) => {
    const { target, headers } = exchange.head;
    if (CONSOLE_PATH.test(target)) {
      console.handle(exchange);
      return;
    }
    exchange.receive(() => undefined);
    if (headers.some(([name, value]) => name === 'host' && isForeignName(value, host)))
      exchange.reply(pageProblem('FOREIGN_HOST', 'ask this listener by its address, or as localhost'));
    else if (target === '/livez') exchange.reply(jsonReply(200, { status: 'live' }));
    else if (target === '/metrics')
      metrics().then(
        (reply) => exchange.reply(reply),
        () => exchange.abort(),
      );
    else exchange.reply(notReady(status()));
  };
}

interface FollowerControl {
  status: () => StatusDocument & { shared_log: SharedLogShown };
  /** Sends the backup, or the reply that says why there is none. */
  backup: (exchange: Exchange) => Promise<Reply | 'streamed'>;
  /** As `backup`, a check of the rows. */
  verify: (exchange: Exchange, body: Buffer) => Promise<Reply | 'streamed'>;
  /** `undefined` without a listener of the operator. */
  consoleUrl: () => { url: string; lifetimeMs: number } | undefined;
  clock: Clock;
  unexpected: (error: unknown) => void;
}

/** The control socket. */
export function followerControl(control: FollowerControl): ExchangeHandler {
  const { status, backup, verify, consoleUrl, clock } = control;
  return (exchange) => {
    const { method, target } = exchange.head;
    const request = `${method} ${target}`;
    if (request === 'POST /v1/verify') {
      const answer = (body: Buffer): void => send(exchange, verify(exchange, body), control);
      receiveSmall(exchange, answer);
      return;
    }
    exchange.receive(() => undefined);
    if (request === 'GET /v1/status') exchange.reply(jsonReply(200, status()));
    else if (request === 'POST /v1/console') exchange.reply(consoleUrlReply(consoleUrl(), clock.nowMs()));
    else if (request === 'GET /v1/backup') send(exchange, backup(exchange), control);
    else exchange.reply(notLeading(status().shared_log));
  };
}

function send(exchange: Exchange, work: Promise<Reply | 'streamed'>, { unexpected }: FollowerControl): void {
  work.then(
    (result) => {
      if (result !== 'streamed') exchange.reply(result);
    },
    (error: unknown) => {
      unexpected(error);
      exchange.abort();
    },
  );
}

/** Refuses what is longer than any body of the control socket. */
function receiveSmall(exchange: Exchange, received: (body: Buffer) => void): void {
  const chunks: Buffer[] = [];
  let bytes = 0;
  exchange.receive((chunk, isLast) => {
    const wasTooLarge = bytes > SMALL_BODY_BYTES_MAX;
    bytes += chunk.length;
    if (wasTooLarge) return;
    if (bytes > SMALL_BODY_BYTES_MAX)
      exchange.reply(
        problemReply('BODY_TOO_LARGE', `a body here has at most ${SMALL_BODY_BYTES_MAX} bytes`, { close: true }),
      );
    else {
      chunks.push(Buffer.from(chunk));
      if (isLast) received(Buffer.concat(chunks));
    }
  });
}

function notReady(status: SharedLogShown): Reply {
  const { copy_fault: fault } = status;
  const waits = fault === null ? '' : `; it waits: ${fault}`;
  const detail = `this node of the relay follows; ${ledBy(status)}${waits}`;
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
