/** The requests that a witness answers: `add-checkpoint` and `add-epoch` of relays, `log/<fingerprint>` of anybody. */
import { Budget, RateLimiter } from '../../http/budget.ts';
import type { Reply } from '../../http/exchange.ts';
import { type PipelineRoute, RequestPipeline } from '../../http/pipeline.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import { networkOf } from '../../http/connections.ts';
import type { Clock, RandomBytes, Timers } from '../../lib/clock.ts';
import { parseJsonBounded, RECEIPT_JSON_BOUNDS } from '../../protocol/json.ts';
import type { Witness, WitnessAnswer } from './witness.ts';

/** A proof of 63 hashes and a note, or an answer of `log/link`, are a tenth of it. */
const BODY_BYTES_MAX = 65_536;
const BODIES_BYTES_MAX = 4 << 20;
const REQUESTS_PER_MINUTE = 120;
const LOG_PATH = /^\/log\/([0-9a-f]{64})$/;

interface WitnessServerOptions {
  witness: Witness;
  clock: Clock;
  timers: Timers;
  randomBytes: RandomBytes;
  log: { error: (fields: object, message: string) => void };
}

interface WitnessRoute extends PipelineRoute {
  handle: (target: string, body: Buffer) => Reply | Promise<Reply>;
}

export function witnessPipeline(options: WitnessServerOptions): RequestPipeline<WitnessRoute> {
  const { witness, clock, timers, randomBytes, log } = options;
  const { monotonicMs } = clock;
  const budget = new Budget({ bytesMax: BODIES_BYTES_MAX, monotonicMs });
  const rate = new RateLimiter(REQUESTS_PER_MINUTE, monotonicMs);
  const unexpected = (error: unknown): void => log.error({ err: error }, 'a request could not be answered');
  const post = (path: string, handle: WitnessRoute['handle']): WitnessRoute => ({
    method: 'POST',
    path,
    bodyBytesMax: BODY_BYTES_MAX,
    handle,
  });
  return new RequestPipeline({
    routes: [
      post('/add-checkpoint', async (_target, body) => replyOf(await witness.addCheckpoint(body.toString()))),
      post('/add-epoch', async (_target, body) =>
        replyOf(await witness.addEpoch(parseJsonBounded(body, RECEIPT_JSON_BOUNDS))),
      ),
      { method: 'GET', path: '/log', bodyBytesMax: 0, handle: (target) => logReply(witness, target) },
    ],
    timers,
    randomBytes,
    routePath: (path) => (LOG_PATH.test(path) ? '/log' : path === '/log' ? '' : path),
    stopping: 'the witness is stopping',
    discardBytesMax: BODY_BYTES_MAX,
    accept: ({ route, exchange, framing }) => {
      const { peerAddress, target } = exchange.head;
      const retryAfterS = rate.take(networkOf(peerAddress));
      if (retryAfterS > 0) return problemReply('RATE_LIMITED', 'too many requests of this address', { retryAfterS });
      return {
        room: route.method === 'GET' ? undefined : { budget, holders: [], expectedBytes: framing.contentLength },
        handle: ({ bytes }) => route.handle(target, bytes),
      };
    },
    failed: (error) => {
      unexpected(error);
      return problemReply('UNAVAILABLE', 'nothing was cosigned: the witness cannot store it');
    },
    complete: (reply) => ({ ...reply, headers: { ...reply.headers, 'cache-control': 'no-store' } }),
    unexpected,
  });
}

/** The statuses that a client of c2sp.org/tlog-witness knows. */
const STATUSES = { malformed: 400, unknown: 404, 'not signed': 403, 'not open': 404, 'not consistent': 422 } as const;

function replyOf(answer: WitnessAnswer): Reply {
  switch (answer.type) {
    case 'cosigned':
      return textReply(200, answer.line);
    case 'opened':
      return textReply(200, 'the epoch is open');
    case 'other size':
      return textReply(409, String(answer.size), 'text/x.tlog.size');
    default:
      return textReply(STATUSES[answer.type], answer.why);
  }
}

function textReply(status: number, line: string, type = 'text/plain; charset=utf-8'): Reply {
  return { status, headers: { 'content-type': type }, body: `${line}\n` };
}

function logReply(witness: Witness, target: string): Reply {
  const found = witness.epochs(LOG_PATH.exec(target)?.[1] ?? '');
  if (!found) return problemReply('NOT_FOUND', 'no relay with this fingerprint is pinned here');
  return jsonReply(200, {
    relay_pubkey: found.relayPubkey,
    epochs: found.epochs.map(({ epoch, note, link, openedAtMs, notedAtMs }) => ({
      epoch,
      checkpoint: note,
      link,
      opened_at: openedAtMs,
      noted_at: notedAtMs,
    })),
  });
}
