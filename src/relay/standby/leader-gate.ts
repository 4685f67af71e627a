/** Keeps a node of a shared log from answering hosts while another node may lead. */
import type { BodySink, Exchange, ExchangeHandler, Reply, ReplyStream } from '../../http/exchange.ts';
import { requestId } from '../../http/pipeline.ts';
import { problemReply } from '../../http/replies.ts';
import type { RandomBytes } from '../../lib/clock.ts';

const RETRY_S = 1;

function notLeadingReply(id: string): Reply {
  const detail = 'this node of the relay does not lead';
  const reply = problemReply('UNAVAILABLE', detail, { retryAfterS: RETRY_S });
  return { ...reply, headers: { ...reply.headers, 'x-request-id': id } };
}

export function refuse(exchange: Exchange, randomBytes: RandomBytes): void {
  exchange.receive(() => undefined);
  exchange.reply({ ...notLeadingReply(requestId(randomBytes)), close: true });
}

/**
 * Stands between hosts and a leader, which answers while it may. An answer that is ready later is not sent, for another
 * node may have answered otherwise by then; a request that waits while the log is not reached is refused at once.
 */
export class LeaderGate {
  readonly #mayAnswer: () => boolean;
  readonly #randomBytes: RandomBytes;
  readonly #underWay = new Set<GatedExchange>();

  constructor(mayAnswer: () => boolean, randomBytes: RandomBytes) {
    this.#mayAnswer = mayAnswer;
    this.#randomBytes = randomBytes;
  }

  before(handler: ExchangeHandler): ExchangeHandler {
    return (exchange) => {
      if (!this.#mayAnswer()) return refuse(exchange, this.#randomBytes);
      const gated = new GatedExchange(exchange, this.#mayAnswer, () => void this.#underWay.delete(gated));
      this.#underWay.add(gated);
      handler(gated);
    };
  }

  refuseUnderWay(): void {
    for (const exchange of this.#underWay) exchange.refuse(requestId(this.#randomBytes));
  }
}

class GatedExchange implements Exchange {
  readonly #exchange: Exchange;
  readonly #mayAnswer: () => boolean;
  readonly #onAnswered: () => void;
  readonly #abortListeners: (() => void)[] = [];
  #isRefused = false;

  constructor(exchange: Exchange, mayAnswer: () => boolean, onAnswered: () => void) {
    this.#exchange = exchange;
    this.#mayAnswer = mayAnswer;
    this.#onAnswered = onAnswered;
    exchange.onAborted(() => this.#ended());
  }

  get head(): Exchange['head'] {
    return this.#exchange.head;
  }

  get isAborted(): boolean {
    return this.#isRefused || this.#exchange.isAborted;
  }

  receive(sink: BodySink): void {
    this.#exchange.receive((chunk, isLast) => {
      if (!this.#isRefused) sink(chunk, isLast);
    });
  }

  onAborted(listener: () => void): void {
    this.#abortListeners.push(listener);
  }

  /** Answers that this node does not lead, whatever becomes of the request. */
  refuse(id: string): void {
    this.#isRefused = true;
    this.#exchange.reply({ ...notLeadingReply(id), close: true });
    this.#ended();
  }

  reply(reply: Reply): void {
    if (this.#isRefused) return;
    this.#onAnswered();
    this.#exchange.reply(this.#mayAnswer() ? reply : notLeadingReply(reply.headers['x-request-id'] ?? ''));
  }

  startReply(...given: Parameters<Exchange['startReply']>): ReplyStream {
    if (this.#isRefused) return { write: () => Promise.resolve(), end: () => undefined };
    this.#onAnswered();
    if (!this.#mayAnswer()) this.#exchange.abort();
    return this.#exchange.startReply(...given);
  }

  abort(): void {
    this.#exchange.abort();
  }

  isOf(address: string): void {
    this.#exchange.isOf(address);
  }

  isProven(): void {
    this.#exchange.isProven();
  }

  #ended(): void {
    this.#onAnswered();
    for (const listener of this.#abortListeners.splice(0)) listener();
  }
}
