/**
 * The uWebSockets.js adapter: the only file that knows its API.
 *
 * A throw in a handler, or a return without reply and without `onAborted`, ends the whole process (SIGABRT); so
 * `onAborted` comes first and nothing touches `res` after an abort or an end. Chunks are neutered after the callback.
 */
import { STATUS_CODES } from 'node:http';
import {
  type BodySink,
  type Exchange,
  type Listen,
  ListenFailed,
  type Reply,
  type ReplyStream,
  type RequestHead,
} from '../../http/exchange.ts';
import type { HttpRequest, HttpResponse, UwsBinding, us_listen_socket } from './uws-binding.ts';

export function listenUws({ uws, version }: UwsBinding): Listen {
  return async ({ host, port, handler }) => {
    const app = uws.App();
    app.any('/*', (res, req) => {
      const exchange = new UwsExchange(res, headOf(res, req));
      res.onAborted(() => exchange.peerGone());
      res.onData((chunk, isLast) => exchange.bodyChunk(new Uint8Array(chunk), isLast));
      handler(exchange);
    });
    const socket = await new Promise<us_listen_socket | false>((resolve) => {
      // Exclusive: refuse the port when another process has it, instead of sharing it.
      app.listen(host, port, uws.LIBUS_LISTEN_EXCLUSIVE_PORT, resolve);
    });
    if (!socket)
      throw new ListenFailed(
        `${host}:${port} cannot be listened on: another process may have it; choose another address`,
      );
    let isListening = true;
    const stopAccepting = (): void => {
      if (isListening) uws.us_listen_socket_close(socket);
      isListening = false;
    };
    return {
      name: `uWebSockets.js ${version}`,
      port: uws.us_socket_local_port(socket),
      stopAccepting,
      close: () => {
        stopAccepting();
        // After the replies that wait for their turn, see `reply`.
        setImmediate(() => app.close());
      },
    };
  };
}

function headOf(res: HttpResponse, req: HttpRequest): RequestHead {
  const headers: [string, string][] = [];
  req.forEach((name, value) => headers.push([name, value]));
  const query = req.getQuery() as string | undefined;
  return {
    method: req.getCaseSensitiveMethod(),
    target: query === undefined ? req.getUrl() : `${req.getUrl()}?${query}`,
    headers,
    peerAddress: Buffer.from(res.getRemoteAddressAsText()).toString('latin1'),
  };
}

class UwsExchange implements Exchange, ReplyStream {
  readonly head: RequestHead;
  readonly #res: HttpResponse;
  #state: 'open' | 'ended' | 'aborted' = 'open';
  #sink: BodySink | undefined;
  readonly #abortListeners: (() => void)[] = [];
  #writable: (() => void) | undefined;

  constructor(res: HttpResponse, head: RequestHead) {
    this.#res = res;
    this.head = head;
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
   * read with the request has been handled, so that a second request behind doubtful framing would still be served;
   * one that comes behind a request without an answer ends the connection instead.
   */
  reply(reply: Reply): void {
    if (reply.close === true) setImmediate(() => this.#send(reply));
    else this.#send(reply);
  }

  #send({ status, headers, body, close = false }: Reply): void {
    if (this.#state !== 'open') return;
    this.#state = 'ended';
    this.#res.cork(() => {
      this.#writeHead(status, headers);
      // An answer to HEAD has no body: one would be taken for the beginning of the next answer.
      this.#res.end(this.head.method === 'HEAD' ? '' : body, close);
    });
  }

  startReply(status: number, headers: Readonly<Record<string, string>>): ReplyStream {
    if (this.#state === 'open') {
      this.#res.onWritable(() => {
        const resume = this.#writable;
        this.#writable = undefined;
        resume?.();
        return true;
      });
      this.#res.cork(() => this.#writeHead(status, headers));
    }
    return this;
  }

  async write(chunk: Buffer): Promise<void> {
    if (this.#state !== 'open') return;
    let hasRoom = true;
    this.#res.cork(() => {
      hasRoom = this.#res.write(chunk);
    });
    if (!hasRoom) {
      await new Promise<void>((resolve) => {
        this.#writable = resolve;
      });
    }
  }

  end(): void {
    if (this.#state !== 'open') return;
    this.#state = 'ended';
    this.#res.cork(() => this.#res.end());
  }

  abort(): void {
    if (this.#state === 'open') this.#res.close();
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

  #writeHead(status: number, headers: Readonly<Record<string, string>>): void {
    this.#res.writeStatus(`${status} ${STATUS_CODES[status] ?? ''}`);
    for (const [name, value] of Object.entries(headers)) this.#res.writeHeader(name, value);
  }
}
