/** One request of uWebSockets.js and its reply. */
import { STATUS_CODES } from 'node:http';
import type { Connection } from '../../http/connections.ts';
import type { BodySink, Exchange, Reply, ReplyStream, RequestHead } from '../../http/exchange.ts';
import type { HttpResponse } from './uws-binding.ts';

/**
 * The end of a large piece is kept back: what does not go out at once is waited for by adding a little of the rest each
 * time the socket takes some. Only so is it seen that nothing is left in the buffer of uWebSockets.js, which would take
 * piece upon piece however slowly the peer reads.
 */
const KEPT_BACK_BYTES = 8 << 10;
const PROBE_BYTES = 128;
/** A socket that can be written to again has had at least as much taken from it. */
const WRITABLE_BYTES = 16 << 10;

export interface ExchangeConnection {
  readonly counted: Connection | undefined;
  endReply(end: () => void): void;
  close(): void;
}

export class UwsExchange implements Exchange, ReplyStream {
  readonly head: RequestHead;
  readonly #res: HttpResponse;
  readonly #connection: ExchangeConnection;
  #state: 'open' | 'ended' | 'aborted' = 'open';
  #sink: BodySink | undefined;
  readonly #abortListeners: (() => void)[] = [];
  #writable: (() => void) | undefined;
  #taken: ((bytes: number) => void) | undefined;
  /** Writes the head of a reply in pieces, with the first of them where that comes at once. */
  #writeHead: (() => void) | undefined;

  constructor(res: HttpResponse, head: RequestHead, connection: ExchangeConnection) {
    this.#res = res;
    this.head = head;
    this.#connection = connection;
  }

  get isAborted(): boolean {
    return this.#state === 'aborted';
  }

  receive(sink: BodySink): void {
    this.#sink = sink;
  }

  onAborted(listener: () => void): void {
    this.#abortListeners.push(listener);
  }

  /**
   * A reply that closes waits for its turn. Sent at once, it would close the connection only when everything that was
   * read with the request has been handled, so that a second request behind it would still be served; one that comes
   * behind a request without an answer ends the connection instead.
   */
  reply(reply: Reply): void {
    if (reply.close === true) setImmediate(() => this.#send(reply));
    else this.#send(reply);
  }

  #send({ status, headers, body, close = false }: Reply): void {
    this.#end(() => {
      writeHead(this.#res, status, headers);
      // An answer to HEAD has no body: one would be taken for the beginning of the next answer.
      this.#res.end(this.head.method === 'HEAD' ? '' : body, close);
    });
  }

  startReply(status: number, headers: Readonly<Record<string, string>>, taken?: (bytes: number) => void): ReplyStream {
    this.#taken = taken;
    if (this.#state === 'open') {
      this.#res.onWritable(() => {
        const resume = this.#writable;
        this.#writable = undefined;
        resume?.();
        return true;
      });
      this.#writeHead = () => writeHead(this.#res, status, headers);
      queueMicrotask(() => {
        if (this.#writeHead && this.#state === 'open') this.#res.cork(() => this.#takeHead());
      });
    }
    return this;
  }

  async write(chunk: Buffer): Promise<void> {
    const most = chunk.subarray(0, Math.max(chunk.length - KEPT_BACK_BYTES, Math.min(chunk.length, KEPT_BACK_BYTES)));
    let rest = chunk.subarray(most.length);
    if (!this.#write(most)) {
      await this.#untilWritable();
      while (rest.length > 0 && this.#state === 'open') {
        const probe = rest.subarray(0, PROBE_BYTES);
        rest = rest.subarray(probe.length);
        if (this.#write(probe)) break;
        await this.#untilWritable();
      }
    }
    if (rest.length > 0 && !this.#write(rest)) await this.#untilWritable();
    if (this.#state === 'open') this.#hasTaken(chunk.length);
  }

  end(): void {
    this.#end(() => {
      this.#takeHead();
      this.#res.end();
    });
  }

  abort(): void {
    if (this.#state === 'open') this.#connection.close();
  }

  isOf(address: string): void {
    this.#connection.counted?.named(address);
  }

  isProven(): void {
    this.#connection.counted?.proven();
  }

  bodyChunk(chunk: Uint8Array, isLast: boolean): void {
    this.#sink?.(chunk, isLast);
  }

  peerGone(): void {
    if (this.#state === 'open') {
      this.#state = 'aborted';
      for (const listener of this.#abortListeners) listener();
    }
    this.#writable?.();
  }

  #end(write: () => void): void {
    if (this.#state !== 'open') return;
    this.#state = 'ended';
    this.#connection.endReply(() => void this.#res.cork(write));
  }

  /** Returns true when all of it, and all before it, has gone out; else the rest is buffered. */
  #write(bytes: Buffer): boolean {
    if (this.#state !== 'open') return true;
    let hasRoom = true;
    this.#res.cork(() => {
      this.#takeHead();
      hasRoom = this.#res.write(bytes);
    });
    return hasRoom;
  }

  #takeHead(): void {
    this.#writeHead?.();
    this.#writeHead = undefined;
  }

  async #untilWritable(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#writable = resolve;
    });
    if (this.#state === 'open') this.#hasTaken(WRITABLE_BYTES);
  }

  #hasTaken(bytes: number): void {
    this.#taken?.(bytes);
    this.#connection.counted?.moved();
  }
}

/** A request that is refused in any case, and its connection closed with the reply: see uws-connection.ts. */
export class DoubtfulExchange implements Exchange {
  readonly head: RequestHead;
  readonly #res: HttpResponse;
  /** Runs what closes the connection. */
  readonly #closing: (close: () => void) => void;
  #isOver = false;

  constructor(res: HttpResponse, head: RequestHead, closing: (close: () => void) => void) {
    this.#res = res;
    this.head = head;
    this.#closing = closing;
  }

  get isAborted(): boolean {
    return this.#isOver;
  }

  receive(): void {}

  onAborted(): void {}

  /** Waits for its turn, as `UwsExchange.reply` does. */
  reply(reply: Reply): void {
    setImmediate(() => this.#send(reply));
  }

  startReply(): ReplyStream {
    this.abort();
    return { write: () => Promise.resolve(), end: () => undefined };
  }

  abort(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#closing(() => void this.#res.close());
  }

  isOf(): void {}

  isProven(): void {}

  /** Its connection may be gone: `res` is not touched any more. */
  peerGone(): void {
    this.#isOver = true;
  }

  /**
   * An end would take the `onAborted` of the connection away, and which one that is is not known. So the body is
   * written as if it were a header, whose line break is then the end of the document.
   */
  #send({ status, headers, body }: Reply): void {
    if (this.#isOver) return;
    const isHead = this.head.method === 'HEAD';
    const text = body.toString();
    const length = Buffer.byteLength(text) + '\r\n'.length;
    this.#res.cork(() => {
      writeHead(this.#res, status, { ...headers, connection: 'close' });
      this.#res.writeHeader('content-length', isHead ? `${length}\r\n` : `${length}\r\n\r\n${text}`);
    });
    this.abort();
  }
}

function writeHead(res: HttpResponse, status: number, headers: Readonly<Record<string, string>>): void {
  res.writeStatus(`${status} ${STATUS_CODES[status] ?? ''}`);
  for (const [name, value] of Object.entries(headers)) res.writeHeader(name, value);
}
