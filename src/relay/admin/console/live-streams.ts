/**
 * Samples as server-sent events. There are few streams, and what a peer does not take is not kept: a stream that falls
 * behind is cut, and the browser opens another one.
 */
import type { ConsoleSample } from '../../../protocol/operator-documents.ts';
import type { Exchange, Reply, ReplyStream } from '../../http/exchange.ts';
import { problemReply } from '../../http/replies.ts';
import { SECURITY_HEADERS } from './access.ts';
import { consoleProblem } from './problems.ts';
import type { Session, Sessions } from './sessions.ts';
import type { Sampler } from './sampler.ts';

export const STREAMS_MAX = 8;
/** Bytes that wait for one peer. */
export const STREAM_BYTES_MAX = 64 << 10;

export class LiveStreams {
  readonly #sampler: Sampler;
  readonly #sessions: Sessions;
  readonly #streams = new Set<LiveStream>();
  #isClosed = false;

  constructor(sampler: Sampler, sessions: Sessions) {
    this.#sampler = sampler;
    this.#sessions = sessions;
  }

  get size(): number {
    return this.#streams.size;
  }

  /** Serves the stream until the peer, the session or the relay ends it. */
  async serve(exchange: Exchange, requestId: string, session: Session): Promise<'streamed' | Reply> {
    if (this.#streams.size >= STREAMS_MAX) {
      return consoleProblem('TOO_MANY_STREAMS', 'too many pages of this console are open');
    }
    // Whoever was on the way here when the streams were ended would be waited for at the stop.
    if (this.#isClosed) return problemReply('UNAVAILABLE', 'the relay is stopping', { close: true });
    const headers = { ...SECURITY_HEADERS, 'content-type': 'text/event-stream', 'x-request-id': requestId };
    const stream = new LiveStream(exchange, exchange.startReply(200, headers));
    this.#streams.add(stream);
    const stop = this.#sampler.listen((sample) => {
      if (this.#sessions.isOpen(session)) stream.send(eventText(sample));
      else stream.end();
    });
    // So that the page knows at once that it is connected.
    stream.send(': open\n\n');
    await stream.ended;
    stop();
    this.#streams.delete(stream);
    return 'streamed';
  }

  /** Ends every stream, for good. */
  close(): void {
    this.#isClosed = true;
    for (const stream of this.#streams) stream.end();
  }
}

class LiveStream {
  readonly ended: Promise<void>;
  readonly #exchange: Exchange;
  readonly #stream: ReplyStream;
  readonly #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #isWriting = false;
  #isEnded = false;
  #resolveEnded!: () => void;

  constructor(exchange: Exchange, stream: ReplyStream) {
    this.#exchange = exchange;
    this.#stream = stream;
    this.ended = new Promise((resolve) => {
      this.#resolveEnded = resolve;
    });
    exchange.onAborted(() => this.#finish());
    if (exchange.isAborted) this.#finish();
  }

  send(text: string): void {
    if (this.#isEnded) return;
    const chunk = Buffer.from(text);
    this.#waitingBytes += chunk.length;
    if (this.#waitingBytes > STREAM_BYTES_MAX) {
      this.#exchange.abort();
      this.#finish();
      return;
    }
    this.#waiting.push(chunk);
    if (!this.#isWriting) void this.#write();
  }

  end(): void {
    if (this.#isEnded) return;
    this.#finish();
    this.#stream.end();
  }

  /** One piece at a time, the next when the peer took enough of it. */
  async #write(): Promise<void> {
    this.#isWriting = true;
    for (let chunk = this.#waiting.shift(); chunk && !this.#isEnded; chunk = this.#waiting.shift()) {
      await this.#stream.write(chunk);
      this.#waitingBytes -= chunk.length;
    }
    this.#isWriting = false;
  }

  #finish(): void {
    this.#isEnded = true;
    this.#resolveEnded();
  }
}

function eventText(sample: ConsoleSample): string {
  return `event: sample\ndata: ${JSON.stringify(sample)}\n\n`;
}
