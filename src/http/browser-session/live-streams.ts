/**
 * Live events for pages, as server-sent events. The number of streams is small, and little is buffered for each: a
 * stream that falls behind is cut, and the page opens a new one.
 */
import type { Exchange, Reply, ReplyStream } from '../exchange.ts';
import { problemReply } from '../replies.ts';
import { SECURITY_HEADERS, pageProblem } from './access.ts';
import type { Session, Sessions } from './sessions.ts';

export const STREAMS_MAX = 8;
/** Bytes that may wait for one peer. */
const STREAM_BYTES_MAX = 64 << 10;

interface LiveStreamsOptions {
  sessions: Sessions;
  /** Calls `send` with each event from now on, as `formatEvent` returns it. Returns the function that ends this. */
  subscribe: (send: (text: string) => void) => () => void;
}

export class LiveStreams {
  readonly #options: LiveStreamsOptions;
  readonly #streams = new Set<LiveStream>();
  #isClosed = false;

  constructor(options: LiveStreamsOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#streams.size;
  }

  /** Serves the stream until the peer, the session or this process ends it. */
  async serve(exchange: Exchange, requestId: string, session: Session): Promise<'streamed' | Reply> {
    if (this.#streams.size >= STREAMS_MAX) {
      return pageProblem('TOO_MANY_STREAMS', 'too many windows of this page are open');
    }
    // `close` has ended the streams: a new one would keep the process from stopping.
    if (this.#isClosed) return problemReply('UNAVAILABLE', 'this process is stopping', { close: true });
    const headers = { ...SECURITY_HEADERS, 'content-type': 'text/event-stream', 'x-request-id': requestId };
    const stream = new LiveStream(exchange, exchange.startReply(200, headers));
    this.#streams.add(stream);
    const { sessions, subscribe } = this.#options;
    const unsubscribe = subscribe((text) => {
      if (sessions.isOpen(session)) stream.send(text);
      else stream.end();
    });
    // Tells the page at once that it is connected.
    stream.send(': open\n\n');
    await stream.ended;
    unsubscribe();
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

  /** Writes one chunk at a time, the next one when the peer has taken enough. */
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

export function formatEvent(name: string, data: object): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** A comment line, so that a quiet stream is not taken for a lost one. */
export const KEEP_ALIVE = ': still here\n\n';
