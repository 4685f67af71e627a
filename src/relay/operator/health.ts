/**
 * The requests of the operator's listener: health, metrics, the OpenAPI document and the console. On the loopback
 * interface by default, never public.
 */
import type { Exchange, ExchangeHandler, Reply, RequestHead } from '../../http/exchange.ts';
import { isReply, readFraming, readTarget } from '../../http/framing.ts';
import type { OpenApiDocument } from '../http/openapi.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import { pageProblem } from '../../http/browser-session/access.ts';
import type { CheckedAt } from '../jobs/rows-check.ts';
import type { ScrubPass } from '../jobs/scrub.ts';

export interface Health {
  /** False while the relay starts or drains, after its store failed, and while `whyNotReady` says why. */
  isReady: boolean;
  /** Why a relay that leads a shared log is to get no requests now, as a clause. */
  whyNotReady?: string | undefined;
  version: string;
  epoch: string;
  hosts: number;
  uptimeMs: number;
  /** Queues whose rows are at fault: nothing is changed there. */
  brokenQueues: number;
  damagedRows: number;
  /** Of the regular backups; absent without them, or before the first. */
  lastBackup?: { isGood: boolean; atMs: number } | undefined;
  /** Of the daily check of the rows against the log; absent before the first has ended. */
  lastRowsCheck?: CheckedAt | undefined;
  /** Of the daily scrub; absent before the first pass has ended. */
  lastScrub?: Pick<ScrubPass, 'atMs' | 'items' | 'lost' | 'unreadable'> | undefined;
}

interface OperatorHandlerOptions {
  health: () => Health;
  openApi: OpenApiDocument;
  metrics: () => Promise<Reply>;
  /** Whether a page of another site may have sent a request with this Host: see `isForeignName`. */
  isForeign: (host: string) => boolean;
  console: { handle: ExchangeHandler };
}

const PATHS = new Set(['/livez', '/readyz', '/healthz', '/openapi.json', '/metrics']);
export const CONSOLE_PATH = /^\/console(?:[/?]|$)/;

export function operatorHandler({
  health,
  openApi,
  metrics,
  isForeign,
  console,
}: OperatorHandlerOptions): ExchangeHandler {
  const document = jsonReply(200, openApi);
  return (exchange: Exchange) => {
    const { target } = exchange.head;
    if (CONSOLE_PATH.test(target)) {
      console.handle(exchange);
      return;
    }
    exchange.receive(() => undefined);
    const { isReady, whyNotReady, version, epoch, hosts, uptimeMs, ...found } = health();
    const refusal = refusalOf(exchange.head, isForeign);
    if (refusal) exchange.reply(refusal);
    else if (target === '/livez') exchange.reply(jsonReply(200, { status: 'live' }));
    else if (target === '/openapi.json') exchange.reply(document);
    else if (target === '/metrics') {
      metrics().then(
        (reply) => exchange.reply(reply),
        () => exchange.abort(),
      );
    } else if (!isReady) exchange.reply(problemReply('UNAVAILABLE', whyNotReady ?? 'the relay is not ready'));
    else if (target === '/readyz') exchange.reply(jsonReply(200, { status: 'ready' }));
    else {
      const { brokenQueues, damagedRows, lastBackup, lastScrub, lastRowsCheck: rows } = found;
      const well = { status: 'ready', version, epoch, hosts, uptime_ms: Math.round(uptimeMs) };
      const broken = brokenQueues > 0 && { broken_queues: brokenQueues };
      const damaged = damagedRows > 0 && { damaged_rows: damagedRows };
      const backup = lastBackup && { last_backup: { at: lastBackup.atMs, ok: lastBackup.isGood } };
      const scrub = lastScrub && { last_scrub: scrubDocument(lastScrub) };
      const check = rows && { last_rows_check: { at: rows.atMs, rows: rows.checked.rows, found: rows.checked.found } };
      exchange.reply(jsonReply(200, { ...well, ...broken, ...damaged, ...backup, ...scrub, ...check }));
    }
  };
}

/** As the pipeline judges a request: target, route and method, framing. */
function refusalOf(head: RequestHead, isForeign: (host: string) => boolean): Reply | undefined {
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
  return host !== undefined && isForeign(host)
    ? pageProblem('FOREIGN_HOST', 'ask this listener by its address, or as localhost')
    : undefined;
}

function scrubDocument({ atMs, items, lost, unreadable }: NonNullable<Health['lastScrub']>): object {
  return { at: atMs, items, lost, unreadable };
}
