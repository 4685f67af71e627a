/** The plain node:http adapter: for where no uWebSockets.js loads (another C library, another platform), and for what the operator speaks to. */
import type { Socket } from 'node:net';
import { type IncomingMessage, STATUS_CODES, type Server, type ServerResponse, createServer } from 'node:http';
import {
  type BodySink,
  type Exchange,
  type ExchangeHandler,
  type HttpServer,
  type Listen,
  ListenFailed,
  type Reply,
  type ReplyStream,
  type RequestHead,
} from './exchange.ts';

/** As much as the other adapter takes. */
const HEADER_BYTES_MAX = 4096;
const HEADERS_TIMEOUT_MS = 10_000;
/** The handler has deadlines of its own; this one ends what never reached it. */
const REQUEST_TIMEOUT_MS = 120_000;
/** A peer that neither sends nor takes anything for this long is gone; longer than any wait. */
const IDLE_TIMEOUT_MS = 60_000;

/** A server that hands its requests to `handler`; where it listens is its caller's. */
export function exchangeServer(handler: ExchangeHandler): Server {
  // What comes on a connection before the request in front is answered, or after an answer that closes, is never
  // served: behind doubtful framing it may be no request at all. The other adapter keeps to the same.
  const current = new WeakMap<Socket, NodeExchange>();
  const server = createServer(
    {
      maxHeaderSize: HEADER_BYTES_MAX,
      headersTimeout: HEADERS_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      joinDuplicateHeaders: false,
      // Node would answer one without itself, and then go on with what comes behind it. framing.ts refuses it.
      requireHostHeader: false,
    },
    (request, response) => {
      const { socket } = request;
      const earlier = current.get(socket);
      if (earlier) {
        earlier.closeAfterwards();
        return;
      }
      const exchange = new NodeExchange(request, response);
      current.set(socket, exchange);
      response.once('close', () => {
        if (!exchange.closes) current.delete(socket);
      });
      handler(exchange);
    },
  );
  server.setTimeout(IDLE_TIMEOUT_MS);
  return server;
}

export const listenNode: Listen = ({ host, port, handler }) =>
  new Promise<HttpServer>((resolve, reject) => {
    const server = exchangeServer(handler);
    // Not once: a connection that cannot be accepted is told here too, and unheard it would end the process.
    server.on('error', (error: NodeJS.ErrnoException) => {
      reject(
        new ListenFailed(
          `${host}:${port} cannot be listened on (${error.code ?? 'unknown error'}): another process may have it; choose another address`,
        ),
      );
    });
    server.listen({ host, port, exclusive: true }, () => {
      const address = server.address();
      resolve({
        name: `node:http ${process.versions.node}`,
        port: typeof address === 'object' && address ? address.port : port,
        stopAccepting: () => server.close(),
        close: () => {
          server.close();
          server.closeAllConnections();
        },
      });
    });
  });

function headOf(request: IncomingMessage): RequestHead {
  const headers: [string, string][] = [];
  const { rawHeaders } = request;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    headers.push([(rawHeaders[at] ?? '').toLowerCase(), rawHeaders[at + 1] ?? '']);
  }
  return {
    method: request.method ?? '',
    target: request.url ?? '',
    headers,
    peerAddress: request.socket.remoteAddress ?? '',
  };
}

class NodeExchange implements Exchange, ReplyStream {
  readonly head: RequestHead;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  #isAborted = false;
  #closes = false;
  readonly #abortListeners: (() => void)[] = [];

  constructor(request: IncomingMessage, response: ServerResponse) {
    this.#request = request;
    this.#response = response;
    this.head = headOf(request);
    response.on('close', () => {
      if (response.writableFinished || this.#isAborted) return;
      this.#isAborted = true;
      for (const listener of this.#abortListeners) listener();
    });
    // An error on either side ends in 'close'; without a listener it would end the process.
    request.on('error', () => undefined);
    response.on('error', () => undefined);
  }

  get isAborted(): boolean {
    return this.#isAborted;
  }

  /** Whether this is the last exchange of its connection. */
  get closes(): boolean {
    return this.#closes;
  }

  closeAfterwards(): void {
    this.#closes = true;
    if (this.#response.writableEnded) this.#request.socket.destroySoon();
  }

  receive(sink: BodySink): void {
    this.#request.on('data', (chunk: Buffer) => sink(chunk, false));
    this.#request.on('end', () => sink(new Uint8Array(0), true));
  }

  onAborted(listener: () => void): void {
    this.#abortListeners.push(listener);
  }

  reply({ status, headers, body, close = false }: Reply): void {
    if (this.#isAborted || this.#response.headersSent) return;
    if (close) this.#closes = true;
    const connection = this.#closes ? { connection: 'close' } : {};
    const length = { 'content-length': String(Buffer.byteLength(body)) };
    this.#response.writeHead(status, STATUS_CODES[status] ?? '', { ...headers, ...length, ...connection });
    this.#end(body);
  }

  startReply(status: number, headers: Readonly<Record<string, string>>): ReplyStream {
    if (!this.#isAborted) this.#response.writeHead(status, STATUS_CODES[status] ?? '', headers);
    return this;
  }

  async write(chunk: Buffer): Promise<void> {
    if (this.#isAborted || this.#response.write(chunk)) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        this.#response.off('drain', done);
        this.#response.off('close', done);
        resolve();
      };
      this.#response.on('drain', done);
      this.#response.on('close', done);
    });
  }

  end(): void {
    if (!this.#isAborted) this.#end('');
  }

  abort(): void {
    this.#request.socket.destroy();
  }

  /** A closing reply goes out first; what the peer still sends is not read. */
  #end(body: Buffer | string): void {
    this.#response.end(body, () => {
      if (this.#closes) this.#request.socket.destroySoon();
    });
  }
}
